#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "ops/attnfn.h"
#include "ops/dropout.h"
#include "ops/embed.h"
#include "ops/linear.h"
#include "ops/pool.h"
#include "ops/vmath.h"
#include "ops/xent.h"

/* An op and what it works on. Each op uses what it needs. */
typedef struct Op {
    GradTensor *x, *w, *b, *base, *y;
    int rows, in, out, ldx, ldy;
    real *wide, *dwide, *wide_base; /* strided copies of y, dy and base */
    real *wt, *saved;
    int *ids;
    int choice, label;
    double p;
    RngKey key;
} Op;

static Draws draws_of(const char *name, int shape) { return draws_open(name, (uint64_t)shape); }

/* A size that is 1 in the first shapes: one row, one column, both. */
static int size_of(Draws *d, int shape, int bit, int most) {
    return shape < 4 && (shape >> bit & 1) == 0 ? 1 : draw_size(d, most);
}

static void *block(size_t n, size_t size) {
    void *p = malloc(n * size + 1);
    if (!p) abort();
    poison(p, n * size + 1);
    return p;
}

static real *block_reals(int rows, int cols) {
    return block((size_t)rows * (size_t)cols, sizeof(real));
}

static void release(GradCase *c, Op *o) {
    grad_close(c);
    free(o->wide), free(o->dwide), free(o->wide_base), free(o->wt), free(o->saved), free(o->ids);
}

/* ---- linear: rows further apart than they are wide ---- */

static void linear_fwd(void *ctx) {
    Op *o = ctx;
    transpose(o->wt, o->out, o->w->x, o->in, o->out, o->in);
    for (int r = 0; o->base && r < o->rows; r++)
        memcpy(o->wide_base + r * o->ldy, o->base->x + r * o->out, (size_t)o->out * sizeof(real));
    linear_forward(o->wide, o->ldy, o->x->x, o->ldx, o->wt, o->b ? o->b->x : NULL,
                   o->base ? o->wide_base : NULL, o->rows, o->in, o->out);
    for (int r = 0; r < o->rows; r++) {
        memcpy(o->y->x + r * o->out, o->wide + r * o->ldy, (size_t)o->out * sizeof(real));
        for (int j = o->out; j < o->ldy; j++) assert_true(isnan(o->wide[r * o->ldy + j]));
    }
}

static void linear_bwd(void *ctx) {
    Op *o = ctx;
    for (int r = 0; r < o->rows; r++)
        memcpy(o->dwide + r * o->ldy, o->y->dx + r * o->out, (size_t)o->out * sizeof(real));
    linear_backward_input(o->x->dx, o->ldx, o->dwide, o->ldy, o->w->x, true, o->rows, o->in,
                          o->out);
    for (int i = 0; o->base && i < o->rows * o->out; i++) o->base->dx[i] += o->y->dx[i];
    linear_backward_weight(o->w->dx, o->b ? o->b->dx : NULL, o->dwide, o->ldy, o->x->x, o->ldx,
                           o->rows, o->in, o->out);
}

static void linear(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_of("linear", i);
        Op o = {.rows = size_of(&d, i, 0, 70), .in = size_of(&d, i, 1, 20)};
        o.out = draw_size(&d, 20);
        o.ldx = o.in + draw_int(&d, 0, 2), o.ldy = o.out + draw_int(&d, 0, 2);
        GradCase c;
        grad_open(&c, d, "linear (%d/%d, %d) to %d/%d", o.rows, o.ldx, o.in, o.ldy, o.out);
        o.x = grad_input(&c, "x", (size_t)(o.rows * o.ldx), 1);
        o.w = grad_input(&c, "w", (size_t)(o.out * o.in), 1);
        o.b = i % 3 ? grad_input(&c, "b", (size_t)o.out, 1) : NULL;
        o.base = i % 3 == 2 ? grad_input(&c, "base", (size_t)(o.rows * o.out), 1) : NULL;
        o.y = grad_output(&c, "y", (size_t)(o.rows * o.out));
        o.wide = block_reals(o.rows, o.ldy), o.dwide = block_reals(o.rows, o.ldy);
        o.wide_base = block_reals(o.rows, o.ldy), o.wt = block_reals(o.in, o.out);
        grad_check(&c, linear_fwd, linear_bwd, &o);
        release(&c, &o);
    }
    grad_report("linear");
}

/* ---- gelu ---- */

static void gelu_fwd(void *ctx) {
    Op *o = ctx;
    vmath_gelu(o->y->x, o->x->x, o->rows);
}

