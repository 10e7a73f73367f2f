#include "report/compare.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "io/text.h"
#include "report/figures.h"
#include "report/hardware.h"
#include "report/marks.h"
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

/* ---- the same examples ---- */

/* How many examples the finished runs of a group tell of one by one, all of them as many; 0: some
 * do not. */
static int answers_of(const Group *g) {
    int count = 0;
    for (int i = 0; i < g->n; i++) {
        const Run *r = g->run[i];
        const double n = r->test[RUN_BEST].value[RUN_COUNT];
        if (!run_done(r)) continue;
        if (!r->correct[RUN_BEST] || (count && n != count)) return 0;
        count = (int)n;
    }
    return count;
}

/* In what share of its finished runs the group has each of n examples right; to be freed. */
static double *shares_right(const Group *g, int runs, int n) {
    double *share = mem_alloc((size_t)n, sizeof *share);
    for (int k = 0; k < g->n; k++) {
        if (!run_done(g->run[k])) continue;
        for (int i = 0; i < n; i++) share[i] += run_answer(g->run[k], RUN_BEST, i);
    }
    for (int i = 0; i < n; i++) share[i] /= runs;
    return share;
}

/* Of a mean over runs, the variance by which of them have the example right: it is in the variance
 * over seeds already. */
static double by_runs(double share, int runs) {
    return runs > 1 ? share * (1 - share) / (runs - 1) : 0;
}

/* The variance that the choice of test examples gives the difference of two groups: what both have
 * right or wrong says nothing of it. Where they differ in few examples it is known badly: one more
 * is counted for either side (Bonett and Price 2012, doi:10.3102/1076998611411915), with which
 * verdicts are near to those of McNemar's exact test. NAN: they do not tell. *least: what the
 * variance of the difference has at least, however alike seeds happen to be. */
static double paired(const Group *a, const Group *b, int a_runs, int b_runs, double *least) {
    const int n = answers_of(a);
    double sum = 0, squares = 2, seeds = 0;
    if (n < 1 || n != answers_of(b)) return NAN;
    double *x = shares_right(a, a_runs, n), *y = shares_right(b, b_runs, n);
    for (int i = 0; i < n; i++) {
        sum += y[i] - x[i], squares += (y[i] - x[i]) * (y[i] - x[i]);
        seeds += by_runs(x[i], a_runs) + by_runs(y[i], b_runs);
    }
    mem_free(x);
    mem_free(y);
    const double of_mean = (squares - sum * sum / (n + 2)) / (n + 2) / (n + 2);
    *least = 100 * 100 * of_mean;
    return 100 * 100 * fmax(0, of_mean - seeds / n / n);
}

typedef struct Difference {
    Side side[2];
    double of_test;     /* its variance by the choice of test examples */
    double least;       /* its whole variance is no smaller */
    bool paired, apart; /* of the same ones; of others, and nothing is said */
} Difference;

static double error_of(const Difference *d) {
    const double sum = d->of_test + d->side[0].of_seeds + d->side[1].of_seeds;
    return sqrt(sum < d->least ? d->least : sum);
}

