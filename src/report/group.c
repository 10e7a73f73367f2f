#include "report/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "report/rundata.h"
#include "train/config.h"

/* ---- a config, flat ---- */

/* A string is without its quotes. `all`: incidental keys too. */
static void add_values(cJSON *values, const cJSON *object, const char *prefix, bool all) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        char *key = text_format("%s%s%s", prefix, *prefix ? "." : "", item->string);
        if (cJSON_IsObject(item)) {
            add_values(values, item, key, all);
        } else if (all || !config_key_is_incidental(key)) {
            char *text = json_text(item);
            cJSON_AddStringToObject(values, key, text);
            mem_free(text);
        }
        mem_free(key);
    }
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* All of a config in one text, whatever the order of its keys. */
static char *signature(const cJSON *values) {
    char *text;
    size_t size, n = 0;
    const cJSON **sorted = mem_alloc((size_t)cJSON_GetArraySize(values) + 1, sizeof *sorted);
    const cJSON *item;
    FILE *f = text_stream(&text, &size);
    cJSON_ArrayForEach(item, values) sorted[n++] = item;
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 0; i < n; i++) fprintf(f, "%s=%s\n", sorted[i]->string, sorted[i]->valuestring);
    fclose(f);
    mem_free(sorted);
    return text;
}

bool group_has(const Group *g, const Run *r) {
    for (int i = 0; i < g->n; i++)
        if (g->run[i] == r) return true;
    return false;
}

const char *group_value(const Group *g, const char *key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(g->values, key));
}

/* ---- what differs ---- */

static bool same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* Of groups from..to-1, which are of one task. Two mechanisms have different keys, which says
 * nothing that their names do not; so a missing key counts only between groups of one mechanism. */
static bool differ_within(const Groups *g, int from, int to, const char *const *value) {
    const char *first = NULL;
    bool missing = false;
    for (int i = from; i < to; i++) {
        if (first && value[i] && strcmp(first, value[i]) != 0) return true;
        if (!first) first = value[i];
        missing |= !value[i];
    }
    for (int i = from; first && missing && i < to; i++)
        for (int j = from; !value[i] && j < to; j++)
            if (value[j] && same(g->group[i].type, g->group[j].type)) return true;
    return false;
}

/* `value` is scratch. Groups of a task lie together. */
static bool key_differs(const Groups *g, const char *key, const char **value) {
    for (int i = 0; i < g->n; i++) value[i] = group_value(&g->group[i], key);
    for (int from = 0, to; from < g->n; from = to) {
        for (to = from + 1; to < g->n && !strcmp(g->group[to].task, g->group[from].task);) to++;
        if (differ_within(g, from, to, value)) return true;
    }
    return false;
}

static void find_keys(Groups *g) {
    cJSON *all = cJSON_CreateObject();
    const cJSON *item;
    for (int i = 0; i < g->n; i++) {
        cJSON_ArrayForEach(item, g->group[i].values) {
            if (cJSON_GetObjectItemCaseSensitive(all, item->string)) continue;
            cJSON_AddNullToObject(all, item->string);
        }
    }
    cJSON_DeleteItemFromObjectCaseSensitive(all, "task");
    const char **value = mem_alloc((size_t)g->n + 1, sizeof *value);
    cJSON_ArrayForEach(item, all) {
        if (!key_differs(g, item->string, value)) continue;
        g->key = mem_grow(g->key, (size_t)g->nkeys + 1, sizeof *g->key);
        g->key[g->nkeys++] = mem_strdup(item->string);
    }
    mem_free(value);
    cJSON_Delete(all);
}

/* ---- order ---- */

static int task_rank(const char *name) {
    int i = 0;
    while (task_table[i] && strcmp(task_table[i]->name, name) != 0) i++;
    return i;
}

static int by_task(const void *a, const void *b) {
    const Group *x = a, *y = b;
    const int d = task_rank(x->task) - task_rank(y->task);
    if (d) return d;
    const int names = strcmp(x->task, y->task);
    return names ? names : strcmp(x->run[0]->dir, y->run[0]->dir);
}

/* Numbers as numbers; what is absent first. */
static int compare_values(const char *a, const char *b) {
    if (!a || !b) return (a != NULL) - (b != NULL);
    char *end_a, *end_b;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    if (end_a != a && end_b != b && !*end_a && !*end_b) return (x > y) - (x < y);
    return strcmp(a, b);
}

