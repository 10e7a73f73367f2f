/* A directory of a test's own, removed at its end, and files in it. Pass scratch_open and
 * scratch_close to cmocka_run_group_tests. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_dir[256];

static inline int scratch_open(void **state) {
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(scratch_dir, sizeof scratch_dir, "%s/cast_test_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

static inline void scratch_remove(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) return;
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char inner[4096];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < (int)sizeof inner)
            scratch_remove(inner);
    }
    if (d) closedir(d);
    rmdir(path);
}

static inline int scratch_close(void **state) {
    (void)state;
    scratch_remove(scratch_dir);
    return 0;
}

/* The path of a name in the directory; the last 64 results stay valid. */
static inline const char *scratch(const char *name) {
    static char path[64][1024];
    static int turn;
    char *p = path[turn++ % 64];
    snprintf(p, sizeof path[0], "%s/%s", scratch_dir, name);
    return p;
}

static inline const char *scratch_mkdir(const char *name) {
    const char *path = scratch(name);
    mkdir(path, 0777);
    return path;
}

static inline const char *scratch_write(const char *name, const void *data, size_t size) {
    const char *path = scratch(name);
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    if (!f || fclose(f) != 0 || !ok) {
        fprintf(stderr, "%s: the test cannot write it\n", path);
        abort();
    }
    return path;
}

/* The whole file, to be freed. */
static inline unsigned char *scratch_read(const char *path, size_t *size) {
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0) abort();
    unsigned char *data = malloc((size_t)st.st_size + 1);
    *size = (size_t)st.st_size;
    if (!data || fread(data, 1, *size, f) != *size) abort();
    fclose(f);
    return data;
}

/* $CAST_DATA is `value` (NULL: not set) until scratch_data_back. */
static char scratch_data_before[1024];
static inline void scratch_data(const char *value) {
    const char *was = getenv("CAST_DATA");
    snprintf(scratch_data_before, sizeof scratch_data_before, "%s", was ? was : "");
    if (value)
        setenv("CAST_DATA", value, 1);
    else
        unsetenv("CAST_DATA");
}
static inline void scratch_data_back(void) {
    if (scratch_data_before[0])
        setenv("CAST_DATA", scratch_data_before, 1);
    else
        unsetenv("CAST_DATA");
}

#endif
