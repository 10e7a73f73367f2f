#include "report/curve.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

void curve_free(Curve *c) {
    mem_free(c->point);
    *c = (Curve){0};
}

/* ---- a run over its axis ---- */

/* A run's lines of training: where they are on the axis, and their values. */
typedef struct Track {
    double *x, *y, *step;
    int n;
} Track;

static void track_free(Track *t) {
    mem_free(t->x);
    mem_free(t->y);
    mem_free(t->step);
}

static double scaled(double value, int key) { return key == RUN_ACCURACY ? 100 * value : value; }

/* metrics.jsonl has no count of tokens: the rate of tokens over that of samples tells how many a
 * sample has had since the last line. */
static double tokens_since(const Run *r, int i) {
    const RunLine *l = &r->train.line[i];
    const double batch = run_number(r, "train.batch", NAN) * run_number(r, "train.accumulate", 1);
    const double updates = (double)(l->step - (i ? l[-1].step : 0));
    return updates * batch * l->value[RUN_TOKENS_PER_S] / l->value[RUN_SAMPLES_PER_S];
}

static Track track_of(const Run *r, int key, CurveAxis axis) {
    const int n = r->train.n;
    Track t = {mem_alloc((size_t)n + 1, sizeof *t.x), mem_alloc((size_t)n + 1, sizeof *t.y),
               mem_alloc((size_t)n + 1, sizeof *t.step), 0};
    double tokens = 0;
    for (int i = 0; i < n; i++) {
        const RunLine *l = &r->train.line[i];
        const double more = axis == CURVE_TOKENS ? tokens_since(r, i) : 0;
        if (isfinite(more)) tokens += more;
        t.x[t.n] = axis == CURVE_STEPS  ? (double)l->step
                   : axis == CURVE_TIME ? l->value[RUN_SECONDS] / 3600
                                        : tokens;
        t.y[t.n] = scaled(l->value[key], key);
        t.step[t.n] = (double)l->step;
        if (isfinite(t.x[t.n]) && isfinite(t.y[t.n])) t.n++;
    }
    return t;
}

static void smooth(Track *t) {
    const int h = t->n / 50;
    double *sums = mem_alloc((size_t)t->n + 1, sizeof *sums);
    for (int i = 0; i < t->n; i++) sums[i + 1] = sums[i] + t->y[i];
    for (int i = 0; i < t->n; i++) {
        /* The same on both sides, so that a steep beginning is not bent; at the end, which is flat,
         * that would leave the noise of a single line. */
        const int w = i < h ? i : h, last = i + w < t->n ? i + w : t->n - 1;
        t->y[i] = (sums[last + 1] - sums[i - w]) / (last + 1 - i + w);
    }
    mem_free(sums);
}

/* On the straight lines between; outside, by more than `slack`, NaN. `from`: where the search
 * begins; it may move on. */
static double read_at(const Track *t, double x, double slack, int *from) {
    while (*from + 1 < t->n && t->x[*from + 1] < x) ++*from;
    const int i = *from;
    if (t->n == 0 || x < t->x[0] - slack || x > t->x[t->n - 1] + slack) return NAN;
    x = fmax(t->x[0], fmin(x, t->x[t->n - 1]));
    if (i + 1 >= t->n || t->x[i + 1] <= t->x[i]) return t->y[i];
    const double a = (x - t->x[i]) / (t->x[i + 1] - t->x[i]);
    return (1 - a) * t->y[i] + a * t->y[i + 1];
}

/* ---- many runs ---- */

CurvePoint curve_point(double x, const Spread *s, CurveBand band) {
    const double sd = isnan(s->sd) ? 0 : s->sd;
    return (CurvePoint){x, s->mean, band == CURVE_SD ? s->mean - sd : s->least,
                        band == CURVE_SD ? s->mean + sd : s->most, s->n};
}

/* c has room for it. */
static void add_point(Curve *c, double x, const double *y, int n, CurveBand band) {
    const Spread s = spread_of(y, n);
    if (s.n == 0) return;
    c->point[c->n++] = curve_point(x, &s, band);
}

/* The mean place of runs that have one line each, or NaN: others have no line, or several. */
static double lone_place(const Track *t, int n) {
    double sum = 0;
    int runs = 0;
    for (int i = 0; i < n; i++) {
        if (t[i].n > 1) return NAN;
        if (t[i].n == 1) sum += t[i].x[0], runs++;
    }
    return sum / runs;
}

