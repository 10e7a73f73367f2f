#include "report/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "io/text.h"
#include "report/chance.h"
#include "report/hardware.h"
#include "report/marks.h"
#include "report/settings.h"

static bool is_number(const char *s) {
    char *end;
    if (!s) return true;
    strtod(s, &end);
    return end != s && !*end;
}

/* Columns that every table has, but for those of has_column; by `spare` the first to go where there
 * is no room. */
static const struct {
    const char *title, *key;
    ColumnKind kind;
    int digits;
    ColumnBest best;
    int spare;
} fixed[] = {
    {"finished", "finished", COLUMN_SHARE, 0, BEST_NONE, 9},
    {"at chance", "at_chance", COLUMN_SHARE, 0, BEST_NONE, 0},
    {"validation, %", "validation_percent", COLUMN_SPREAD, 2, BEST_MOST, 5},
    {"test of best, %", "test_best_percent", COLUMN_SPREAD, 2, BEST_MOST, 0},
    {"test of last, %", "test_last_percent", COLUMN_SPREAD, 2, BEST_MOST, 1},
    {"bits a token", "bits", COLUMN_SPREAD, 3, BEST_LEAST, 0},
    {"unfinished: validation, %", "unfinished_validation_percent", COLUMN_SPREAD, 2, BEST_NONE, 0},
    {"parameters", "parameters", COLUMN_NUMBER, 0, BEST_NONE, 7},
    {"GFLOP/sample", "gflop_per_sample", COLUMN_NUMBER, SIGNIFICANT + 3, BEST_NONE, 2},
    {"samples/s", "samples_per_s", COLUMN_NUMBER, SIGNIFICANT + 3, BEST_MOST, 8},
    {"memory MB", "memory_mb", COLUMN_NUMBER, SIGNIFICANT + 3, BEST_LEAST, 6},
    {"epochs", "epochs", COLUMN_NUMBER, SIGNIFICANT + 3, BEST_NONE, 3},
    {"hours", "hours", COLUMN_NUMBER, SIGNIFICANT + 3, BEST_NONE, 4},
};
enum { FIXED = sizeof fixed / sizeof *fixed, AT_CHANCE = 1, BITS = 5, UNFINISHED = 6 };

/* A key's last part, but for one that a fixed column is called by: "train.epochs". */
static const char *key_title(const Groups *g, const char *key) {
    const char *title = group_key_title(g, key);
    for (int i = 0; i < FIXED; i++)
        if (!strcmp(title, fixed[i].title)) return key;
    return title;
}

static void add_key_column(Table *t, const Groups *g, const char *key) {
    bool numbers = true;
    for (int i = 0; i < g->n; i++) numbers &= is_number(group_value(&g->group[i], key));
    table_column(t, key_title(g, key), key, numbers ? COLUMN_NUMBER : COLUMN_TEXT, 0)->spare =
        SPARE_MOST;
}

/* ---- keys that do not differ ---- */

typedef struct Others {
    cJSON *keys;    /* an object with their names; none where they are not asked for */
    cJSON **values; /* (groups) of all keys */
} Others;

/* Flat, "1 and others" where the group's runs have several. */
static cJSON *values_of(const Group *g) {
    cJSON *first = group_flat(g->run[0]->config, true), *values = cJSON_Duplicate(first, true), *k;
    for (int i = 1; i < g->n; i++) {
        cJSON *other = group_flat(g->run[i]->config, true);
        cJSON_ArrayForEach(k, first) {
            if (cJSON_Compare(k, cJSON_GetObjectItemCaseSensitive(other, k->string), true))
                continue;
            char *text = text_format("%s and others", k->valuestring);
            cJSON_ReplaceItemInObjectCaseSensitive(values, k->string, cJSON_CreateString(text));
            mem_free(text);
        }
        cJSON_Delete(other);
    }
    cJSON_Delete(first);
    return values;
}

static bool has_key(const Table *t, const char *key) {
    for (int c = 0; c < t->n; c++)
        if (!strcmp(t->columns[c].key, key)) return true;
    return false;
}

/* Those that the table has no column for. */
static void find_others(Others *o, const Groups *g, const Table *t) {
    const cJSON *k;
    o->keys = cJSON_CreateObject();
    o->values = mem_alloc((size_t)g->n + 1, sizeof *o->values);
    for (int i = 0; i < g->n; i++) {
        o->values[i] = values_of(&g->group[i]);
        cJSON_ArrayForEach(k, o->values[i]) {
            if (!has_key(t, k->string) && !cJSON_GetObjectItemCaseSensitive(o->keys, k->string))
                cJSON_AddNullToObject(o->keys, k->string);
        }
    }
}

