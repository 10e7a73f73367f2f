#include "report/compare.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "io/text.h"
#include "report/difference.h"
#include "report/hardware.h"
#include "report/marks.h"

/* ---- columns that tell of a difference ---- */

static void difference_columns(Table *t, const char *title, bool family, const char *verdict) {
    table_column(t, title, "difference", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "standard_error", COLUMN_NUMBER, 2)->spare = 2;
    table_column(t, "95 %: from", "from", COLUMN_NUMBER, 2);
    table_column(t, "to", "to", COLUMN_NUMBER, 2);
    table_column(t, "p", "p", COLUMN_NUMBER, 4)->spare = 4;
    if (family) table_column(t, "p, Holm", "p_holm", COLUMN_NUMBER, 4);
    table_column(t, verdict, "verdict", COLUMN_TEXT, 0);
}

/* Of one seed each the runs are told apart, not their recipes. */
static const char *verdict(const Difference *d, double p) {
    if (d->apart) return "of other tests";
    if (!(p < 0.05)) return "not told apart";
    if (d->alone) return d->mean > 0 ? "higher in these runs" : "lower in these runs";
    return d->mean > 0 ? "higher" : "lower";
}

/* `holm`: NULL: not one of a family. */
static void difference_cells(Cell *c, const Difference *d, const double *holm) {
    const double numbers[] = {d->mean, d->error, d->from, d->to, d->p};
    for (int i = 0; i < 5; i++) (c++)->mean = numbers[i];
    if (holm) (c++)->mean = *holm;
    cell_text(c, verdict(d, holm ? *holm : d->p));
}

/* ---- notes ---- */

typedef struct Notes {
    bool alone, lent, apart, paired, unpaired, chosen, machines;
} Notes;

static bool machines_decide(const Group *a, const Group *b) {
    Hardware h = {0};
    hardware_add(&h, a);
    hardware_add(&h, b);
    return h.differs && h.timed;
}

static void note(Notes *n, const Difference *d, const Group *a, const Group *b) {
    n->alone |= d->alone;
    n->lent |= d->lent;
    n->apart |= d->apart;
    n->paired |= d->paired;
    n->unpaired |= !d->paired && !d->apart && !a->masked;
    n->chosen |= marks_chosen_by_test(a->run[0]) || marks_chosen_by_test(b->run[0]);
    n->machines |= machines_decide(a, b);
}

static void add_notes(Table *t, const Notes *of) {
    table_note(t,
               mem_strdup("Test accuracy of best, the mean over seeds of finished runs. Its "
                          "standard error is of the test set, sqrt(p (1 - p) / examples), but in "
                          "masked training, and of seeds, their standard deviation over the root "
                          "of their number, as squares. 95 %: by Student's t, since few seeds "
                          "tell their deviation badly; 1.96 standard errors each way without. p: "
                          "of as large a difference, either way, where there is none."));
    if (of->chosen) table_note(t, mem_strdup(marks_chosen_note));
    if (of->machines) table_note(t, mem_strdup(hardware_timed_note));
    if (of->paired)
        table_note(t, mem_strdup("Differences are taken example by example: what both have right, "
                                 "or both wrong, says nothing of them."));
    if (of->unpaired)
        table_note(t, text_format("Where a run does not tell which examples it has right, as those "
                                  "of older versions and of tests of more than %d do not, the "
                                  "standard error of a difference is that of two test sets: larger "
                                  "than that of one which both have. A finished run's command, "
                                  "given again, tests it again.",
                                  RUN_MOST_ANSWERS));
    if (of->alone)
        table_note(
            t, mem_strdup("Of one seed each the spread over seeds is not known, and runs of one "
                          "recipe differ as well: these runs are higher or lower; of their "
                          "recipes more seeds would tell."));
    if (of->lent)
        table_note(t, mem_strdup("One seed beside several is taken to have their spread."));
    if (of->apart)
        table_note(t,
                   mem_strdup("Of other tests: what the runs tell of their test sets differs, by "
                              "hash or number of examples."));
}

/* ---- two, task by task ---- */

/* The only group of a task; NULL: there is none. */
static const Group *find_group(const Groups *g, const char *task, const char *name, Err *err) {
    const Group *found = NULL;
    int configs = 0;
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->group[i].task, task)) found = &g->group[i], configs++;
    if (configs > 1)
        err_set(err, EX_USAGE,
                "%s has %d recipes or sets of data of %s: name all runs of two, each by itself or "
                "by a pattern; of more than two, each is held against the first",
                name, configs, task);
    return configs > 1 ? NULL : found;
}