/* Where to read: a lone run with few lines at these, others at places of equal distance. */
static int places(double *x, const Track *t, int n) {
    double least = INFINITY, most = -INFINITY;
    x[0] = lone_place(t, n);
    if (!isnan(x[0])) return 1;
    if (n == 1 && t->n <= CURVE_POINTS) {
        for (int i = 0; i < t->n; i++) x[i] = t->x[i];
        return t->n;
    }
    for (int i = 0; i < n; i++) {
        if (t[i].n == 0) continue;
        least = fmin(least, t[i].x[0]);
        most = fmax(most, t[i].x[t[i].n - 1]);
    }
    if (!(least <= most)) return 0;
    for (int i = 0; i < CURVE_POINTS; i++)
        x[i] = i + 1 < CURVE_POINTS ? least + (most - least) * i / (CURVE_POINTS - 1) : most;
    return CURVE_POINTS;
}

void curve_train(Curve *c, const Group *g, int key, CurveAxis axis, CurveBand band) {
    double x[CURVE_POINTS];
    Track *t = mem_alloc((size_t)g->n, sizeof *t);
    double *y = mem_alloc((size_t)g->n, sizeof *y);
    int *from = mem_alloc((size_t)g->n, sizeof *from);
    *c = (Curve){mem_alloc(CURVE_POINTS, sizeof *c->point), 0};
    for (int i = 0; i < g->n; i++) {
        t[i] = track_of(g->run[i], key, axis);
        smooth(&t[i]);
    }
    const int n = places(x, t, g->n);
    /* Seeds of equal length end at places that differ a little, by time or by rounded tokens. */
    const double slack = n == 1 ? INFINITY : n && g->n > 1 ? 0.005 * (x[n - 1] - x[0]) : 0;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < g->n; i++) y[i] = read_at(&t[i], x[k], slack, &from[i]);
        add_point(c, x[k], y, g->n, band);
    }
    for (int i = 0; i < g->n; i++) track_free(&t[i]);
    mem_free(t);
    mem_free(y);
    mem_free(from);
}

/* Where on the axis a run was at a step, by its lines of training on either side. */
static double place_of_step(const Track *t, int64_t step, CurveAxis axis) {
    int from = 0;
    if (axis == CURVE_STEPS) return (double)step;
    if (t->n == 0) return NAN;
    const double s = (double)step;
    if (s < t->step[0]) return t->x[0] * s / t->step[0];
    if (s > t->step[t->n - 1]) return t->x[t->n - 1];
    const Track places = {.x = t->step, .y = t->x, .n = t->n};
    return read_at(&places, s, 0, &from);
}

typedef struct Validated {
    int64_t step;
    double x, y;
} Validated;

static int by_step(const void *a, const void *b) {
    const Validated *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

static int add_validations(Validated *all, const Run *r, int key, CurveAxis axis) {
    Track t = track_of(r, key, axis);
    for (int i = 0; i < r->val.n; i++) {
        const RunLine *l = &r->val.line[i];
        all[i] = (Validated){l->step, place_of_step(&t, l->step, axis), scaled(l->value[key], key)};
    }
    track_free(&t);
    return r->val.n;
}

void curve_validation(Curve *c, const Group *g, int key, CurveAxis axis, CurveBand band) {
    int n = 0;
    for (int i = 0; i < g->n; i++) n += g->run[i]->val.n;
    *c = (Curve){mem_alloc((size_t)n + 1, sizeof *c->point), 0};
    Validated *all = mem_alloc((size_t)n + 1, sizeof *all);
    double *x = mem_alloc((size_t)g->n, sizeof *x), *y = mem_alloc((size_t)g->n, sizeof *y);
    for (int i = 0, at = 0; i < g->n; i++) at += add_validations(all + at, g->run[i], key, axis);
    if (n) qsort(all, (size_t)n, sizeof *all, by_step);
    for (int i = 0, count; i < n; i += count) {
        for (count = 0; i + count < n && all[i + count].step == all[i].step; count++) {
            x[count] = all[i + count].x;
            y[count] = all[i + count].y;
        }
        const double where = spread_of(x, count).mean;
        if (!isnan(where)) add_point(c, where, y, count, band);
    }
    mem_free(all);
    mem_free(x);
    mem_free(y);
}
