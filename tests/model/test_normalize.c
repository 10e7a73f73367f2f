/* The model's norms, as docs/method.md has them, of tokens so short that the epsilons count. */
#include "model/normalize.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tiny.h"

enum { R = 6, D = 8 };

/* On both sides of 1e-5, which is scale norm's bound, and of its root, which is layer norm's. */
static const double lengths[R] = {0, 3e-6, 3e-5, 1e-3, 1e-2, 1};

typedef struct Rows {
    Tiny t;
    Pass p;
    Doc doc;
    real mean[R], rstd[R], *means[1], *rstds[1];
    real x[R * D], y[R * D], dy[R * D], dx[R * D];
} Rows;

static void open_rows(Rows *o, const char *norm) {
    Draws d = draws_open("normalize", 1);
    *o = (Rows){0};
    tiny_open(&o->t, (TinyConf){.d = D, .norm = norm}, d);
    o->p = (Pass){.m = &o->t.m, .w = o->t.w};
    o->means[0] = o->mean, o->rstds[0] = o->rstd;
    o->doc = (Doc){.N = R, .mean = o->means, .rstd = o->rstds};
    draw_normals(&d, o->x, R * D, 0, 1);
    draw_normals(&d, o->dy, R * D, 0, 1);
    for (int i = 0; i < R * D; i++) o->x[i] *= (real)(lengths[i / D] / sqrt(D));
}

static double length_of(const real *x) {
    double sum = 0;
    for (int j = 0; j < D; j++) sum += (double)x[j] * (double)x[j];
    return sqrt(sum);
}

/* g x / max(|x|, 1e-5) */
static void scale_of(const Rows *o, const real *x, double *y) {
    const double g = (double)o->t.w[o->t.m.norms[0].g];
    for (int j = 0; j < D; j++) y[j] = g * (double)x[j] / fmax(length_of(x), 1e-5);
}

/* g (x - mean) / sqrt(var + 1e-5) + b */
static void layer_of(const Rows *o, const real *x, double *y) {
    const real *g = o->t.w + o->t.m.norms[0].g, *b = o->t.w + o->t.m.norms[0].b;
    double mean = 0, var = 0;
    for (int j = 0; j < D; j++) mean += (double)x[j] / D;
    for (int j = 0; j < D; j++) var += pow((double)x[j] - mean, 2) / D;
    for (int j = 0; j < D; j++)
        y[j] = (double)g[j] * ((double)x[j] - mean) / sqrt(var + 1e-5) + (double)b[j];
}

static void are_near(const real *y, const double *want) {
    for (int j = 0; j < D; j++)
        assert_true(fabs((double)y[j] - want[j]) <=
                    (sizeof(real) == 8 ? 1e-12 : 1e-5) * (1 + fabs(want[j])));
}

/* All rows, and from the middle on once more, as the backward pass makes them. */
static void check(const char *norm, void (*expect)(const Rows *, const real *, double *)) {
    Rows o;
    double want[D];
    open_rows(&o, norm);
    norm_forward(&o.p, &o.doc, 0, o.y, o.x, 0, R);
    for (int r = 0; r < R; r++) {
        expect(&o, o.x + r * D, want);
        are_near(o.y + r * D, want);
    }
    norm_again(&o.p, &o.doc, 0, o.y, o.x + 2 * D, 2, R - 2);
    for (int r = 2; r < R; r++) {
        expect(&o, o.x + r * D, want);
        are_near(o.y + (r - 2) * D, want);
    }
    tiny_close(&o.t);
}

static void forward(void **state) {
    (void)state;
    check("scale", scale_of);
    check("layer", layer_of);
}

/* Below its bound scale norm is a product with g / 1e-5, and above it a row's gradient is at right
 * angles to the row. */
static void backward_of_scale(void **state) {
    (void)state;
    Rows o;
    open_rows(&o, "scale");
    norm_forward(&o.p, &o.doc, 0, o.y, o.x, 0, R);
    norm_backward(&o.p, &o.doc, 0, o.dx, o.dy, o.x, 0, R, o.t.grads);
    const double g = (double)o.t.w[o.t.m.norms[0].g];
    for (int r = 0; r < R; r++) {
        const real *x = o.x + r * D, *dx = o.dx + r * D, *dy = o.dy + r * D;
        double along = 0;
        for (int j = 0; j < D; j++) {
            const double want = g * (double)dy[j] / 1e-5;
            along += (double)x[j] * (double)dx[j];
            if (lengths[r] < 1e-5) assert_true(fabs((double)dx[j] - want) <= 1e-5 * fabs(want));
        }
        if (lengths[r] < 1e-5) continue;
        assert_true(length_of(dx) > 0);
        assert_true(fabs(along) <= 1e-5 * length_of(x) * length_of(dx));
    }
    tiny_close(&o.t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward),
                                       cmocka_unit_test(backward_of_scale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
