#include "report/rundata.h"

#include <string.h>

#include "core/log.h"
#include "data/dataset.h"
#include "io/json.h"
#include "io/text.h"

static const cJSON *data_of(const Run *r) {
    return cJSON_GetObjectItemCaseSensitive(r->env, "data");
}

static const char *hash_of(const Run *r, int split) {
    const cJSON *hashes = cJSON_GetObjectItemCaseSensitive(data_of(r), "hashes");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(hashes, split_names[split]));
}

static bool item_differs(const Run *a, const Run *b, const char *key) {
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(data_of(a), key);
    const cJSON *y = cJSON_GetObjectItemCaseSensitive(data_of(b), key);
    return x && y && !cJSON_Compare(x, y, true);
}

static bool split_differs(const Run *a, const Run *b, int split) {
    const char *x = hash_of(a, split), *y = hash_of(b, split);
    return x && y ? strcmp(x, y) != 0 : item_differs(a, b, split_names[split]);
}

bool rundata_is_told(const Run *r) { return data_of(r) != NULL; }

bool rundata_is_hashed(const Run *r) { return hash_of(r, SPLIT_TRAIN) != NULL; }

bool rundata_tests_differ(const Run *a, const Run *b) { return split_differs(a, b, SPLIT_TEST); }

bool rundata_differ(const Run *a, const Run *b) {
    if (a == b) return false;
    if (a->data_changed || b->data_changed) return true;
    for (int s = 0; s < SPLITS; s++)
        if (split_differs(a, b, s)) return true;
    return !(rundata_is_hashed(a) && rundata_is_hashed(b)) && item_differs(a, b, "source");
}

char *rundata_name(const Run *r) {
    const char *source = json_string(data_of(r), "source");
    char counts[128] = "", hashes[128] = "";
    for (int s = 0; s < SPLITS; s++) {
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(data_of(r), split_names[s]);
        if (cJSON_IsNumber(n))
            format_add(counts, sizeof counts, "%s%.0f", *counts ? " / " : "", n->valuedouble);
        if (hash_of(r, s))
            format_add(hashes, sizeof hashes, "%s%.16s", *hashes ? " / " : "", hash_of(r, s));
    }
    return text_format("%s%s%s%s%s%s", source ? source : "", source && *counts ? ": " : "", counts,
                       *hashes ? ", hashes " : "", hashes,
                       r->data_changed ? ", after others (--accept-data)" : "");
}