static int compare(const Groups *g, const Group *a, const Group *b) {
    int d = strcmp(a->task, b->task) ? by_task(a, b) : 0;
    for (int i = 0; d == 0 && i < g->nkeys; i++)
        d = compare_values(group_value(a, g->key[i]), group_value(b, g->key[i]));
    return d ? d : strcmp(a->run[0]->dir, b->run[0]->dir);
}

/* qsort knows no context. Groups mostly come in order. */
static void sort_by_keys(Groups *g) {
    for (int i = 1; i < g->n; i++) {
        const Group x = g->group[i];
        int j = i;
        for (; j > 0 && compare(g, &x, &g->group[j - 1]) < 0; j--) g->group[j] = g->group[j - 1];
        g->group[j] = x;
    }
}

/* ---- groups ---- */

typedef struct Labelled {
    char *text;
    const Run *run;
    Group group; /* still without the run */
} Labelled;

static int by_text(const void *a, const void *b) {
    const Labelled *x = a, *y = b;
    const int d = strcmp(x->text, y->text);
    return d ? d : strcmp(x->run->dir, y->run->dir);
}

cJSON *group_flat(const cJSON *config, bool all) {
    cJSON *values = cJSON_CreateObject(), *whole = cJSON_Duplicate(config, true);
    config_complete(whole);
    add_values(values, whole, "", all);
    cJSON_Delete(whole);
    return values;
}

/* What the runs of a group have in common, in one text: their config, as flat values; and of
 * train.init, where it is known (as env.json tells it), the same of these weights and which of a
 * run's files they are, in place of a path. To be freed. */
static char *recipe_of(const cJSON *values, const cJSON *init) {
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(init, "config");
    const char *file = json_string(init, "file");
    if (!cJSON_IsObject(config) || !file) return signature(values);
    const char *slash = strrchr(file, '/');
    cJSON *rest = cJSON_Duplicate(values, true), *before = group_flat(config, false);
    cJSON_DeleteItemFromObjectCaseSensitive(rest, "train.init");
    char *now = signature(rest);
    char *then = recipe_of(before, cJSON_GetObjectItemCaseSensitive(init, "init"));
    char *text = text_format("%s%s of\n%s", now, slash ? slash + 1 : file, then);
    mem_free(now);
    mem_free(then);
    cJSON_Delete(rest);
    cJSON_Delete(before);
    return text;
}

/* The same without the place of the data, which find_group looks at. */
static char *recipe_of_run(const Group *g, const Run *r) {
    cJSON *values = cJSON_Duplicate(g->values, true);
    cJSON_DeleteItemFromObjectCaseSensitive(values, "data.dir");
    char *text = recipe_of(values, run_init(r));
    cJSON_Delete(values);
    return text;
}

static Group group_of(const Run *r) {
    const char *objective = json_string(r->config, "train.objective");
    Group g = {.masked = objective && !strcmp(objective, "masked"),
               .values = group_flat(r->config, false)};
    g.task = text_format("%s%s", json_string(r->config, "task"), g.masked ? ", masked" : "");
    g.type = group_value(&g, "model.attention.type");
    return g;
}

/* Of runs of one recipe. First weights are known by their checksum, else by their path, of which
 * one file may have two. */
static bool same_draw(const Run *a, const Run *b) {
    const char *x = json_string(run_init(a), "crc32"), *y = json_string(run_init(b), "crc32");
    const bool known = x && y;
    return run_number(a, "train.seed", 1) == run_number(b, "train.seed", 1) &&
           same(known ? x : json_string(a->config, "train.init"),
                known ? y : json_string(b->config, "train.init"));
}

/* Runs of one config and one seed give one result: a copy would make the deviation too small. */
static bool is_copy(Group *g, const Run *r) {
    for (int i = 0; i < g->n; i++) {
        if (!same_draw(g->run[i], r)) continue;
        const bool later = run_done(g->run[i]) || !run_done(r);
        const Run *kept = later ? g->run[i] : r, *left = later ? r : g->run[i];
        log_warn("%s: of the same config and seed as %s; left out (--each shows both)", left->dir,
                 kept->dir);
        g->run[i] = kept;
        return true;
    }
    return false;
}

static void add_run(Group *g, const Run *r) {
    if (is_copy(g, r)) return;
    g->run = mem_grow(g->run, (size_t)g->n + 1, sizeof *g->run);
    g->run[g->n++] = r;
}

