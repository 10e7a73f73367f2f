#include "gradcheck.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/lanes.h"

#define STEP 0x1p-13
#define SHORTER 16
#define FLOOR 1e-3 /* of the largest gradient: below it a tensor's gradient counts as zero */
#define NOISE 0x1p-10

static struct {
    int cases, jumped;
    double worst;
    char where[GRAD_TEXT + 80];
} tally;

int grad_setup(void **state) {
    (void)state;
    lanes_open(1);
    gemm_open();
    return 0;
}

/* ---- cases ---- */

void poison(void *x, size_t bytes) { memset(x, 0xff, bytes); }

/* Exactly n reals, so that the address sanitizer sees the first access beyond. */
static real *reals(size_t n) {
    real *x = malloc((n ? n : 1) * sizeof *x);
    if (!x) abort();
    return x;
}

void grad_open(GradCase *c, Draws draws, const char *fmt, ...) {
    *c = (GradCase){.draws = draws};
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->what, sizeof c->what, fmt, args);
    va_end(args);
}

static void close_tensor(GradTensor *t) {
    if (t->own) free(t->x), free(t->dx);
    free(t->noise);
}

void grad_close(GradCase *c) {
    for (int i = 0; i < c->ninputs; i++) close_tensor(&c->inputs[i]);
    for (int i = 0; i < c->noutputs; i++) close_tensor(&c->outputs[i]);
}

GradTensor *grad_input_at(GradCase *c, const char *name, real *x, real *dx, size_t n) {
    if (c->ninputs >= GRAD_TENSORS) abort();
    GradTensor *t = &c->inputs[c->ninputs++];
    *t = (GradTensor){.n = n, .x = x, .dx = dx, .noise = reals(n)};
    snprintf(t->name, sizeof t->name, "%s", name);
    memcpy(t->noise, dx, n * sizeof *dx);
    return t;
}

GradTensor *grad_input(GradCase *c, const char *name, size_t n, double std) {
    real *x = reals(n), *dx = reals(n);
    draw_normals(&c->draws, x, n, 0, std);
    draw_normals(&c->draws, dx, n, 0, NOISE);
    GradTensor *t = grad_input_at(c, name, x, dx, n);
    t->own = true;
    return t;
}

GradTensor *grad_output(GradCase *c, const char *name, size_t n) {
    if (c->noutputs >= (int)(sizeof c->outputs / sizeof *c->outputs)) abort();
    GradTensor *t = &c->outputs[c->noutputs++];
    *t = (GradTensor){.n = n, .x = reals(n), .dx = reals(n), .own = true};
    snprintf(t->name, sizeof t->name, "%s", name);
    poison(t->x, n * sizeof *t->x);
    draw_normals(&c->draws, t->dx, n, 0, 1);
    return t;
}

/* ---- derivatives ---- */

typedef struct Check {
    GradCase *c;
    GradStep *forward;
    void *ctx;
    double *u; /* the direction; NULL: element `at` */
    real *start;
    size_t at;
} Check;

static double value(const Check *k) {
    double sum = 0;
    k->forward(k->ctx);
    for (int i = 0; i < k->c->noutputs; i++) {
        const GradTensor *t = &k->c->outputs[i];
        for (size_t j = 0; j < t->n; j++) sum += (double)t->x[j] * (double)t->dx[j];
    }
    return sum;
}

static double value_at(const Check *k, const GradTensor *t, double step) {
    if (k->u)
        for (size_t i = 0; i < t->n; i++) t->x[i] = k->start[i] + (real)(step * k->u[i]);
    else
        t->x[k->at] = k->start[k->at] + (real)step;
    return value(k);
}

static double derivative(const Check *k, const GradTensor *t, double h) {
    double near = value_at(k, t, h) - value_at(k, t, -h);
    double far = value_at(k, t, 2 * h) - value_at(k, t, -2 * h);
    memcpy(t->x, k->start, t->n * sizeof *t->x);
    return (8 * near - far) / (12 * h);
}

static double analytic(const Check *k, const GradTensor *t) {
    double sum = 0;
    if (!k->u) return (double)t->dx[k->at] - (double)t->noise[k->at];
    for (size_t i = 0; i < t->n; i++) sum += ((double)t->dx[i] - (double)t->noise[i]) * k->u[i];
    return sum;
}

/* A direction of length 1. */
static void draw_direction(Check *k, size_t n) {
    double squares = 0;
    RngKey key = rng_subkey(k->c->draws.key, k->c->draws.next++);
    for (size_t i = 0; i < n; i++) {
        real x;
        rng_fill_normal(&x, 1, rng_subkey(key, i), 0, 1);
        k->u[i] = (double)x;
        squares += k->u[i] * k->u[i];
    }
    for (size_t i = 0; i < n; i++) k->u[i] /= sqrt(squares);
}