/* vmath_gelu_grad works in place and writes gelu(x) again. */
static void gelu_bwd(void *ctx) {
    Op *o = ctx;
    memcpy(o->saved, o->y->dx, (size_t)o->rows * sizeof(real));
    vmath_gelu_grad(o->saved, o->wide, o->x->x, o->rows);
    for (int i = 0; i < o->rows; i++) {
        o->x->dx[i] += o->saved[i];
        assert_true(fabs((double)(o->wide[i] - o->y->x[i])) < 1e-14);
    }
}

static void gelu(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_of("gelu", i);
        Op o = {.rows = size_of(&d, i, 0, 500)};
        GradCase c;
        grad_open(&c, d, "gelu of %d", o.rows);
        o.x = grad_input(&c, "x", (size_t)o.rows, i % 2 ? 1 : 2);
        o.y = grad_output(&c, "y", (size_t)o.rows);
        o.wide = block_reals(o.rows, 1), o.saved = block_reals(o.rows, 1);
        grad_check(&c, gelu_fwd, gelu_bwd, &o);
        release(&c, &o);
    }
    grad_report("gelu");
}

/* ---- softmax and Laplace over rows ---- */

static void attnfn_fwd(void *ctx) {
    Op *o = ctx;
    attnfn_forward((AttnFn)o->choice, o->y->x, o->x->x, o->rows, o->in);
}

static void attnfn_bwd(void *ctx) {
    Op *o = ctx;
    attnfn_backward((AttnFn)o->choice, o->x->dx, o->y->dx, o->y->x, o->x->x, o->rows, o->in);
}

static void attnfn(void **state) {
    (void)state;
    for (int fn = 0; fn < 2; fn++)
        for (int i = 0; i < GRAD_SHAPES; i++) {
            Draws d = draws_of("attnfn", i + fn * GRAD_SHAPES);
            Op o = {.choice = fn, .rows = size_of(&d, i, 0, 70), .in = size_of(&d, i, 1, 40)};
            GradCase c;
            grad_open(&c, d, "%s of (%d,%d)", fn ? "laplace" : "softmax", o.rows, o.in);
            o.x = grad_input(&c, "x", (size_t)(o.rows * o.in), 2);
            o.y = grad_output(&c, "y", (size_t)(o.rows * o.in));
            grad_check(&c, attnfn_fwd, attnfn_bwd, &o);
            release(&c, &o);
        }
    grad_report("softmax, laplace");
}

/* ---- embedding ---- */

static void embed_fwd(void *ctx) {
    Op *o = ctx;
    embed_forward(o->y->x, o->ids, o->w->x, o->base->x, o->b ? o->b->x : o->saved, o->rows, o->out);
}

static void embed_bwd(void *ctx) {
    Op *o = ctx;
    embed_backward(o->w->dx, o->base->dx, o->b ? o->b->dx : NULL, o->y->dx, o->ids, o->rows,
                   o->out);
}

static void embed(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_of("embed", i);
        Op o = {.rows = size_of(&d, i, 0, 60), .out = size_of(&d, i, 1, 20)};
        const int vocab = draw_size(&d, 12);
        GradCase c;
        grad_open(&c, d, "embed %d tokens of %d ids, width %d", o.rows, vocab, o.out);
        o.ids = block((size_t)o.rows, sizeof *o.ids);
        for (int r = 0; r < o.rows; r++) o.ids[r] = draw_int(&d, TOKEN_MASKED, vocab - 1);
        o.w = grad_input(&c, "tok", (size_t)(vocab * o.out), 1);
        o.base = grad_input(&c, "mask", (size_t)o.out, 1);
        o.b = i % 3 ? grad_input(&c, "pos", (size_t)(o.rows * o.out), 1) : NULL;
        o.saved = block_reals(o.rows, o.out);
        embed_sinusoidal(o.saved, o.rows, o.out);
        o.y = grad_output(&c, "y", (size_t)(o.rows * o.out));
        grad_check(&c, embed_fwd, embed_bwd, &o);
        release(&c, &o);
    }
    grad_report("embed");
}

/* ---- pooling, backward in ranges of rows ---- */

static void pool_fwd(void *ctx) {
    Op *o = ctx;
    pool_forward(o->y->x, o->x->x, (Pooling)o->choice, o->rows, o->out);
}

static void pool_bwd(void *ctx) {
    Op *o = ctx;
    for (int r0 = 0, n; r0 < o->rows; r0 += n) {
        n = o->in < o->rows - r0 ? o->in : o->rows - r0;
        pool_backward(o->x->dx + r0 * o->out, o->y->dx, (Pooling)o->choice, r0, n, o->rows, o->out);
    }
}