static void free_group(Group *g) {
    cJSON_Delete(g->values);
    mem_free(g->task);
    mem_free(g->run);
}

static bool other_data(const Group *g, const Run *r) {
    bool differ = false;
    for (int i = 0; i < g->n; i++) differ |= rundata_differ(g->run[i], r);
    return differ;
}

static bool all_hashed(const Group *g) {
    bool hashed = true;
    for (int i = 0; i < g->n; i++) hashed &= rundata_is_hashed(g->run[i]);
    return hashed;
}

/* Whether its data lie in another place, and may be others for all that is known. */
static bool elsewhere(const Group *g, const Labelled *l) {
    return !same(group_value(g, "data.dir"), group_value(&l->group, "data.dir")) &&
           !(all_hashed(g) && rundata_is_hashed(l->run));
}

/* Of the groups from `first` on, which are of one recipe, that of this run, which is made where
 * there is none. */
static Group *find_group(Groups *g, int first, const Labelled *l) {
    for (int i = first; i < g->n && !g->each; i++)
        if (!other_data(&g->group[i], l->run) && !elsewhere(&g->group[i], l)) return &g->group[i];
    g->group[g->n] = l->group;
    return &g->group[g->n++];
}

/* A run that tells of its data, if one does. */
static const Run *telling_run(const Group *g) {
    for (int i = 0; i < g->n; i++)
        if (rundata_is_told(g->run[i])) return g->run[i];
    return g->run[0];
}

/* In words that no group from `first` on has for other data. */
static char *data_name(const Groups *g, int first, int i) {
    const Run *r = telling_run(&g->group[i]);
    char *name = rundata_name(r);
    for (int j = first; j < i; j++) {
        const char *other = group_value(&g->group[j], "data.source");
        if (strcmp(other, name) != 0 || !other_data(&g->group[j], r)) continue;
        mem_free(name);
        return text_format("%s, of %s", other, r->dir);
    }
    return name;
}

/* Tells groups of one task apart where some have other data; where all are known to have the same,
 * it tells nothing where each had them. */
