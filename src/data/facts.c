#include "data/facts.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "core/mem.h"
#include "io/json.h"
#include "io/json_print.h"

enum { DEPTH = 2 }; /* an object, and a list of strings in it */

static const struct {
    const char *key;
    int most;
    size_t offset;
} numbers[] = {
    {"vocab", DATASET_VOCAB_MAX, offsetof(Facts, vocab)},
    {"classes", DATASET_CLASSES_MAX, offsetof(Facts, classes)},
    {"per_example", 2, offsetof(Facts, per_example)},
    {"longest", INT_MAX, offsetof(Facts, longest)},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static int *number(Facts *s, int i) { return (int *)(void *)((char *)s + numbers[i].offset); }

/* ---- writing ---- */

static char *text_of_facts(Facts *s, const cJSON *names) {
    cJSON *o = cJSON_CreateObject();
    for (int i = 0; i < NUMBERS; i++) cJSON_AddNumberToObject(o, numbers[i].key, *number(s, i));
    if (s->ids) cJSON_AddStringToObject(o, DATASET_IDS, s->ids);
    if (names) cJSON_AddItemToObject(o, CLASS_NAMES, cJSON_Duplicate(names, true));
    char *text = json_text(o);
    cJSON_Delete(o);
    return text;
}

void facts_of_set(Facts *s, Dataset *d) {
    *s = (Facts){d->vocab,       d->classes, d->per_example, dataset_longest(d), dataset_kind(d),
                 d->class_names, NULL};
    d->class_names = (ClassNames){0};
    s->text = text_of_facts(s, s->class_names.list);
    if (strlen(s->text) <= FACTS_MOST) return;
    mem_free(s->text);
    s->text = text_of_facts(s, NULL);
}

/* ---- reading ---- */

static bool read_numbers(Facts *s, const cJSON *o, const char *path, Err *err) {
    for (int i = 0; i < NUMBERS; i++) {
        const double x = json_number(o, numbers[i].key);
        if (!(x >= 1 && x <= numbers[i].most) || x != (int)x)
            return err_set(err, EX_DATAERR,
                           "%s: metadata \"" FACTS_META "\": \"%s\": expected 1 to %d", path,
                           numbers[i].key, numbers[i].most);
        *number(s, i) = (int)x;
    }
    return true;
}

static bool read_ids(Facts *s, const cJSON *o, const char *path, Err *err) {
    if (!cJSON_GetObjectItemCaseSensitive(o, DATASET_IDS)) return true;
    s->ids = dataset_kind_of(json_string(o, DATASET_IDS), s->vocab);
    return s->ids || err_set(err, EX_DATAERR,
                             "%s: metadata \"" FACTS_META "\": \"" DATASET_IDS
                             "\": are not those of a vocab of %d",
                             path, s->vocab);
}

static bool read_all(Facts *s, cJSON *o, const char *path, Err *err) {
    cJSON *names = cJSON_DetachItemFromObjectCaseSensitive(o, CLASS_NAMES);
    if (read_numbers(s, o, path, err) && read_ids(s, o, path, err))
        return !names || classes_take(&s->class_names, names, path, s->classes, err);
    cJSON_Delete(names);
    return false;
}

bool facts_read(Facts *s, const StFile *weights, Err *err) {
    const char *text = st_meta(weights, FACTS_META), *path = weights->path;
    *s = (Facts){0};
    if (!text) return true;
    cJSON *o = json_parse(text, strlen(text), ST_MAX_HEADER, DEPTH, path, err);
    const bool ok = o && read_all(s, o, path, err);
    cJSON_Delete(o);
    if (ok) {
        s->text = mem_strdup(text);
    } else {
        facts_close(s);
        err->code = EX_DATAERR; /* no config that somebody wrote */
    }
    return ok;
}

void facts_close(Facts *s) {
    classes_close(&s->class_names);
    mem_free(s->text);
    *s = (Facts){0};
}
