#include "report/keys.h"

#include <string.h>

#include "core/mem.h"
#include "core/nearest.h"

/* All keys of the groups, each once; of an object that is to be deleted. */
static cJSON *all_keys(const Groups *g) {
    cJSON *keys = cJSON_CreateObject();
    const cJSON *k;
    for (int i = 0; i < g->n; i++) {
        cJSON_ArrayForEach(k, g->group[i].values) {
            if (!cJSON_GetObjectItemCaseSensitive(keys, k->string))
                cJSON_AddStringToObject(keys, k->string, k->string);
        }
    }
    return keys;
}

static const char *last_part(const char *key) {
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

/* By whole names and last parts. */
static void no_key(const cJSON *keys, const char *name, const char *option, Err *err) {
    const char **words = mem_alloc(2 * (size_t)cJSON_GetArraySize(keys) + 1, sizeof *words);
    int n = 0;
    const cJSON *k;
    cJSON_ArrayForEach(k, keys) {
        words[n++] = last_part(k->string);
        words[n++] = k->string;
    }
    const char *meant = nearest_word(name, words);
    err_set(err, EX_USAGE,
            "--%s: the runs' configs have no key '%s' that tells them apart%s%s%s; 'cast_report "
            "RUN --columns help' lists keys",
            option, name, meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'" : "");
    mem_free(words);
}

/* The groups' own text of it outlives the list of keys. */
static const char *lasting(const Groups *g, const char *key) {
    const cJSON *own = NULL;
    for (int i = 0; i < g->n && !own; i++)
        own = cJSON_GetObjectItemCaseSensitive(g->group[i].values, key);
    return own ? own->string : NULL;
}

const char *keys_find(const Groups *g, const char *name, const char *option, Err *err) {
    cJSON *keys = all_keys(g);
    const cJSON *k, *found = cJSON_GetObjectItemCaseSensitive(keys, name);
    int n = found != NULL;
    if (!found) {
        cJSON_ArrayForEach(k, keys) {
            if (!strcmp(last_part(k->string), name)) found = k, n++;
        }
    }
    if (n == 0) no_key(keys, name, option, err);
    if (n > 1)
        err_set(err, EX_USAGE, "--%s: several keys end in '%s': say all of one, as '%s'", option,
                name, found->string);
    const char *key = n == 1 ? lasting(g, found->string) : NULL;
    cJSON_Delete(keys);
    return key;
}