/* ---- in words ---- */

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
static double freedom(const Difference *d) {
    double estimated = 0;
    for (const Side *s = d->side; s < d->side + 2; s++)
        if (s->seeds > 1) estimated += s->of_seeds * s->of_seeds / (s->seeds - 1);
    return pow(error_of(d), 4) / estimated;
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

static void add_row(Table *t, const char *task, const Difference *d) {
    const Side *a = &d->side[0], *b = &d->side[1];
    const double difference = d->apart ? NAN : b->accuracy - a->accuracy;
    const double error = d->apart ? NAN : error_of(d);
    const double reach = d->apart ? NAN : within(freedom(d)) * error;
    Cell *c = table_row(t);
    cell_text(c++, task);
    const double numbers[] = {a->accuracy, sqrt(variance(a)), a->seeds,
                              b->accuracy, sqrt(variance(b)), b->seeds};
    for (int i = 0; i < 6; i++) (c++)->mean = numbers[i];
    const double of_both[] = {difference, error, difference - reach, difference + reach};
    for (int i = 0; i < 4; i++) (c++)->mean = of_both[i];
    cell_text(c, verdict(difference, reach, d->apart));
}

/* The two are A and B, since their names may be long. */
static void add_columns(Table *t) {
    table_column(t, "task", "task", COLUMN_TEXT, 0);
    table_column(t, "A, %", "a_percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "a_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds of A", "a_seeds", COLUMN_NUMBER, 0)->spare = 1;
    table_column(t, "B, %", "b_percent", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "b_standard_error", COLUMN_NUMBER, 2)->spare = 3;
    table_column(t, "seeds of B", "b_seeds", COLUMN_NUMBER, 0)->spare = 1;
    table_column(t, "B - A", "difference", COLUMN_NUMBER, 2);
    table_column(t, "standard error", "standard_error", COLUMN_NUMBER, 2)->spare = 2;
    table_column(t, "95 %: from", "from", COLUMN_NUMBER, 2);
    table_column(t, "to", "to", COLUMN_NUMBER, 2);
    table_column(t, "B is", "verdict", COLUMN_TEXT, 0);
}

typedef struct Notes {
    bool alone, apart, paired, unpaired, chosen, machines;
} Notes;

static void add_notes(Table *t, char *const names[2], const Notes *of) {
    table_note(t, text_format("A: %s. B: %s.", names[0], names[1]));
    table_note(t,
               mem_strdup("Test accuracy of best, the mean over seeds of finished runs. Its "
                          "standard error is of the test set, sqrt(p (1 - p) / examples), but in "
                          "masked training, and of seeds, their standard deviation over the root "
                          "of their number, as squares. 95 %: by Student's t, since few seeds "
                          "tell their deviation badly; 1.96 standard errors each way without."));
    if (of->chosen) table_note(t, mem_strdup(marks_chosen_note));
    if (of->machines) table_note(t, mem_strdup(hardware_timed_note));
    if (of->paired)
        table_note(t, mem_strdup("B - A is taken example by example: what both have right, or "
                                 "both wrong, says nothing of it."));
    if (of->unpaired)
        table_note(t, text_format("Where a run does not tell which examples it has right, as those "
                                  "of older versions and of tests of more than %d do not, the "
                                  "standard error of B - A is that of two test sets: larger than "
                                  "that of one which both have. A finished run's command, given "
                                  "again, tests it again.",
                                  RUN_MOST_ANSWERS));
    if (of->alone)
        table_note(t,
                   mem_strdup("Of a single seed the spread over seeds is not known: its error is "
                              "larger than what is said."));
    if (of->apart)
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

static Difference difference_of(const Group *a, const Group *b) {
    Difference d = {{side_of(a), side_of(b)}, .apart = tests_differ(a, b)};
    const double both =
        a->masked || d.apart ? NAN : paired(a, b, d.side[0].seeds, d.side[1].seeds, &d.least);
    d.paired = !isnan(both);
    d.of_test = d.paired ? both : d.side[0].of_test + d.side[1].of_test;
    return d;
}

static void note(Notes *n, const Difference *d, bool masked) {
    n->alone |= d->side[0].seeds == 1 || d->side[1].seeds == 1;
    n->apart |= d->apart;
    n->paired |= d->paired;
    n->unpaired |= !d->paired && !d->apart && !masked;
}

static bool machines_decide(const Group *a, const Group *b) {
    Hardware h = {0};
    hardware_add(&h, a);
    hardware_add(&h, b);
    return h.differs && h.timed;
}

bool compare_table(Table *t, const Groups *a, const Groups *b, char *const names[2], Err *err) {
    Notes notes = {0};
    *t = (Table){0};
    err->code = 0;
    add_columns(t);
    for (int i = 0; i < a->n && !err->code; i++) {
        const char *task = a->group[i].task;
        const Group *first = find_group(a, task, names[0], err);
        const Group *second = first ? find_group(b, task, names[1], err) : NULL;
        if (!second) continue;
        const Difference d = difference_of(first, second);
        if (d.side[0].seeds == 0 || d.side[1].seeds == 0) continue;
        note(&notes, &d, first->masked);
        notes.chosen |= marks_chosen_by_test(first->run[0]) || marks_chosen_by_test(second->run[0]);
        notes.machines |= machines_decide(first, second);
        add_row(t, task, &d);
    }
    if (!err->code && t->rows == 0)
        err_set(err, EX_NOINPUT, "%s and %s have no task with finished runs of both", names[0],
                names[1]);
    if (!err->code) add_notes(t, names, &notes);
    if (err->code) table_free(t);
    return !err->code;
}
