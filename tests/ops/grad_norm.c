#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "ops/norm.h"

enum { DOCUMENTS = 4 };

typedef struct Norm {
    GradTensor *x, *g, *b, *y;
    int rows, d;
    real eps;
    real *mean, *rstd, *dg, *db;
    int documents, length[DOCUMENTS]; /* batch norm: whose rows add up to `rows` */
} Norm;

static real *reals(int n) {
    real *x = malloc((size_t)n * sizeof *x);
    if (!x) abort();
    poison(x, (size_t)n * sizeof *x);
    return x;
}

static void open_norm(GradCase *c, Norm *o, Draws d, const char *kind, bool affine) {
    grad_open(c, d, "%s norm of (%d,%d)", kind, o->rows, o->d);
    o->x = grad_input(c, "x", (size_t)(o->rows * o->d), 1);
    o->g = grad_input(c, "g", affine ? (size_t)o->d : 1, 1);
    if (affine) o->b = grad_input(c, "b", (size_t)o->d, 1);
    o->y = grad_output(c, "y", (size_t)(o->rows * o->d));
    const int most = o->rows > o->d ? o->rows : o->d;
    o->mean = reals(most), o->rstd = reals(most), o->dg = reals(o->d), o->db = reals(o->d);
}

static void close_norm(GradCase *c, Norm *o) {
    grad_close(c);
    free(o->mean), free(o->rstd), free(o->dg), free(o->db);
}

static int size_of(Draws *d, int shape, int bit, int most) {
    return shape < 4 && (shape >> bit & 1) == 0 ? 1 : draw_size(d, most);
}

/* ---- layer norm; backward in two ranges of rows ---- */

static void layer_fwd(void *ctx) {
    Norm *o = ctx;
    layernorm_forward(o->y->x, o->mean, o->rstd, o->x->x, o->g->x, o->b->x, o->eps, o->rows, o->d);
}

static void layer_bwd(void *ctx) {
    Norm *o = ctx;
    real *again = reals(o->rows * o->d);
    layernorm_again(again, o->mean, o->rstd, o->x->x, o->g->x, o->b->x, o->rows, o->d);
    assert_memory_equal(again, o->y->x, o->y->n * sizeof(real));
    free(again);
    const int a = o->rows / 2, at = a * o->d;
    layernorm_backward(o->x->dx, o->g->dx, o->b->dx, o->y->dx, o->x->x, o->mean, o->rstd, o->g->x,
                       a, o->d);
    layernorm_backward(o->x->dx + at, o->g->dx, o->b->dx, o->y->dx + at, o->x->x + at, o->mean + a,
                       o->rstd + a, o->g->x, o->rows - a, o->d);
}

static void layer(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_open("layer", (uint64_t)i);
        Norm o = {.rows = size_of(&d, i, 0, 40), .d = size_of(&d, i, 1, 40)};
        /* A large eps in turn: what it does to the gradient must show. */
        o.eps = i % 2 ? REAL(1e-5) : REAL(0.5);
        GradCase c;
        open_norm(&c, &o, d, "layer", true);
        grad_check(&c, layer_fwd, layer_bwd, &o);
        close_norm(&c, &o);
    }
    grad_report("layer norm");
}

/* ---- scale norm; rows shorter than eps among others ---- */

static void scale_fwd(void *ctx) {
    Norm *o = ctx;
    scalenorm_forward(o->y->x, o->rstd, o->x->x, o->g->x[0], o->eps, o->rows, o->d);
}

static void scale_bwd(void *ctx) {
    Norm *o = ctx;
    scalenorm_backward(o->x->dx, o->g->dx, o->y->dx, o->x->x, o->rstd, o->g->x[0], o->eps, o->rows,
                       o->d);
}

