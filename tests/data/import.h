/* Importing official files that a test has written, and looking at what came out. */
#ifndef TESTS_DATA_IMPORT_H
#define TESTS_DATA_IMPORT_H

#include "data/dataset.h"
#include "data/task.h"
#include "scratch.h"

static inline bool import_seeded(const char *task, const char *from, const char *out, uint64_t seed,
                                 Err *err) {
    TaskRequest r = {.from = from, .out = out, .seed = seed};
    *err = (Err){0};
    return task_import(task_find(task), &r, err);
}

static inline bool import_try(const char *task, const char *from, const char *out, Err *err) {
    return import_seeded(task, from, out, 1, err);
}

static inline void import_expect(const char *task, const char *from, const char *out) {
    Err err;
    if (!import_try(task, from, out, &err)) fail_msg("%s", err.text);
}

/* It is refused so, and leaves nothing behind. */
static inline void import_refused(const char *task, const char *from, int code, const char *what) {
    Err err;
    if (import_try(task, from, scratch("never"), &err)) fail_msg("imported: %s", what);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    assert_int_equal(err.code, code);
    assert_false(file_exists(scratch("never")));
}

static inline void import_open(Dataset *d, const char *dir, int split) {
    char path[FILE_PATH_MAX];
    Err err = {0};
    if (!dataset_path(path, dir, split, &err) || !dataset_open(d, path, &err))
        fail_msg("%s", err.text);
}

/* Whether a document is these bytes, as ids of byte + 1. */
static inline bool import_is(const Dataset *d, int document, const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    if ((size_t)dataset_length(d, document) != size) return false;
    for (size_t i = 0; i < size; i++)
        if (d->tokens16[d->offsets[document] + (int64_t)i] != b[i] + 1) return false;
    return true;
}

static inline bool import_same(const char *a, const char *b, int split) {
    char path[FILE_PATH_MAX];
    size_t size[2];
    Err err;
    if (!dataset_path(path, a, split, &err)) return false;
    unsigned char *x = scratch_read(path, &size[0]);
    if (!dataset_path(path, b, split, &err)) return false;
    unsigned char *y = scratch_read(path, &size[1]);
    const bool same = size[0] == size[1] && memcmp(x, y, size[0]) == 0;
    free(x);
    free(y);
    return same;
}

/* A file of `size` bytes that takes no room but for what it begins with. */
static inline const char *import_sparse(const char *name, const char *begin, off_t size) {
    const char *path = scratch_write(name, begin, strlen(begin));
    if (truncate(path, size) != 0) abort();
    return path;
}

static inline const char *import_write(const char *name, const char *text) {
    return scratch_write(name, text, strlen(text));
}

/* $CAST_DATA/<name> into buf; false where it is not set or does not have that. */
static inline bool import_official(char buf[FILE_PATH_MAX], const char *name) {
    const char *root = getenv("CAST_DATA");
    if (!root || !*root) return false;
    return snprintf(buf, FILE_PATH_MAX, "%s/%s", root, name) < FILE_PATH_MAX && file_exists(buf);
}

#endif
