/* What the classes of a set of one's own are called: its metadata "class_names", a JSON array of as
 * many strings. The benchmark's tasks have theirs in data/task.h. */
#ifndef DATA_CLASSES_H
#define DATA_CLASSES_H

#include <cjson/cJSON.h>

#include "io/safetensors.h"

#define CLASS_NAMES "class_names"
enum { CLASS_NAME_MOST = 64 }; /* bytes */

typedef struct ClassNames {
    const char **name; /* one a class; NULL: there are none */
    cJSON *list;       /* which holds them */
} ClassNames;

/* EX_DATAERR: "class_names" is there, and is no array of `classes` names, of 1 to 64 bytes without
 * control characters. */
bool classes_open(ClassNames *c, const StFile *f, int classes, Err *err);
/* The same of a list that the file at `path` has, which is theirs from here on. */
bool classes_take(ClassNames *c, cJSON *list, const char *path, int classes, Err *err);
void classes_close(ClassNames *c);

/* Whether they are those that `first` has, where both have names; EX_DATAERR: `path` has others
 * than what `first` is of ("another split of the set"). */
bool classes_agree(const ClassNames *c, const ClassNames *first, const char *path, const char *of,
                   int classes, Err *err);

/* A class as people read it, into buf, which is returned: "1 positive", or "1 (5)" where its name
 * begins with a digit, or "1" where name is NULL; of a long name the first 24 bytes. */
const char *class_text(int k, const char *name, char *buf, size_t size);

#endif