static void pool(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++)
        for (int i = 0; i < GRAD_SHAPES; i++) {
            Draws d = draws_of("pool", i + how * GRAD_SHAPES);
            Op o = {.choice = how, .rows = size_of(&d, i, 0, 300), .out = size_of(&d, i, 1, 9)};
            o.in = draw_size(&d, 130);
            GradCase c;
            grad_open(&c, d, "%s pooling of (%d,%d)", how ? "cls" : "mean", o.rows, o.out);
            o.x = grad_input(&c, "x", (size_t)(o.rows * o.out), 1);
            o.y = grad_output(&c, "z", (size_t)o.out);
            grad_check(&c, pool_fwd, pool_bwd, &o);
            release(&c, &o);
        }
    grad_report("pool");
}

/* ---- pairs ---- */

static void pair_fwd(void *ctx) {
    Op *o = ctx;
    pair_forward(o->y->x, o->x->x, o->w->x, o->out);
}

static void pair_bwd(void *ctx) {
    Op *o = ctx;
    pair_backward(o->x->dx, o->w->dx, o->y->dx, o->x->x, o->w->x, o->out);
}

static void pair(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_of("pair", i);
        Op o = {.out = size_of(&d, i, 0, 100)};
        GradCase c;
        grad_open(&c, d, "pair of width %d", o.out);
        o.x = grad_input(&c, "a", (size_t)o.out, 1);
        o.w = grad_input(&c, "b", (size_t)o.out, 1);
        o.y = grad_output(&c, "y", (size_t)(4 * o.out));
        grad_check(&c, pair_fwd, pair_bwd, &o);
        release(&c, &o);
    }
    grad_report("pair");
}

/* ---- dropout: forward at once, backward in two ranges ---- */

static void dropout_fwd(void *ctx) {
    Op *o = ctx;
    memcpy(o->y->x, o->x->x, (size_t)o->rows * sizeof(real));
    dropout_apply(o->y->x, o->key, o->p, 0, o->rows);
}

static void dropout_bwd(void *ctx) {
    Op *o = ctx;
    memcpy(o->saved, o->y->dx, (size_t)o->rows * sizeof(real));
    dropout_apply(o->saved, o->key, o->p, 0, o->in);
    dropout_apply(o->saved + o->in, o->key, o->p, o->in, o->rows - o->in);
    for (int i = 0; i < o->rows; i++) o->x->dx[i] += o->saved[i];
}

static void dropout(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_of("dropout", i);
        Op o = {.rows = size_of(&d, i, 0, 200), .p = i == 5 ? 0 : 0.9 * draw_uniform(&d)};
        o.in = draw_int(&d, 0, o.rows), o.key = rng_key((uint64_t)i);
        GradCase c;
        grad_open(&c, d, "dropout %.2f of %d in %d and the rest", o.p, o.rows, o.in);
        o.x = grad_input(&c, "x", (size_t)o.rows, 1);
        o.y = grad_output(&c, "y", (size_t)o.rows);
        o.saved = block_reals(o.rows, 1);
        grad_check(&c, dropout_fwd, dropout_bwd, &o);
        release(&c, &o);
    }
    grad_report("dropout");
}

/* ---- cross-entropy ---- */

static void xent_fwd(void *ctx) {
    Op *o = ctx;
    o->y->x[0] = (real)xent(NULL, o->x->x, o->label, 1, o->p, o->out);
}

static void xent_bwd(void *ctx) {
    Op *o = ctx;
    double loss = xent(o->x->dx, o->x->x, o->label, (double)o->y->dx[0], o->p, o->out);
    assert_true((real)loss == o->y->x[0]);
}

static void cross_entropy(void **state) {
    (void)state;
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_of("xent", i);
        Op o = {.out = size_of(&d, i, 0, 20)};
        o.label = draw_int(&d, 0, o.out - 1);
        o.p = i % 3 ? 0.15 * (i % 3) : 0;
        GradCase c;
        grad_open(&c, d, "cross-entropy of %d classes, label %d smoothed by %g", o.out, o.label,
                  o.p);
        o.x = grad_input(&c, "logits", (size_t)o.out, i % 2 ? 1 : 5);
        o.y = grad_output(&c, "loss", 1);
        grad_check(&c, xent_fwd, xent_bwd, &o);
        release(&c, &o);
    }
    grad_report("cross-entropy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),  cmocka_unit_test(gelu),          cmocka_unit_test(attnfn),
        cmocka_unit_test(embed),   cmocka_unit_test(pool),          cmocka_unit_test(pair),
        cmocka_unit_test(dropout), cmocka_unit_test(cross_entropy),
    };
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