/* The two are A and B, since their names may be long. */
static void pair_columns(Table *t) {
    table_column(t, "task", "task", COLUMN_TEXT, 0);
    table_column(t, "A, %", "a_percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "a_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds of A", "a_seeds", COLUMN_NUMBER, 0)->spare = 1;
    table_column(t, "B, %", "b_percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "b_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds of B", "b_seeds", COLUMN_NUMBER, 0)->spare = 1;
    difference_columns(t, "B - A", false, "B is");
}

static void pair_row(Table *t, const char *task, const Difference *d) {
    Cell *c = table_row(t);
    cell_text(c++, task);
    for (const Side *s = d->side; s < d->side + 2; s++) {
        (c++)->mean = s->accuracy;
        (c++)->mean = difference_error(s);
        (c++)->mean = s->seeds;
    }
    difference_cells(c, d, NULL);
}

bool compare_table(Table *t, const Groups *a, const Groups *b, char *const names[2], Err *err) {
    Notes notes = {0};
    *t = (Table){0};
    err->code = 0;
    pair_columns(t);
    for (int i = 0; i < a->n && !err->code; i++) {
        const char *task = a->group[i].task;
        const Group *first = find_group(a, task, names[0], err);
        const Group *second = first ? find_group(b, task, names[1], err) : NULL;
        if (!second) continue;
        const Difference d = difference_of(first, second);
        if (d.side[0].seeds == 0 || d.side[1].seeds == 0) continue;
        note(&notes, &d, first, second);
        pair_row(t, task, &d);
    }
    if (!err->code && t->rows == 0)
        err_set(err, EX_NOINPUT, "%s and %s have no task with finished runs of both", names[0],
                names[1]);
    if (!err->code) {
        table_note(t, text_format("A: %s. B: %s.", names[0], names[1]));
        add_notes(t, &notes);
    }
    if (err->code) table_free(t);
    return !err->code;
}

/* ---- several, each beside the first ---- */

static void family_columns(Table *t) {
    table_column(t, "task", "task", COLUMN_TEXT, 0);
    table_column(t, "recipe", "recipe", COLUMN_TEXT, 0);
    table_column(t, "test, %", "percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "percent_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds", "seeds", COLUMN_NUMBER, 0)->spare = 1;
    difference_columns(t, "difference", true, "than the first");
}

/* The first run's group of those of the task. */
static const Group *first_of(const Groups *g, const RunSet *set, const char *task) {
    for (int r = 0; r < set->n; r++)
        for (int i = 0; i < g->n; i++)
            if (!strcmp(g->group[i].task, task) && group_has(&g->group[i], &set->run[r]))
                return &g->group[i];
    return NULL;
}

/* The task has a column of its own. */
static char *label_of(const Groups *g, const Group *group) {
    Groups of_task = *g;
    of_task.tasks = false;
    return group_label(&of_task, group, NULL);
}

static Cell *family_row(Table *t, const Groups *g, const Group *group, const Side *s) {
    Cell *c = table_row(t);
    char *label = label_of(g, group);
    cell_text(c++, group->task);
    cell_text(c++, label);
    (c++)->mean = s->accuracy;
    (c++)->mean = difference_error(s);
    (c++)->mean = s->seeds;
    mem_free(label);
    return c;
}

/* d[i]: group i beside the first of its task; of that itself, only its side is of use. */
static void family_rows(Table *t, const Groups *g, const Group *const *first, const Difference *d) {
    double *p = mem_alloc((size_t)g->n, sizeof *p), *holm = mem_alloc((size_t)g->n, sizeof *holm);
    const Group *told = NULL;
    for (int i = 0; i < g->n; i++) p[i] = first[i] == &g->group[i] ? NAN : d[i].p;
    difference_holm(p, holm, g->n);
    for (int i = 0; i < g->n; i++) {
        if (d[i].side[0].seeds == 0) continue; /* nothing to be held against */
        if (first[i] != told) family_row(t, g, first[i], &d[i].side[0]);
        told = first[i];
        if (first[i] == &g->group[i] || d[i].side[1].seeds == 0) continue;
        difference_cells(family_row(t, g, &g->group[i], &d[i].side[1]), &d[i], &holm[i]);
    }
    mem_free(p);
    mem_free(holm);
}

static void family_notes(Table *t, const Notes *notes, int others) {
    table_note(t,
               text_format("Each is held against the first of its task, which the first of the "
                           "runs named is of. p, Holm: with the %d differences as one family, by "
                           "which they are higher or lower: where there are none, any is called "
                           "so in 5 %% of cases. An interval is of one by itself.",
                           others));
    add_notes(t, notes);
}

bool compare_family(Table *t, const Groups *g, const RunSet *set, Err *err) {
    const Group **first = mem_alloc((size_t)g->n, sizeof *first);
    Difference *d = mem_alloc((size_t)g->n, sizeof *d);
    Notes notes = {0};
    int others = 0;
    *t = (Table){0};
    for (int i = 0; i < g->n; i++) {
        first[i] = first_of(g, set, g->group[i].task);
        d[i] = difference_of(first[i], &g->group[i]);
        if (first[i] == &g->group[i] || d[i].side[0].seeds == 0 || d[i].side[1].seeds == 0)
            continue;
        note(&notes, &d[i], first[i], &g->group[i]);
        others++;
    }
    if (others) {
        family_columns(t);
        family_rows(t, g, first, d);
        family_notes(t, &notes, others);
    }
    mem_free(first);
    mem_free(d);
    return others || err_set(err, EX_NOINPUT,
                             "--compare: no task has finished runs of the first recipe, which the "
                             "first run is of, and of another");
}
