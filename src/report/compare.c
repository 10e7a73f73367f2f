#include "report/compare.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "io/text.h"
#include "report/figures.h"
#include "report/rundata.h"

/* In per cent. */
typedef struct Side {
    double accuracy;
    double of_test, of_seeds; /* the variances of its mean over seeds */
    int seeds;
} Side;

/* Another draw of the test set would move the mean by the deviation of a share of its examples, and
 * other seeds by theirs over the root of their number. Masked tokens of one document are no
 * examples of their own: of masked training there are seeds alone, of which it takes two. */
static Side side_of(const Group *g) {
    Result r;
    group_result(&r, g, false);
    const double p = r.best.mean / 100;
    const double test = g->masked ? 0 : 100 * 100 * p * (1 - p) / r.test_examples;
    const double seeds = r.best.n > 1 ? r.best.sd * r.best.sd / r.best.n : g->masked ? NAN : 0;
    return (Side){r.best.mean, test, seeds, r.best.n};
}

static double variance(const Side *s) { return s->of_test + s->of_seeds; }

/* Within so many standard errors 95 % of what is estimated lie, of Student's t with n >= 1 degrees
 * of freedom: with t = sqrt(n) tan(angle) its density is as cos(angle)^(n - 1). */
static double within(double n) {
    enum { STEPS = 20000 };
    const double step = acos(-1) / 2 / STEPS, normal = 1.959963985;
    double all = 0, sum = 0;
    if (!(n < 1e4)) return normal;
    for (int i = 0; i < STEPS; i++) all += pow(cos((i + 0.5) * step), n - 1);
    for (int i = 0; i < STEPS; i++) {
        const double next = pow(cos((i + 0.5) * step), n - 1);
        if (sum + next >= 0.95 * all) return sqrt(n) * tan((i + (0.95 * all - sum) / next) * step);
        sum += next;
    }
    return normal;
}

/* Degrees of freedom of the difference (Welch 1947, Satterthwaite 1946): variances of test sets are
 * known, those of n seeds have n - 1. */
static double freedom(const Side *a, const Side *b) {
    const double all = variance(a) + variance(b);
    double estimated = 0;
    if (a->seeds > 1) estimated += a->of_seeds * a->of_seeds / (a->seeds - 1);
    if (b->seeds > 1) estimated += b->of_seeds * b->of_seeds / (b->seeds - 1);
    return all * all / estimated;
}

/* The only group of a task; NULL: there is none. */
static const Group *find_group(const Groups *g, const char *task, const char *name, Err *err) {
    const Group *found = NULL;
    int configs = 0;
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->group[i].task, task)) found = &g->group[i], configs++;
    if (configs > 1)
        err_set(err, EX_USAGE,
                "%s has %d recipes or sets of data of %s: name all runs of two, each by itself or "
                "by a pattern",
                name, configs, task);
    return configs > 1 ? NULL : found;
}

static const char *verdict(double difference, double reach, bool apart) {
    if (apart) return "of other tests";
    return difference > reach ? "higher" : difference < -reach ? "lower" : "not told apart";
}

/* `apart`: they were tested on other examples, and nothing is said of the difference. */
static void add_row(Table *t, const char *task, const Side *a, const Side *b, bool apart) {
    const double difference = apart ? NAN : b->accuracy - a->accuracy;
    const double error = apart ? NAN : sqrt(variance(a) + variance(b));
    const double reach = apart ? NAN : within(freedom(a, b)) * error;
    Cell *c = table_row(t);
    cell_text(c++, task);
    const double numbers[] = {a->accuracy, sqrt(variance(a)), a->seeds,
                              b->accuracy, sqrt(variance(b)), b->seeds};
    for (int i = 0; i < 6; i++) (c++)->mean = numbers[i];
    const double of_both[] = {difference, error, difference - reach, difference + reach};
    for (int i = 0; i < 4; i++) (c++)->mean = of_both[i];
    cell_text(c, verdict(difference, reach, apart));
}

/* The two are A and B, since their names may be long. */
static void add_columns(Table *t) {
    table_column(t, "task", "task", COLUMN_TEXT, 0);
    table_column(t, "A, %", "a_percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "a_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds", "a_seeds", COLUMN_NUMBER, 0)->spare = 1;
    table_column(t, "B, %", "b_percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "b_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds", "b_seeds", COLUMN_NUMBER, 0)->spare = 1;
    table_column(t, "B - A", "difference", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "standard_error", COLUMN_NUMBER, 2)->spare = 2;
    table_column(t, "95 %: from", "from", COLUMN_NUMBER, 2);
    table_column(t, "to", "to", COLUMN_NUMBER, 2);
    table_column(t, "B is", "verdict", COLUMN_TEXT, 0);
}

static void add_notes(Table *t, char *const names[2], bool alone, bool apart) {
    table_note(t, text_format("A: %s. B: %s.", names[0], names[1]));
    table_note(t,
               mem_strdup("Test accuracy of best, the mean over seeds of finished runs. Its "
                          "standard error is of the test set, sqrt(p (1 - p) / examples), but in "
                          "masked training, and of seeds, their standard deviation over the root "
                          "of their number, as squares. 95 %: by Student's t, since few seeds "
                          "tell their deviation badly; 1.96 standard errors each way without."));
    if (alone)
        table_note(t,
                   mem_strdup("Of a single seed the spread over seeds is not known: its error is "
                              "larger than what is said."));
    if (apart)
        table_note(t,
                   mem_strdup("Of other tests: what the runs tell of their test sets differs, by "
                              "hash or number of examples."));
}

/* Whether some runs of the two tell of other tests, or were tested on more examples. */
static bool tests_differ(const Group *a, const Group *b) {
    bool differ = false;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            const Run *x = a->run[i], *y = b->run[j];
            const double n = x->test[RUN_BEST].value[RUN_COUNT],
                         m = y->test[RUN_BEST].value[RUN_COUNT];
            differ |= rundata_tests_differ(x, y);
            differ |= x->tested[RUN_BEST] && y->tested[RUN_BEST] && n != m && !isnan(n + m);
        }
    return differ;
}

bool compare_table(Table *t, const Groups *a, const Groups *b, char *const names[2], Err *err) {
    bool alone = false, any_apart = false;
    *t = (Table){0};
    err->code = 0;
    add_columns(t);
    for (int i = 0; i < a->n && !err->code; i++) {
        const char *task = a->group[i].task;
        const Group *first = find_group(a, task, names[0], err);
        const Group *second = first ? find_group(b, task, names[1], err) : NULL;
        if (!second) continue;
        const Side x = side_of(first), y = side_of(second);
        if (x.seeds == 0 || y.seeds == 0) continue;
        alone |= x.seeds == 1 || y.seeds == 1;
        const bool apart = tests_differ(first, second);
        any_apart |= apart;
        add_row(t, task, &x, &y, apart);
    }
    if (!err->code && t->rows == 0)
        err_set(err, EX_NOINPUT, "%s and %s have no task with finished runs of both", names[0],
                names[1]);
    if (!err->code) add_notes(t, names, alone, any_apart);
    if (err->code) table_free(t);
    return !err->code;
}