static void name_data(Groups *g, int first, int end) {
    const Run *one = telling_run(&g->group[first]);
    bool differ = false, hashed = !g->each;
    for (int i = first + 1; i < end && !rundata_is_told(one); i++) one = telling_run(&g->group[i]);
    for (int i = first; i < end && !g->each; i++) differ |= other_data(&g->group[i], one);
    for (int i = first; i < end; i++) hashed &= all_hashed(&g->group[i]);
    for (int i = first; i < end && hashed && !differ; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(g->group[i].values, "data.dir");
    for (int i = first; i < end && differ; i++) {
        char *name = data_name(g, first, i);
        cJSON_AddStringToObject(g->group[i].values, "data.source", name);
        mem_free(name);
    }
}

void groups_make(Groups *g, const RunSet *set, bool each) {
    Labelled *labelled = mem_alloc((size_t)set->n + 1, sizeof *labelled);
    *g = (Groups){.each = each, .group = mem_alloc((size_t)set->n + 1, sizeof *g->group)};
    for (int i = 0; i < set->n; i++) {
        const Group one = group_of(&set->run[i]);
        labelled[i] = (Labelled){recipe_of_run(&one, &set->run[i]), &set->run[i], one};
    }
    qsort(labelled, (size_t)set->n, sizeof *labelled, by_text);
    for (int i = 0; i < set->n;) {
        const char *recipe = labelled[i].text;
        const int first = g->n;
        for (; i < set->n && !strcmp(labelled[i].text, recipe); i++) {
            const int groups = g->n;
            Group *group = find_group(g, first, &labelled[i]);
            if (g->n == groups) free_group(&labelled[i].group);
            add_run(group, labelled[i].run);
        }
    }
    for (int i = 0; i < set->n; i++) mem_free(labelled[i].text);
    mem_free(labelled);
    qsort(g->group, (size_t)g->n, sizeof *g->group, by_task);
    for (int i = 0, end; i < g->n; i = end) {
        for (end = i; end < g->n && !strcmp(g->group[end].task, g->group[i].task);) end++;
        name_data(g, i, end);
    }
    g->tasks = g->n > 0 && strcmp(g->group[0].task, g->group[g->n - 1].task) != 0;
    find_keys(g);
    sort_by_keys(g);
}

void groups_free(Groups *g) {
    for (int i = 0; i < g->n; i++) free_group(&g->group[i]);
    for (int i = 0; i < g->nkeys; i++) mem_free(g->key[i]);
    mem_free(g->group);
    mem_free(g->key);
    *g = (Groups){0};
}

/* ---- names ---- */

/* "type" alone says little. */
static const char *short_title(const char *key) {
    const char *dot = strrchr(key, '.');
    if (!strcmp(key, "model.attention.type")) return "attention";
    return dot ? dot + 1 : key;
}

const char *group_key_title(const Groups *g, const char *key) {
    for (int i = 0; i < g->nkeys; i++)
        if (strcmp(g->key[i], key) != 0 && !strcmp(short_title(g->key[i]), short_title(key)))
            return key;
    return short_title(key);
}

/* How many of the first n bytes of b the two begin with. */
static size_t same_bytes(const char *a, const char *b, size_t n) {
    size_t same = 0;
    while (same < n && a[same] == b[same]) same++;
    return same;
}

/* A run's directory without what all have in common, down to a '/'; of one alone its last part. */
static char *run_label(const Groups *g, const Run *r) {
    const char *first = g->group[0].run[0]->dir, *slash = strrchr(r->dir, '/');
    size_t n = strlen(first);
    if (g->n == 1) return mem_strdup(slash && slash[1] ? slash + 1 : r->dir);
    for (int i = 0; i < g->n; i++)
        for (int j = 0; j < g->group[i].n; j++) n = same_bytes(g->group[i].run[j]->dir, first, n);
    while (n > 0 && first[n - 1] != '/') n--;
    return mem_strdup(r->dir + n);
}

/* g may be a part of what its keys were found in. */
static bool varies(const Groups *g, const char *key) {
    const char *first = group_value(&g->group[0], key);
    for (int i = 1; i < g->n; i++)
        if (!same(first, group_value(&g->group[i], key))) return true;
    return false;
}

/* Seeds may begin with weights of their own, and read the same data in different places. */
bool group_value_varies(const Group *group, const char *key) {
    const bool may = !strcmp(key, "train.init") || !strcmp(key, "data.dir");
    for (int i = 1; i < group->n && may; i++)
        if (!same(group_value(group, key), json_string(group->run[i]->config, key))) return true;
    return false;
}

char *group_label(const Groups *g, const Group *group, const char *but) {
    char *text;
    size_t size;
    if (g->each) return run_label(g, group->run[0]);
    FILE *f = text_stream(&text, &size);
    const char *separator = "";
    if (g->tasks) fprintf(f, "%s", group->task), separator = ", ";
    for (int i = 0; i < g->nkeys; i++) {
        const char *value = group_value(group, g->key[i]);
        if (!value || !varies(g, g->key[i]) || (but && !strcmp(g->key[i], but))) continue;
        const char *title = group_key_title(g, g->key[i]);
        if (*value)
            fprintf(f, "%s%s %s%s", separator, title, value,
                    group_value_varies(group, g->key[i]) ? " and others" : "");
        else
            fprintf(f, "%sno %s", separator, title);
        separator = ", ";
    }
    if (!*separator) fputs(group->task, f);
    fclose(f);
    return text;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* So many bytes of a label are those of all runs of the group, whole parts of a name: of text-1 and
 * text-10 those of "text". */
static size_t common_part(const Groups *g, const Group *group, const char *label) {
    size_t n = strlen(label);
    bool in_number = false;
    for (int i = 1; i < group->n; i++) {
        char *other = run_label(g, group->run[i]);
        n = same_bytes(other, label, n);
        in_number = in_number || (n > 0 && is_digit(label[n - 1]) && is_digit(other[n]));
        mem_free(other);
    }
    if (!label[n] && !in_number) return n;
    if (!label[n]) n--;
    while (n > 0 && !strchr(",/-_.", label[n])) n--;
    return n;
}

char *group_name(const Groups *g, const Group *group) {
    if (g->each) return mem_strdup(group->run[0]->dir);
    char *label = run_label(g, group->run[0]);
    const size_t n = common_part(g, group, label);
    char *name =
        n ? text_format("%.*s", (int)n, label) : text_format("%s and %d more", label, group->n - 1);
    mem_free(label);
    return name;
}

bool groups_need_names(const Groups *g) {
    bool need = g->each;
    for (int i = 0; i < g->n && !need; i++) {
        char *name = group_name(g, &g->group[i]);
        need = !strchr(name, '=');
        mem_free(name);
    }
    return need;
}