/* ---- comparison ---- */

typedef struct Found {
    double off, largest; /* max|a - n|, max|n| */
    double a, n;         /* where they differ most */
    size_t at;
} Found;

/* NaN is worse than all, and stays. */
static bool worse(double x, double than) { return than == than && !(x <= than); }

/* Where the function is steep, as a ratio of small sums is, the step is too long for it. A shorter
 * one then comes nearer to a gradient that is right, by the step's fourth power as far as rounding
 * lets it, and is no nearer to one that is wrong. */
static double settled(const Check *k, const GradTensor *t, double a, double largest) {
    const double n = derivative(k, t, STEP);
    if (!(fabs(a - n) > GRAD_BAR / 10 * fmax(fabs(n), largest))) return n;
    const double nearer = derivative(k, t, STEP / SHORTER);
    return fabs(a - nearer) < fabs(a - n) / SHORTER ? nearer : n;
}

static void compare(Found *f, const Check *k, const GradTensor *t) {
    const double a = analytic(k, t), n = settled(k, t, a, f->largest), off = fabs(a - n);
    if (worse(off, f->off)) f->off = off, f->a = a, f->n = n, f->at = k->at;
    if (worse(fabs(n), f->largest)) f->largest = fabs(n);
}

static Found check_tensor(Check *k, const GradTensor *t, bool all) {
    Found f = {0};
    if (t->fixed) {
        if (memcmp(t->dx, t->noise, t->n * sizeof *t->dx) != 0)
            fail_msg("%s: %s does not train, but has a gradient", k->c->what, t->name);
        return f;
    }
    const bool single = all || t->n <= GRAD_DIRECTIONS;
    const size_t count = single ? t->n : GRAD_DIRECTIONS;
    k->start = reals(t->n);
    memcpy(k->start, t->x, t->n * sizeof *t->x);
    k->u = single ? NULL : malloc(t->n * sizeof *k->u);
    for (k->at = 0; k->at < count && !k->c->jumped; k->at++) {
        if (!single) draw_direction(k, t->n);
        compare(&f, k, t);
    }
    free(k->u);
    free(k->start);
    return f;
}

/* The least gradient that differences resolve to 1e-7, outputs being rounded. It is the scale where
 * all gradients of a case are 0, as those of a softmax of one element. */
static double resolved(const GradCase *c) {
    double squares = 0;
    for (int i = 0; i < c->noutputs; i++)
        for (size_t j = 0; j < c->outputs[i].n; j++)
            squares += pow((double)c->outputs[i].x[j] * (double)c->outputs[i].dx[j], 2);
    return 1e7 * DBL_EPSILON * (NOISE + 4 * sqrt(squares) / STEP);
}

static void judge(const GradCase *c, const GradTensor *t, const Found *f, double largest) {
    double scale = fmax(fmax(f->largest, FLOOR * largest), resolved(c));
    double error = f->off == 0 ? 0 : f->off / scale;
    if (worse(error, tally.worst)) {
        tally.worst = error;
        snprintf(tally.where, sizeof tally.where, "%s of %s", t->name, c->what);
    }
    if (worse(error, GRAD_BAR))
        fail_msg("%s: gradient of %s[%zu] is %.12g, central differences give %.12g: error %.2g",
                 c->what, t->name, f->at, f->a, f->n, error);
}

bool grad_check(GradCase *c, GradStep *forward, GradStep *backward, void *ctx) {
    Check k = {c, forward, ctx, NULL, NULL, 0};
    Found found[GRAD_TENSORS] = {{0}};
    size_t total = 0;
    double largest = 0;
    forward(ctx);
    backward(ctx);
    for (int i = 0; i < c->ninputs; i++) total += c->inputs[i].n;
    const bool all = total <= GRAD_ELEMENTS && !c->directions;
    for (int i = 0; i < c->ninputs; i++) {
        found[i] = check_tensor(&k, &c->inputs[i], all);
        if (worse(found[i].largest, largest)) largest = found[i].largest;
    }
    tally.cases++;
    tally.jumped += c->jumped;
    if (c->jumped) return false;
    for (int i = 0; i < c->ninputs; i++) judge(c, &c->inputs[i], &found[i], largest);
    return true;
}

void grad_report(const char *what) {
    printf("# %s: %d cases, %d of them jumped, worst error %.1e (%s)\n", what, tally.cases,
           tally.jumped, tally.worst, tally.where);
    assert_true(tally.cases > tally.jumped);
    assert_true(tally.jumped * 5 <= tally.cases);
    memset(&tally, 0, sizeof tally);
}
