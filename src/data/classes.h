/* What the classes of a set of one's own are called: its metadata "labels", a JSON array of as many
 * strings. The benchmark's tasks have theirs in data/task.h. */
#ifndef DATA_CLASSES_H
#define DATA_CLASSES_H

#include <cjson/cJSON.h>

#include "io/safetensors.h"

enum { CLASS_NAME_MOST = 64 }; /* bytes */

typedef struct ClassNames {
    const char **name; /* one a class; NULL: there are none */
    cJSON *list;       /* which holds them */
} ClassNames;

/* EX_DATAERR: "labels" is there, and is no array of `classes` names, of 1 to 64 bytes that a
 * terminal can show. */
bool classes_open(ClassNames *c, const StFile *f, int classes, Err *err);
void classes_close(ClassNames *c);

/* Whether they are the training split's, where both have names; EX_DATAERR: `path` has others. */
bool classes_agree(const ClassNames *c, const ClassNames *trained, const char *path, int classes,
                   Err *err);

/* A class as people read it, into buf, which is returned: "1 positive", or its number alone where
 * name is NULL; a long name's first 24 bytes. */
const char *class_text(int k, const char *name, char *buf, size_t size);

#endif