static void free_others(Others *o, int groups) {
    for (int i = 0; o->values && i < groups; i++) cJSON_Delete(o->values[i]);
    mem_free(o->values);
    cJSON_Delete(o->keys);
}

/* A key's last part, unless a column or another of the keys is called by it. */
static const char *other_title(const Others *o, const Groups *g, const Table *t, const char *key) {
    const char *title = group_key_title(g, key);
    const cJSON *k;
    for (int c = 0; c < t->n; c++)
        if (!strcmp(t->columns[c].title, title) || !strcmp(t->columns[c].key, title)) return key;
    cJSON_ArrayForEach(k, o->keys) {
        if (strcmp(k->string, key) != 0 && !strcmp(group_key_title(g, k->string), title))
            return key;
    }
    return title;
}

static const char *other_value(const Others *o, int group, const char *key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o->values[group], key));
}

static void add_other_columns(Table *t, const Groups *g, const Others *o) {
    const cJSON *k;
    cJSON_ArrayForEach(k, o->keys) {
        bool numbers = true;
        for (int i = 0; i < g->n; i++) numbers &= is_number(other_value(o, i, k->string));
        table_column(t, other_title(o, g, t, k->string), k->string,
                     numbers ? COLUMN_NUMBER : COLUMN_TEXT, 0)
            ->hidden = true;
    }
}

/* ---- the table ---- */

/* Columns that only some tables have. */
typedef struct Extra {
    bool named, settings, at_chance, unfinished, bits;
} Extra;

static bool has_column(Extra extra, int i) {
    switch (i) {
    case AT_CHANCE: return extra.at_chance;
    case BITS: return extra.bits;
    case UNFINISHED: return extra.unfinished;
    default: return true;
    }
}

static void add_columns(Table *t, const Groups *g, Extra extra) {
    if (extra.named) table_column(t, "run", "run", COLUMN_TEXT, 0);
    table_column(t, "task", "task", COLUMN_TEXT, 0)->spare = g->tasks ? 0 : 10;
    for (int i = 0; i < g->nkeys; i++) add_key_column(t, g, g->key[i]);
    if (extra.settings) table_column(t, "settings", "settings", COLUMN_TEXT, 0)->spare = SPARE_MOST;
    for (int i = 0; i < FIXED; i++) {
        if (!has_column(extra, i)) continue;
        Column *c = table_column(t, fixed[i].title, fixed[i].key, fixed[i].kind, fixed[i].digits);
        c->best = fixed[i].best;
        c->spare = fixed[i].spare;
    }
}

static void put(Cell **c, double mean, double sd) {
    (*c)->mean = mean;
    (*c)->sd = sd;
    (*c)++;
}

static void put_value(Cell *c, const Group *group, const char *key) {
    const char *value = group_value(group, key);
    if (!value || !group_value_varies(group, key)) {
        cell_text(c, value);
        return;
    }
    char *first = text_format("%s and others", value);
    cell_text(c, first);
    mem_free(first);
}

static void put_settings(Cell *c, const Groups *g, const Group *group) {
    char *text = settings_of_group(g, group);
    if (*text) cell_text(c, text);
    mem_free(text);
}

static void add_row(Table *t, const Groups *g, const Group *group, const Result *r, Extra extra,
                    const Others *others) {
    Cell *c = table_row(t);
    const cJSON *k;
    if (extra.named) {
        char *name = group_name(g, group);
        cell_text(c++, name);
        mem_free(name);
    }
    cell_text(c++, group->task);
    for (int i = 0; i < g->nkeys; i++) put_value(c++, group, g->key[i]);
    if (extra.settings) put_settings(c++, g, group);
    put(&c, r->finished, r->runs);
    if (extra.at_chance) put(&c, chance_runs(group), r->runs);
    put(&c, r->validation.mean, r->validation.sd);
    put(&c, r->best.mean, r->best.sd);
    put(&c, r->last.mean, r->last.sd);
    if (extra.bits) put(&c, r->bits.mean, r->bits.sd);
    if (extra.unfinished) put(&c, r->so_far.mean, r->so_far.sd);
    const double means[] = {r->parameters,     r->gflop,       r->samples_per_s.mean,
                            r->memory_mb.mean, r->epochs.mean, r->hours.mean};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) put(&c, means[i], NAN);
    cJSON_ArrayForEach(k, others->keys) {
        cell_text(c++, other_value(others, (int)(group - g->group), k->string));
    }
}

/* Of several mechanisms a key that only one has is no column, and its value, where it is not the
 * default, would be told nowhere. */
static bool needs_settings(const Groups *g) {
    bool several = false, some = false;
    for (int i = 0; i < g->n; i++) {
        const char *type = g->group[i].type, *first = g->group[0].type;
        several |= type && first && strcmp(type, first) != 0;
        char *text = settings_of_group(g, &g->group[i]);
        some |= *text != 0;
        mem_free(text);
    }
    return several && some;
}

