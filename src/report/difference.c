#include "report/difference.h"

#include <math.h>

#include "core/mem.h"
#include "report/figures.h"
#include "report/rundata.h"

/* ---- one side ---- */

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

double difference_error(const Side *s) { return sqrt(s->of_test + s->of_seeds); }

/* ---- the same examples ---- */

/* How many examples the finished runs of a group tell of one by one, all of them as many; 0: some
 * do not. */
static int answers_of(const Group *g) {
    int count = 0;
    for (int i = 0; i < g->n; i++) {
        const Run *r = g->run[i];
        const double n = r->test[RUN_BEST].value[RUN_COUNT];
        if (!run_done(r)) continue;
        if (!r->correct || (count && n != count)) return 0;
        count = (int)n;
    }
    return count;
}

/* In what share of its finished runs the group has each of n examples right; to be freed. */
static double *shares_right(const Group *g, int runs, int n) {
    double *share = mem_alloc((size_t)n, sizeof *share);
    for (int k = 0; k < g->n; k++) {
        if (!run_done(g->run[k])) continue;
        for (int i = 0; i < n; i++) share[i] += run_answer(g->run[k], i);
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

/* ---- Student's t ---- */

/* With n >= 1 degrees of freedom the density of t = sqrt(n) tan(angle) over the angle, up to a
 * right one, is as cos(angle)^(n - 1): here in the middle of one of so many steps. */
enum { STEPS = 20000 };
static double density(double n, int i) { return pow(cos((i + 0.5) * acos(-1) / 2 / STEPS), n - 1); }
static bool is_normal(double n) { return !(n < 1e4); }

/* Within so many standard errors 95 % of what is estimated lie. */
static double within(double n) {
    const double step = acos(-1) / 2 / STEPS, normal = 1.959963985;
    double all = 0, sum = 0;
    if (is_normal(n)) return normal;
    for (int i = 0; i < STEPS; i++) all += density(n, i);
    for (int i = 0; i < STEPS; i++) {
        const double next = density(n, i);
        if (sum + next >= 0.95 * all) return sqrt(n) * tan((i + (0.95 * all - sum) / next) * step);
        sum += next;
    }
    return normal;
}

/* The share that is further than t standard errors off, either way. */
static double beyond(double t, double n) {
    const double step = acos(-1) / 2 / STEPS, end = atan(t / sqrt(n)) / step;
    double all = 0, out = 0;
    if (is_normal(n)) return erfc(t / sqrt(2));
    for (int i = 0; i < STEPS; i++) {
        const double next = density(n, i);
        all += next;
        out += next * fmin(1, fmax(0, i + 1 - end));
    }
    return out / all;
}

/* ---- the difference ---- */

/* The variance by seeds, known with so many degrees of freedom (Welch 1947, Satterthwaite 1946). A
 * side of one seed has the spread of the other's; where both have one nothing is known of it. */
static double of_seeds(const Side *a, const Side *b, double *freedom) {
    const double sum = a->of_seeds + b->of_seeds;
    *freedom = INFINITY;
    if (a->seeds > 1 && b->seeds > 1) {
        *freedom = sum * sum /
                   (a->of_seeds * a->of_seeds / (a->seeds - 1) +
                    b->of_seeds * b->of_seeds / (b->seeds - 1));
        return sum;
    }
    const Side *several = a->seeds > 1 ? a : b;
    if (several->seeds < 2) return sum;
    *freedom = several->seeds - 1;
    return several->of_seeds * (1 + several->seeds);
}

/* The interval and p, of a variance that is known but for the part by seeds. */
static void judge(Difference *d, double variance, double seeds, double freedom) {
    const double n = variance * variance / (seeds * seeds) * freedom;
    d->error = sqrt(variance);
    d->from = d->mean - within(n) * d->error;
    d->to = d->mean + within(n) * d->error;
    d->p = isnan(d->error) ? NAN : d->mean == 0 ? 1 : beyond(fabs(d->mean) / d->error, n);
}

Difference difference_of(const Group *a, const Group *b) {
    Difference d = {{side_of(a), side_of(b)}, NAN, NAN, NAN, NAN, NAN};
    const Side *x = &d.side[0], *y = &d.side[1];
    double least = 0, freedom;
    if (x->seeds == 0 || y->seeds == 0) return d;
    d.apart = tests_differ(a, b);
    d.alone = x->seeds == 1 && y->seeds == 1;
    d.lent = !d.alone && (x->seeds == 1 || y->seeds == 1);
    if (d.apart) return d;
    const double both = a->masked ? NAN : paired(a, b, x->seeds, y->seeds, &least);
    d.paired = !isnan(both);
    const double seeds = of_seeds(x, y, &freedom),
                 sum = (d.paired ? both : x->of_test + y->of_test) + seeds;
    d.mean = y->accuracy - x->accuracy;
    judge(&d, sum < least ? least : sum, seeds, freedom);
    return d;
}

/* From the least p on, each is held against as many as are left. */
void difference_holm(const double *p, double *holm, int n) {
    double reached = 0;
    int left = 0;
    for (int i = 0; i < n; i++) holm[i] = NAN, left += !isnan(p[i]);
    for (; left > 0; left--) {
        int least = -1;
        for (int i = 0; i < n; i++)
            if (!isnan(p[i]) && isnan(holm[i]) && (least < 0 || p[i] < p[least])) least = i;
        reached = fmin(1, fmax(reached, left * p[least]));
        holm[least] = reached;
    }
}
