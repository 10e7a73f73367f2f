#include "train/config_file.h"

#include <string.h>
#include <unistd.h>

#include "attention/attention.h"
#include "core/mem.h"
#include "io/json.h"
#include "train/run.h"

/* Configs beside the program: in a source tree, installed, of a build in a source tree. In that
 * order, since two folders above an installed one somebody may have configs of his own. */
static const char *const places[] = {"configs", "../share/cast/configs", "../../configs"};
enum { PLACES = sizeof places / sizeof *places };

/* False: it does not say where it is. */
static bool find_place(char place[FILE_PATH_MAX], int i) {
    char program[FILE_PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return false;
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash) return false;
    *slash = '\0';
    return snprintf(place, FILE_PATH_MAX, "%s/%s", program, places[i]) < FILE_PATH_MAX;
}

/* Of a name without a directory; false: there is none. */
static bool find_shipped(char path[FILE_PATH_MAX], const char *name) {
    char place[FILE_PATH_MAX];
    const size_t n = strlen(name);
    const bool whole = n > 5 && !strcmp(name + n - 5, ".json");
    if (strchr(name, '/')) return false;
    for (int i = 0; i < PLACES; i++)
        if (find_place(place, i) &&
            snprintf(path, FILE_PATH_MAX, "%s/%s%s", place, name, whole ? "" : ".json") <
                FILE_PATH_MAX &&
            file_exists(path))
            return true;
    return false;
}

/* Of a path without its ".json". */
static bool find_named(char where[FILE_PATH_MAX], const char *path) {
    return snprintf(where, FILE_PATH_MAX, "%s.json", path) < FILE_PATH_MAX && file_exists(where);
}

/* ---- a base ---- */

enum { MOST_BASES = 8 };

static void merge(cJSON *base, const cJSON *own);

/* One item of a config in the place of its base's. */
static void merge_item(cJSON *base, const cJSON *own) {
    cJSON *was = cJSON_GetObjectItemCaseSensitive(base, own->string);
    const char *type = json_string(own, "type"), *other = json_string(was, "type");
    const bool another = !strcmp(own->string, "attention") && was && type &&
                         strcmp(type, other ? other : ATTN_DEFAULT) != 0;
    if (was && cJSON_IsObject(was) && cJSON_IsObject(own) && !another) {
        merge(was, own);
        return;
    }
    if (was) cJSON_DeleteItemFromObjectCaseSensitive(base, own->string);
    cJSON_AddItemToObject(base, own->string, cJSON_Duplicate(own, true));
}

static void merge(cJSON *base, const cJSON *own) {
    for (const cJSON *o = own->child; o; o = o->next) merge_item(base, o);
}

static cJSON *read_on_base(const char *path, int depth, Err *err);

/* The path of what the config at `path` calls its base; false: too long. */
static bool find_base(char base[FILE_PATH_MAX], const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    const int dir = slash && *name != '/' ? (int)(slash - path) + 1 : 0;
    return snprintf(base, FILE_PATH_MAX, "%.*s%s", dir, path, name) < FILE_PATH_MAX;
}

/* Takes over `own`, the file's. */
static cJSON *put_on_base(cJSON *own, const char *path, int depth, Err *err) {
    char base[FILE_PATH_MAX];
    cJSON *key = cJSON_DetachItemFromObjectCaseSensitive(own, "base"), *root = NULL;
    const char *name = cJSON_GetStringValue(key);
    if (!name)
        err_set(err, EX_CONFIG, "%s: key 'base' must be the path of a config", path);
    else if (depth == MOST_BASES)
        err_set(err, EX_CONFIG, "%s: key 'base': more than %d configs on each other", path,
                MOST_BASES);
    else if (!find_base(base, path, name))
        err_set(err, EX_CONFIG, "%s: key 'base': this name is too long", path);
    else if (!(root = read_on_base(base, depth + 1, err)))
        err_set(err, err->code, "%s: key 'base': %s", path, err->text);
    if (root) merge(root, own);
    cJSON_Delete(key);
    cJSON_Delete(own);
    return root;
}

static cJSON *read_on_base(const char *path, int depth, Err *err) {
    cJSON *own = json_read(path, err);
    const bool based = cJSON_GetObjectItemCaseSensitive(own, "base") != NULL;
    return based ? put_on_base(own, path, depth, err) : own;
}

/* As it is written, or in its section. */
static bool has_key(const char *path, const char *key) {
    Err ignored;
    cJSON *own = json_read(path, &ignored);
    const bool has = cJSON_GetObjectItemCaseSensitive(own, key) || json_at(own, key);
    cJSON_Delete(own);
    return has;
}

static bool next_base(char path[FILE_PATH_MAX]) {
    char base[FILE_PATH_MAX];
    Err ignored;
    cJSON *own = json_read(path, &ignored);
    const char *name = json_string(own, "base");
    const bool found = name && find_base(base, path, name);
    if (found) snprintf(path, FILE_PATH_MAX, "%s", base);
    cJSON_Delete(own);
    return found;
}

void config_file_blame(Err *err, const char *where) {
    char path[FILE_PATH_MAX], key[sizeof err->key];
    if (!err->key[0] || strncmp(err->text, where, strlen(where)) != 0) return;
    snprintf(path, sizeof path, "%s", where);
    snprintf(key, sizeof key, "%s", err->key);
    for (int depth = 0; depth <= MOST_BASES && !has_key(path, key); depth++)
        if (!next_base(path)) return;
    if (!strcmp(path, where)) return;
    err_set(err, err->code, "%s (it is in the base, %s)", err->text, path);
    err_blame(err, key);
}

cJSON *config_file_read(const char *path, char where[FILE_PATH_MAX], Err *err) {
    snprintf(where, FILE_PATH_MAX, "%s", path);
    const bool there = file_exists(path) && !file_is_dir(path);
    if (!there && !find_named(where, path) && !find_shipped(where, path)) {
        snprintf(where, FILE_PATH_MAX, "%s", path);
        if (path[strcspn(path, "=/")] == '=') {
            err_set(err, EX_USAGE, "'%s': CONFIG comes first, key=value behind it", path);
            return NULL;
        }
        if (file_is_dir(path) && !run_check_there(path, err)) return NULL;
    }
    cJSON *root = read_on_base(where, 0, err);
    if (!root && err->code == EX_NOINPUT && !strchr(path, '/'))
        err_set(err, err->code, "%s; 'cast_train --help' lists the shipped ones", err->text);
    return root;
}

/* ---- all of them ---- */

enum { COLUMNS = 100 };

void config_file_print_shipped(FILE *f, int indent) {
    char place[FILE_PATH_MAX];
    FileList list;
    Err ignored;
    for (int i = 0; i < PLACES; i++) {
        if (!find_place(place, i) || !file_list(&list, place, "", ".json", &ignored)) continue;
        int at = indent;
        for (int k = 0; k < list.n; k++) {
            const char *slash = strrchr(list.name[k], '/'),
                       *name = slash ? slash + 1 : list.name[k];
            const int n = (int)strcspn(name, ".");
            if (at + n >= COLUMNS) {
                fprintf(f, "\n%*s", indent, "");
                at = indent;
            }
            at += fprintf(f, "%s%.*s", at > indent ? " " : "", n, name);
        }
        const bool any = list.n > 0;
        file_list_free(&list);
        if (any) return;
    }
}