void results_table(Table *t, const Groups *g, bool all_keys) {
    Result *r = mem_alloc((size_t)g->n + 1, sizeof *r);
    Others others = {0};
    Extra extra = {.named = groups_need_names(g), .settings = needs_settings(g)};
    *t = (Table){0};
    for (int i = 0; i < g->n; i++) {
        group_result(&r[i], &g->group[i], true);
        extra.at_chance |= chance_runs(&g->group[i]) > 0;
        extra.unfinished |= r[i].finished < r[i].runs;
        extra.bits |= g->group[i].masked;
    }
    add_columns(t, g, extra);
    if (all_keys) find_others(&others, g, t);
    add_other_columns(t, g, &others);
    for (int i = 0; i < g->n; i++) add_row(t, g, &g->group[i], &r[i], extra, &others);
    free_others(&others, g->n);
    mem_free(r);
}

/* ---- notes ---- */

/* Whether a column with one of these keys is shown. */
static bool shows(const Table *t, const char *const *keys) {
    for (; *keys; keys++)
        if (has_key(t, *keys)) return true;
    return false;
}

static bool shows_spread(const Table *t) {
    for (int i = 0; i < t->rows * t->n; i++)
        if (t->columns[i % t->n].kind == COLUMN_SPREAD && !isnan(t->cells[i].sd)) return true;
    return false;
}

/* Runs of other tasks are not held against each other. */
static Hardware machines_of(const Groups *g) {
    Hardware h = {0};
    bool differs = false, timed = false;
    for (int i = 0; i < g->n; i++) {
        if (i > 0 && strcmp(g->group[i].task, g->group[i - 1].task) != 0) h = (Hardware){0};
        hardware_add(&h, &g->group[i]);
        differs |= h.differs;
        timed |= h.differs && h.timed;
    }
    return (Hardware){.differs = differs, .timed = timed};
}

/* Equal minutes of unequal machines decide what comes of a run; else their speeds differ alone. */
static void note_machines(Table *t, const Groups *g) {
    static const char *const speeds[] = {"samples_per_s", "memory_mb", "hours", NULL};
    const Hardware h = machines_of(g);
    if (h.timed)
        table_note(t, mem_strdup(hardware_timed_note));
    else if (h.differs && shows(t, speeds))
        table_note(t, mem_strdup(hardware_note));
}

static const char *const accuracies[] = {"validation_percent", "test_best_percent",
                                         "test_last_percent", NULL};

static void note_masked(Table *t, const Groups *g) {
    bool masked = false;
    for (int i = 0; i < g->n; i++) masked |= g->group[i].masked;
    if (masked && (shows(t, accuracies) || has_key(t, "bits") || has_key(t, "task")))
        table_note(t, mem_strdup("masked: masked training; its accuracy is of masked tokens, and "
                                 "bits a token is the test of the best; where no run of several "
                                 "was tested, its validation."));
}

/* What the columns of every table are, in one paragraph. */
static void note_columns(Table *t) {
    static const struct {
        const char *text, *keys[5];
    } notes[] = {
        {"validation: the best of a run, which chooses the weights of \"test of best\".",
         {"validation_percent", "test_best_percent"}},
        {"GFLOP/sample: useful operations of forward and backward at full length.",
         {"gflop_per_sample"}},
        {"memory MB: peak resident memory, mapped data excluded.", {"memory_mb"}},
        {"samples/s, memory, epochs and hours: means over all runs.",
         {"samples_per_s", "memory_mb", "epochs", "hours"}},
    };
    char *text;
    size_t size;
    FILE *f = text_stream(&text, &size);
    const char *blank = "";
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        if (!shows(t, notes[i].keys)) continue;
        fprintf(f, "%s%s", blank, notes[i].text);
        blank = " ";
    }
    fclose(f);
    if (*text)
        table_note(t, text);
    else
        mem_free(text);
}

void results_notes(Table *t, const Groups *g) {
    bool chosen = false;
    for (int i = 0; i < g->n; i++) chosen |= marks_chosen_by_test(g->group[i].run[0]);
    if (chosen && shows(t, accuracies)) table_note(t, mem_strdup(marks_chosen_note));
    note_machines(t, g);
    if (has_key(t, "at_chance"))
        table_note(
            t, mem_strdup("at chance: runs whose test, or last validation where they have none, is "
                          "no more than two standard errors above always the same answer."));
    if (shows_spread(t)) table_note(t, mem_strdup("±: the sample standard deviation over runs."));
    note_masked(t, g);
    if (has_key(t, "unfinished_validation_percent"))
        table_note(t, mem_strdup("unfinished: validation is the best so far of the runs that did "
                                 "not come to their end, or were not tested there."));
    note_columns(t);
}
