#include "io/meant.h"

#include <string.h>

#include "core/mem.h"
#include "core/nearest.h"

/* The first part of the path that is not there: where its name begins, and its length; 0: none. */
static size_t missing_part(const char *path, size_t *at) {
    char part[FILE_PATH_MAX];
    for (size_t from = 0, n; path[from]; from += n) {
        while (path[from] == '/') from++;
        n = strcspn(path + from, "/");
        if (n == 0) break;
        snprintf(part, sizeof part, "%.*s", (int)(from + n), path);
        *at = from;
        if (!file_exists(part)) return n;
    }
    return 0;
}

/* The nearest name beside it; NULL: none. To be freed. */
static char *nearest_in(const char *dir, const char *name) {
    FileList list;
    Err ignored;
    if (!file_list(&list, dir, "", "", &ignored)) return NULL;
    const char **names = mem_alloc((size_t)list.n + 1, sizeof *names);
    for (int i = 0; i < list.n; i++) {
        const char *slash = strrchr(list.name[i], '/');
        names[i] = slash ? slash + 1 : list.name[i];
    }
    const char *other = nearest_word(name, names);
    char *found = other ? mem_strdup(other) : NULL;
    mem_free(names);
    file_list_free(&list);
    return found;
}

bool meant_add(const char *path, Err *err) {
    size_t at = 0;
    char dir[FILE_PATH_MAX], name[NEAREST_MOST + 1], other[FILE_PATH_MAX];
    if (strlen(path) >= FILE_PATH_MAX) return false;
    const size_t n = missing_part(path, &at);
    if (n == 0 || n > NEAREST_MOST) return false;
    snprintf(dir, sizeof dir, "%.*s", at ? (int)at : 1, at ? path : ".");
    snprintf(name, sizeof name, "%.*s", (int)n, path + at);
    char *nearest = nearest_in(dir, name);
    if (nearest &&
        snprintf(other, sizeof other, "%.*s%s%s", (int)at, path, nearest, path + at + n) <
            FILE_PATH_MAX &&
        file_exists(other))
        err_set(err, err->code, "%s; did you mean '%s'?", err->text, other);
    mem_free(nearest);
    return false;
}
