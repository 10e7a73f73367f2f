/* The three norms, and sums over many rows, beside their definitions, in the precision and the
 * widths of vectors that training has: gradient checks know them in double alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draws.h"
#include "ops/linear.h"
#include "ops/norm.h"

#define BAR (sizeof(real) == 8 ? 1e-12 : 2e-5)
#define EPS 1e-5

typedef struct Norm {
    int R, d;
    real *x, *dy, *g, *b;                   /* (R,d), (R,d), (d), (d) */
    real *y, *dx, *dg, *db;                 /* (R,d), (R,d), (d), (d); gradients begin at 0 */
    real *mean, *scale;                     /* the larger of R and d */
    double *hat, *rstd, *want_dg, *want_db; /* x normalised; 1 / deviation; sums */
} Norm;

static void *zeros(size_t n, size_t size) {
    void *p = calloc(n, size);
    if (!p) abort();
    return p;
}

static real *drawn(Draws *d, int n, double mean) {
    real *x = zeros((size_t)n, sizeof *x);
    draw_normals(d, x, (size_t)n, mean, 1);
    return x;
}

static void open_norm(Norm *o, int R, int d) {
    Draws draws = draws_open("norms", (uint64_t)(1000 * R + d));
    const size_t all = (size_t)(R * d), most = (size_t)(R > d ? R : d);
    *o = (Norm){.R = R, .d = d};
    o->x = drawn(&draws, R * d, 0.5), o->dy = drawn(&draws, R * d, 0.5);
    o->g = drawn(&draws, d, 1), o->b = drawn(&draws, d, 0);
    o->y = zeros(all, sizeof(real)), o->dx = zeros(all, sizeof(real));
    o->dg = zeros((size_t)d, sizeof(real)), o->db = zeros((size_t)d, sizeof(real));
    o->mean = zeros(most, sizeof(real)), o->scale = zeros(most, sizeof(real));
    o->hat = zeros(all, sizeof(double)), o->rstd = zeros(most, sizeof(double));
    o->want_dg = zeros((size_t)d, sizeof(double)), o->want_db = zeros((size_t)d, sizeof(double));
}

static void close_norm(Norm *o) {
    void *const all[] = {o->x,  o->dy,   o->g,     o->b,   o->y,    o->dx,      o->dg,
                         o->db, o->mean, o->scale, o->hat, o->rstd, o->want_dg, o->want_db};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Sums over all rows round with each. */
static void near_sum(const char *what, const Norm *o, int terms, real got, double want) {
    if (!(fabs((double)got - want) < BAR * sqrt(terms) * (1 + fabs(want))))
        fail_msg("%s of (%d,%d): %g, not %g", what, o->R, o->d, (double)got, want);
}

static void near(const char *what, const Norm *o, real got, double want) {
    near_sum(what, o, 1, got, want);
}

/* hat and rstd of n numbers that are `step` apart. */
static void normalise(Norm *o, int at, int n, int step, double *rstd) {
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++) mean += (double)o->x[at + i * step] / n;
    for (int i = 0; i < n; i++) squares += pow((double)o->x[at + i * step] - mean, 2) / n;
    *rstd = 1 / sqrt(squares + EPS);
    for (int i = 0; i < n; i++)
        o->hat[at + i * step] = ((double)o->x[at + i * step] - mean) * *rstd;
}

/* y, dg and db of layer and batch norm, which have a gain and a bias for each column. */
static void check_affine(const char *what, Norm *o) {
    for (int i = 0; i < o->R * o->d; i++) {
        const int j = i % o->d;
        near(what, o, o->y[i], (double)o->g[j] * o->hat[i] + (double)o->b[j]);
        o->want_dg[j] += (double)o->dy[i] * o->hat[i];
        o->want_db[j] += (double)o->dy[i];
    }
    for (int j = 0; j < o->d; j++) {
        near_sum("gradient of a gain", o, o->R, o->dg[j], o->want_dg[j]);
        near_sum("gradient of a bias", o, o->R, o->db[j], o->want_db[j]);
    }
}

static void layer(int R, int d) {
    Norm o;
    open_norm(&o, R, d);
    for (int r = 0; r < R; r++) normalise(&o, r * d, d, 1, &o.rstd[r]);
    layernorm_forward(o.y, o.mean, o.scale, o.x, o.g, o.b, (real)EPS, R, d);
    layernorm_backward(o.dx, o.dg, o.db, o.dy, o.x, o.mean, o.scale, o.g, R, d);
    check_affine("layer norm", &o);
    for (int r = 0; r < R; r++) {
        double mean = 0, along = 0;
        for (int i = r * d; i < (r + 1) * d; i++) {
            const double dhat = (double)o.g[i % d] * (double)o.dy[i];
            mean += dhat / d, along += dhat * o.hat[i] / d;
        }
        for (int i = r * d; i < (r + 1) * d; i++)
            near("gradient of layer norm", &o, o.dx[i],
                 o.rstd[r] * ((double)o.g[i % d] * (double)o.dy[i] - mean - o.hat[i] * along));
    }
    layernorm_again(o.dx, o.mean, o.scale, o.x, o.g, o.b, R, d);
    assert_memory_equal(o.dx, o.y, (size_t)(R * d) * sizeof *o.y);
    close_norm(&o);
}