/* Every third row becomes shorter than eps, the others longer. */
static void set_lengths(const Norm *o, Draws *d) {
    for (int r = 0; r < o->rows; r++) {
        real *x = o->x->x + r * o->d;
        double squares = 0, u = draw_uniform(d);
        double length = (double)o->eps * (r % 3 == 1 ? 0.1 + 0.8 * u : 1.1 + 3 * u);
        for (int j = 0; j < o->d; j++) squares += (double)x[j] * (double)x[j];
        for (int j = 0; j < o->d; j++) x[j] *= (real)(length / sqrt(squares));
    }
}

static void scale(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_open("scale", (uint64_t)i);
        Norm o = {.rows = size_of(&d, i, 0, 40), .d = size_of(&d, i, 1, 40), .eps = REAL(0.5)};
        GradCase c;
        open_norm(&c, &o, d, "scale", false);
        set_lengths(&o, &d);
        grad_check(&c, scale_fwd, scale_bwd, &o);
        close_norm(&c, &o);
    }
    grad_report("scale norm");
}

/* ---- batch norm over the documents of a batch ---- */

/* Documents lie end to end in x; body(o, first row, rows) for each. */
#define FOR_DOCUMENTS(at, n, o)                                                                    \
    for (int i_ = 0, at = 0, n; i_ < (o)->documents && (n = (o)->length[i_], 1); at += n, i_++)

static void batch_fwd(void *ctx) {
    Norm *o = ctx;
    const int d = o->d;
    real *own = reals(2 * d * o->documents), *at = own;
    memset(o->mean, 0, (size_t)d * sizeof(real));
    memset(o->rstd, 0, (size_t)d * sizeof(real));
    FOR_DOCUMENTS(row, n, o) {
        batchnorm_moments(at, at + d, o->x->x + row * d, n, d);
        for (int j = 0; j < d; j++) o->mean[j] += at[j] * (real)n / (real)o->rows;
        at += 2 * d;
    }
    for (int i = 0; i < o->documents; i++)
        for (int j = 0; j < d; j++) {
            const real off = own[2 * i * d + j] - o->mean[j];
            o->rstd[j] += own[2 * i * d + d + j] + (real)o->length[i] * off * off;
        }
    for (int j = 0; j < d; j++)
        o->rstd[j] = (real)(1 / sqrt((double)(o->rstd[j] / (real)o->rows + o->eps)));
    FOR_DOCUMENTS(row, n, o)
    batchnorm_apply(o->y->x + row * d, o->x->x + row * d, o->mean, o->rstd, o->g->x, o->b->x, n, d);
    free(own);
}

static void batch_bwd(void *ctx) {
    Norm *o = ctx;
    const int d = o->d;
    memset(o->dg, 0, (size_t)d * sizeof(real));
    memset(o->db, 0, (size_t)d * sizeof(real));
    FOR_DOCUMENTS(at, n, o)
    batchnorm_backward(o->x->dx + at * d, o->dg, o->db, o->y->dx + at * d, o->x->x + at * d,
                       o->mean, o->rstd, o->g->x, n, d);
    FOR_DOCUMENTS(at, n, o)
    batchnorm_finish(o->x->dx + at * d, o->x->x + at * d, o->mean, o->rstd, o->g->x, o->dg, o->db,
                     o->rows, n, d);
    for (int j = 0; j < d; j++) o->g->dx[j] += o->dg[j], o->b->dx[j] += o->db[j];
}

static void batch(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_open("batch", (uint64_t)i);
        Norm o = {.d = size_of(&d, i, 1, 40), .eps = i % 2 ? REAL(1e-5) : REAL(0.5)};
        o.documents = i < 2 ? 1 : draw_int(&d, 1, DOCUMENTS);
        for (int j = 0; j < o.documents; j++)
            o.rows += o.length[j] = i == 0 ? 1 : draw_size(&d, 12);
        GradCase c;
        open_norm(&c, &o, d, "batch", true);
        grad_check(&c, batch_fwd, batch_bwd, &o);
        close_norm(&c, &o);
    }
    grad_report("batch norm");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer),
        cmocka_unit_test(scale),
        cmocka_unit_test(batch),
    };
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
