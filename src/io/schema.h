/* A typed schema for configs: it knows no key itself. Model, mechanisms, tasks and training each
 * declare a table of keys once; reading, checking, --help and writing back walk these tables. */
#ifndef IO_SCHEMA_H
#define IO_SCHEMA_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "core/err.h"

typedef enum KeyType {
    KEY_INT,    /* int        */
    KEY_REAL,   /* double     */
    KEY_BOOL,   /* bool       */
    KEY_CHOICE, /* int: the index of the word in `choices` */
    KEY_SIZE,   /* int: a number >= min >= 0, or a word of `choices`, stored as -1 - index */
    KEY_TEXT    /* char[KEY_TEXT_MAX] */
} KeyType;

enum { KEY_TEXT_MAX = 1024 };

/* What a KEY_INT must be besides its range; NULL: any number. */
#define KEY_EVEN "even"
#define KEY_ODD_OR_0 "odd or 0"
/* What a KEY_REAL may be besides its range. */
#define KEY_OR_MINUS_1 "or -1"

typedef struct ConfigKey {
    const char *name;
    KeyType type;
    size_t offset;        /* of the value in the owner's struct */
    const char *fallback; /* as JSON text ("0.9", "true", "\"mean\""); NULL: the key is required */
    double min, max;      /* KEY_INT, KEY_REAL, KEY_SIZE: inclusive range */
    const char *choices;  /* words with spaces between; of numbers KEY_EVEN and the like */
    const char *help;
    const char *(*choice)(int index); /* instead of `choices`: a table's words, then NULL */
    const char *also;                 /* what other programs call it, words as in `choices` */
    unsigned flags;                   /* what the owner says of the key; nothing here reads them */
} ConfigKey;
/* A table ends with a row whose name is NULL. */

/* Fills `out` from object `obj` (NULL: all defaults). Unknown keys, wrong types, values out of
 * range and missing required keys are errors (EX_CONFIG) that name `where` (the file), the dotted
 * key, the value, what is allowed and the nearest known key or word. `prefix` is the dotted path of
 * `obj` ("model.attention"; "" at the root). `skip` lists sub-objects read elsewhere (separated by
 * spaces, may be NULL). */
bool schema_read(void *out, const ConfigKey *keys, const cJSON *obj, const char *where,
                 const char *prefix, const char *skip, Err *err);

/* The part of that which looks at the names alone: `obj` is an object, and knows no other key. */
bool schema_check(const ConfigKey *keys, const cJSON *obj, const char *where, const char *prefix,
                  const char *skip, Err *err);

/* The row of that name; NULL: there is none. */
const ConfigKey *schema_find(const ConfigKey *keys, const char *name);

/* The row that other programs call by this name; NULL: there is none. */
const ConfigKey *schema_usual(const ConfigKey *keys, const char *name);

/* Adds to the object `section` of `root`, made where there is none, each key that it lacks, with
 * its default. Returns the section; NULL: it is no object. */
cJSON *schema_complete(const ConfigKey *keys, cJSON *root, const char *section);

/* Adds every key with its value in `in` to `obj`: the resolved config. */
void schema_write(const void *in, const ConfigKey *keys, cJSON *obj);

/* One line a key: dotted name, type and range, default, help. */
void schema_help(FILE *f, const ConfigKey *keys, const char *prefix);

/* The word of a KEY_CHOICE value. */
const char *schema_word(const char *choices, int index, char *buf, size_t size);

/* The error (EX_CONFIG) for a value that is none of `words`: lists them, and names the nearest. */
bool schema_not_among(const char *where, const char *key, const char *got, const char *const *words,
                      Err *err);

#endif