static void scale(int R, int d) {
    Norm o;
    open_norm(&o, R, d);
    double dg = 0;
    scalenorm_forward(o.y, o.scale, o.x, o.g[0], (real)EPS, R, d);
    scalenorm_backward(o.dx, o.dg, o.dy, o.x, o.scale, o.g[0], (real)EPS, R, d);
    for (int r = 0; r < R; r++) {
        double squares = 0, along = 0;
        for (int i = r * d; i < (r + 1) * d; i++) squares += pow((double)o.x[i], 2);
        const double length = sqrt(squares), g = (double)o.g[0];
        for (int i = r * d; i < (r + 1) * d; i++) along += (double)(o.x[i] * o.dy[i]) / length;
        for (int i = r * d; i < (r + 1) * d; i++) {
            near("scale norm", &o, o.y[i], g * (double)o.x[i] / length);
            near("gradient of scale norm", &o, o.dx[i],
                 g / length * ((double)o.dy[i] - (double)o.x[i] / length * along));
        }
        dg += along;
    }
    near_sum("gradient of the gain", &o, R, o.dg[0], dg);
    close_norm(&o);
}

/* Of a batch of one sequence. */
static void batch(int R, int d) {
    Norm o;
    open_norm(&o, R, d);
    for (int j = 0; j < d; j++) normalise(&o, j, R, d, &o.rstd[j]);
    batchnorm_moments(o.mean, o.scale, o.x, R, d);
    for (int j = 0; j < d; j++) o.scale[j] = 1 / REAL_SQRT(o.scale[j] / (real)R + (real)EPS);
    batchnorm_apply(o.y, o.x, o.mean, o.scale, o.g, o.b, R, d);
    batchnorm_backward(o.dx, o.dg, o.db, o.dy, o.x, o.mean, o.scale, o.g, R, d);
    batchnorm_finish(o.dx, o.x, o.mean, o.scale, o.g, o.dg, o.db, R, R, d);
    check_affine("batch norm", &o);
    for (int i = 0; i < R * d; i++) {
        const int j = i % d;
        const double shared = (o.want_db[j] + o.hat[i] * o.want_dg[j]) / R;
        near("gradient of batch norm", &o, o.dx[i],
             (double)o.g[j] * o.rstd[j] * ((double)o.dy[i] - shared));
    }
    close_norm(&o);
}

/* Of a few numbers, which may be near each other, rounding can be anything. */
static const int widths[] = {5, 7, 8, 16, 17, 33, 64, 131, 256};
enum { WIDTHS = sizeof widths / sizeof *widths };

static void norms_of_rows(void **state) {
    (void)state;
    for (int i = 0; i < WIDTHS; i++)
        for (int R = 1; R <= 65; R += 32) {
            layer(R, widths[i]);
            scale(R, widths[i]);
        }
}

static void norm_of_a_batch(void **state) {
    (void)state;
    for (int i = 0; i < WIDTHS; i++)
        for (int R = 33; R <= 300; R += 267) batch(R, widths[i]);
}

/* Squares of finite numbers may not be finite: the loss is to show it. */
static void norms_of_large_rows(void **state) {
    (void)state;
    Norm o;
    open_norm(&o, 2, 64);
    const real large = (real)(sizeof(real) == 8 ? 1e160 : 1e25);
    for (int i = 64; i < 128; i++) o.x[i] = i % 2 ? large : -large;
    layernorm_forward(o.y, o.mean, o.scale, o.x, o.g, o.b, (real)EPS, 2, 64);
    for (int i = 0; i < 128; i++) assert_true(isnan(o.y[i]) == (i >= 64));
    scalenorm_forward(o.y, o.scale, o.x, 1, (real)EPS, 2, 64);
    for (int i = 0; i < 128; i++) assert_true(isnan(o.y[i]) == (i >= 64));
    close_norm(&o);
}

/* Of many rows that are alike a running sum would be off by its own rounding, times their number.
 */
static void sums_of_many_rows(void **state) {
    (void)state;
    enum { R = 1 << 15, TILE = 256 };
    const double at = (double)REAL(0.3);
    Norm o;
    open_norm(&o, R, 5);
    for (int i = 0; i < R * 5; i++)
        o.x[i] = i / 5 % 20 ? REAL(0.8) : REAL(0.3), o.dy[i] = REAL(0.1);
    const double rare = (R + 19) / 20, mean = (rare * at + (R - rare) * (double)REAL(0.8)) / R;
    const double apart = (double)REAL(0.8) - at, squares = rare * (R - rare) / R * apart * apart;
    batchnorm_moments(o.mean, o.scale, o.x, R, 5);
    for (int j = 0; j < 5; j++) {
        assert_true(fabs((double)o.mean[j] - mean) <= BAR * mean);
        assert_true(fabs((double)o.scale[j] - squares) <= BAR * squares);
        o.scale[j] = 1;
    }
    real db[2][5] = {{0}};
    for (int r = 0; r < R; r += TILE) {
        const real *dy = o.dy + r * 5, *x = o.x + r * 5;
        batchnorm_backward(o.dx, o.dg, db[0], dy, x, o.mean, o.scale, o.g, TILE, 5);
    }
    linear_backward_bias(db[1], o.dy, 5, R, 5);
    for (int i = 0; i < 2 * 5; i++)
        assert_true(fabs((double)db[i / 5][i % 5] / ((double)REAL(0.1) * R) - 1) <= BAR);
    close_norm(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_rows), cmocka_unit_test(norms_of_large_rows),
        cmocka_unit_test(sums_of_many_rows), cmocka_unit_test(norm_of_a_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
