#include "report/lines.h"

#include <string.h>

/* Of RunLine's values, those that some kind has. */
static const struct {
    int value;
    const char *title, *key;
    double scale;
    int digits;
} values[] = {
    {RUN_EPOCH, "epoch", "epoch", 1, SIGNIFICANT + 4},
    {RUN_SECONDS, "seconds", "seconds", 1, SIGNIFICANT + 4},
    {RUN_LOSS, "loss", "loss", 1, SIGNIFICANT + 5},
    {RUN_BITS, "bits", "bits", 1, SIGNIFICANT + 5},
    {RUN_ACCURACY, "accuracy, %", "accuracy_percent", 100, 2},
    {RUN_COUNT, "examples", "count", 1, 0},
    {RUN_SAMPLES_PER_S, "samples/s", "samples_per_s", 1, SIGNIFICANT + 4},
    {RUN_TOKENS_PER_S, "tokens/s", "tokens_per_s", 1, SIGNIFICANT + 4},
    {RUN_RSS_MB, "memory MB", "memory_mb", 1, SIGNIFICANT + 4},
};

static void add_line(Table *t, const Run *r, const char *kind, const RunLine *line) {
    Cell *c = table_row(t);
    cell_text(c++, r->dir);
    cell_text(c++, kind);
    (c++)->mean = (double)line->step;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++, c++) {
        const bool own = !strcmp(kind, "val") && values[i].value == RUN_SECONDS; /* not the run's */
        if (!own) c->mean = values[i].scale * line->value[values[i].value];
    }
}

static void add_lines(Table *t, const Run *r, const char *kind, const RunLines *lines) {
    for (int i = 0; i < lines->n; i++) add_line(t, r, kind, &lines->line[i]);
}

void lines_table(Table *t, const RunSet *set) {
    static const char *const tests[RUN_TESTS] = {"test of last", "test of best"};
    *t = (Table){0};
    table_column(t, "run", "run", COLUMN_TEXT, 0);
    table_column(t, "kind", "kind", COLUMN_TEXT, 0);
    table_column(t, "step", "step", COLUMN_NUMBER, 0);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        table_column(t, values[i].title, values[i].key, COLUMN_NUMBER, values[i].digits);
    for (int i = 0; i < set->n; i++) {
        const Run *r = &set->run[i];
        add_lines(t, r, "train", &r->train);
        add_lines(t, r, "val", &r->val);
        for (int which = 0; which < RUN_TESTS; which++)
            if (r->tested[which]) add_line(t, r, tests[which], &r->test[which]);
    }
}
