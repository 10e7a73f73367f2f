#include "report/settings.h"

#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/json_print.h"
#include "train/config.h"

const cJSON *settings_of(cJSON *row) {
    cJSON *config = cJSON_GetObjectItemCaseSensitive(row, "config");
    if (!cJSON_IsObject(json_at(config, "model.attention"))) return NULL;
    config_complete(config);
    return json_at(config, "model.attention");
}

bool settings_same(const cJSON *a, const cJSON *b) {
    return a && b ? cJSON_Compare(a, b, true) : a == b;
}

static bool differs(const cJSON *key, const cJSON *const *all, int n) {
    for (int i = 0; i < n; i++)
        if (all[i] && !settings_same(key, cJSON_GetObjectItemCaseSensitive(all[i], key->string)))
            return true;
    return false;
}

char *settings_text(const cJSON *own, const cJSON *const *all, int n) {
    char list[256] = "";
    for (const cJSON *k = own ? own->child : NULL; k; k = k->next) {
        if (!differs(k, all, n)) continue;
        char *text = json_text(k);
        format_add(list, sizeof list, "%s%s %s", list[0] ? ", " : "", k->string, text);
        mem_free(text);
    }
    return mem_strdup(list);
}

/* ---- of runs ---- */

static bool has_column(const Groups *g, const char *key) {
    for (int i = 0; i < g->nkeys; i++)
        if (!strcmp(g->key[i], key)) return true;
    return false;
}

/* A config with that mechanism and nothing else said, flat. */
static cJSON *defaults_of(const Group *group) {
    cJSON *config = cJSON_CreateObject();
    cJSON_AddStringToObject(config, "task", json_string(group->run[0]->config, "task"));
    cJSON *attention =
        cJSON_AddObjectToObject(cJSON_AddObjectToObject(config, "model"), "attention");
    cJSON_AddStringToObject(attention, "type", group->type);
    cJSON *flat = group_flat(config, true);
    cJSON_Delete(config);
    return flat;
}

char *settings_of_group(const Groups *g, const Group *group) {
    static const char section[] = "model.attention.";
    char list[256] = "";
    const cJSON *k;
    if (!group->type) return mem_strdup("");
    cJSON *defaults = defaults_of(group);
    cJSON_ArrayForEach(k, group->values) {
        const cJSON *usual = cJSON_GetObjectItemCaseSensitive(defaults, k->string);
        if (strncmp(k->string, section, strlen(section)) != 0 || has_column(g, k->string) ||
            !strcmp(k->string, "model.attention.type") || cJSON_Compare(k, usual, true))
            continue;
        format_add(list, sizeof list, "%s%s %s", list[0] ? ", " : "", k->string + strlen(section),
                   k->valuestring);
    }
    cJSON_Delete(defaults);
    return mem_strdup(list);
}
