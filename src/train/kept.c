#include "train/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "io/kind.h"

#define START "at-"
#define END ".safetensors"
enum { DIGITS = 10, NAME = sizeof START - 1 + DIGITS + sizeof END - 1 };

bool kept_path(char path[FILE_PATH_MAX], const char *dir, int64_t update, Err *err) {
    char name[NAME + 16];
    snprintf(name, sizeof name, START "%0*lld" END, DIGITS, (long long)update);
    return file_in(path, dir, name, err);
}

static const char *name_of(const char *path) { return strrchr(path, '/') + 1; }

static int64_t update_of(const char *path) {
    return strtoll(name_of(path) + sizeof START - 1, NULL, 10);
}

static bool is_kept(const char *path) {
    return strspn(name_of(path) + sizeof START - 1, "0123456789") == DIGITS &&
           strlen(name_of(path)) == NAME && kind_is(path, KIND_CHECKPOINT);
}

bool kept_list(FileList *paths, const char *dir, Err *err) {
    int n = 0;
    if (!file_list(paths, dir, START, END, err)) return false;
    for (int i = 0; i < paths->n; i++) {
        if (is_kept(paths->name[i]))
            paths->name[n++] = paths->name[i];
        else
            mem_free(paths->name[i]);
    }
    paths->n = n;
    return true;
}

int kept_count(const char *dir) {
    FileList paths;
    Err ignored;
    if (!kept_list(&paths, dir, &ignored)) return 0;
    const int n = paths.n;
    file_list_free(&paths);
    return n;
}

bool kept_prune(const char *dir, int keep, int64_t update, Err *err) {
    FileList paths;
    bool ok = true;
    if (!kept_list(&paths, dir, err)) return false;
    int left = paths.n;
    while (left > 0 && update_of(paths.name[left - 1]) > update) left--;
    for (int i = 0; i < paths.n && ok; i++)
        if (i < left - keep || i >= left) ok = file_remove(paths.name[i], err);
    file_list_free(&paths);
    return ok;
}

void kept_tidy(const char *dir) {
    FileList paths;
    Err ignored;
    if (!file_list(&paths, dir, START, "", &ignored)) return;
    for (int i = 0; i < paths.n; i++) {
        char *name = strrchr(paths.name[i], '/') + 1, base[NAME + 1];
        snprintf(base, sizeof base, "%s", name);
        if (!atomic_is_temp(name, base)) continue;
        name[NAME] = '\0';
        atomic_tidy(paths.name[i]);
    }
    file_list_free(&paths);
}
