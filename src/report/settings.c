#include "report/settings.h"

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
