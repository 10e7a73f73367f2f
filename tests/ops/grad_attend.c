#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "ops/attend.h"

/* Head by head y = a o for o = f(q k^T / tau) v, of n queries on m keys, each a row of its table,
 * within a band. */
typedef struct Attend {
    AttnFn fn;
    int n, m, h, e;
    AttendBand band;
    bool whole_rows;
    int *queries, *keys;           /* NULL: rows from 0 on */
    GradTensor *q, *k, *v, *a, *y; /* tables; a (h,n), or absent; y as q */
    GradTensor *bias, *sums;       /* (h,m) and the output lse (h,n), or both absent */
    real *padded[2];               /* (h,mp) bias and its gradient */
    AttendPack pack;
    AttendTiles tiles;
    real *o, *lse, *da; /* (np,d), (h,n), (n) */
    void *memory;
} Attend;

static void layout(Attend *o, Arena *a, bool backward) {
    attend_layout(&o->pack, a, o->n, o->m, o->h * o->e, o->e, backward);
    attend_layout_tiles(&o->tiles, a, o->m, backward, o->whole_rows);
}

/* The pass gets just the memory that it asks for, as anything else may have left it. */
static void open_pass(Attend *o, bool backward) {
    Arena a = {0};
    layout(o, &a, backward);
    free(o->memory);
    o->memory = aligned_alloc(64, a.used);
    if (!o->memory) abort();
    poison(o->memory, a.used);
    a = (Arena){o->memory, 0, a.used};
    layout(o, &a, backward);
    o->pack.o = backward && o->whole_rows ? NULL : o->o;
    attend_pack_queries(&o->pack, o->q->x, o->queries, o->n);
    attend_pack_keys(&o->pack, o->k->x, o->v->x, o->keys, o->m);
    o->pack.band = o->band;
    for (int i = 0; i < o->h * o->pack.mp && o->bias; i++)
        o->padded[0][i] =
            i % o->pack.mp < o->m ? o->bias->x[i / o->pack.mp * o->m + i % o->pack.mp] : 0;
    o->pack.bias = o->padded[0], o->pack.dbias = o->padded[1];
    o->pack.dlse = o->bias ? o->sums->dx : NULL;
}

/* Rows of y that no query is have 0; a row that several are has their sum. */
static void add_output(const Attend *o, int head) {
    const int d = o->h * o->e;
    for (int i = 0; i < o->n; i++) {
        const real a = o->a ? o->a->x[head * o->n + i] : 1;
        real *y = o->y->x + (o->queries ? o->queries[i] : i) * d;
        for (int j = head * o->e; j < (head + 1) * o->e; j++) y[j] += a * o->o[i * d + j];
    }
}

static void forward(void *ctx) {
    Attend *o = ctx;
    open_pass(o, false);
    memset(o->y->x, 0, o->y->n * sizeof(real));
    for (int head = 0; head < o->h; head++) {
        attend_forward(&o->pack, &o->tiles, head, 0, o->n, o->lse + head * o->n, o->fn);
        add_output(o, head);
    }
    if (o->bias) memcpy(o->sums->x, o->lse, o->sums->n * sizeof(real));
}

static void backward(void *ctx) {
    Attend *o = ctx;
    open_pass(o, true);
    attend_pack_backward(&o->pack, o->y->dx);
    for (int head = 0; head < o->h; head++) {
        const int at = head * o->n;
        attend_backward(&o->pack, &o->tiles, head, o->a ? o->da : NULL, o->a ? o->a->x + at : NULL,
                        o->lse + at, o->fn);
        for (int i = 0; i < o->n && o->a; i++) o->a->dx[at + i] += o->da[i];
    }
    attend_unpack(&o->pack, o->q->dx, o->k->dx, o->v->dx);
    for (int i = 0; i < o->h * o->m && o->bias; i++)
        o->bias->dx[i] += o->padded[1][i / o->m * o->pack.mp + i % o->m];
}

static real *reals(int rows, int cols) {
    real *x = malloc((size_t)(rows * cols) * sizeof *x);
    if (!x) abort();
    poison(x, (size_t)(rows * cols) * sizeof *x);
    return x;
}

/* Some rows come more than once, some not at all. */
static int *draw_list(Draws *d, int n, int rows) {
    int *list = malloc((size_t)n * sizeof *list);
    if (!list) abort();
    for (int i = 0; i < n; i++) list[i] = draw_int(d, 0, rows - 1);
    return list;
}

typedef struct Size {
    int n, m, h, e;
} Size;

/* `mode`: bit 0: whole rows; bit 1: weights; BIASED: a bias, and the sums of rows are an output. */
enum { BIASED = 4 };
static void check(AttnFn fn, int mode, Size s, AttendBand band, int shape) {
    Draws d = draws_open("attend", (uint64_t)shape);
    Attend o = {fn, s.n, s.m, s.h, s.e, band, .whole_rows = mode & 1};
    const int qrows = o.n + draw_int(&d, 0, 5), krows = o.m + draw_int(&d, 0, 5);
    if (draw_int(&d, 0, 1)) o.queries = draw_list(&d, o.n, qrows);
    if (draw_int(&d, 0, 1)) o.keys = draw_list(&d, o.m, krows);
    GradCase c;
    grad_open(&c, d,
              "attend %s, %d queries of %d%s, %d keys of %d%s, h %d, e %d, band %d..%d of %d%s%s%s",
              o.fn ? "laplace" : "softmax", o.n, qrows, o.queries ? " listed" : "", o.m, krows,
              o.keys ? " listed" : "", o.h, o.e, o.band.first, o.band.last, o.band.block,
              o.band.not_self ? " but itself" : "", o.whole_rows ? ", whole rows" : "",
              mode & 2 ? ", weighted" : "");
    const size_t width = (size_t)(o.h * o.e), q = (size_t)qrows * width, k = (size_t)krows * width;
    o.q = grad_input(&c, "q", q, 1);
    o.k = grad_input(&c, "k", k, 1);
    o.v = grad_input(&c, "v", k, 1);
    o.a = mode & 2 ? grad_input(&c, "a", (size_t)(o.n * o.h), 1) : NULL;
    o.y = grad_output(&c, "y", q);
    if (mode == BIASED) {
        o.bias = grad_input(&c, "bias", (size_t)(o.h * o.m), 1);
        o.sums = grad_output(&c, "lse", (size_t)(o.h * o.n));
        for (int i = 0; i < 2; i++) o.padded[i] = reals(o.h, (int)attend_padded(o.m));
    }
    o.o = reals((int)attend_padded(o.n), o.h * o.e);
    o.lse = reals(o.h, o.n), o.da = reals(o.n, 1);
    grad_check(&c, forward, backward, &o);
    grad_close(&c);
    free(o.memory), free(o.queries), free(o.keys), free(o.o), free(o.lse), free(o.da);
    free(o.padded[0]), free(o.padded[1]);
}

/* Around the vector's width (16) and the tile's sides (32, 256). */
static const Size sizes[] = {
    {1, 1, 1, 3},   {1, 40, 2, 5},  {15, 16, 1, 1}, {16, 15, 3, 2}, {17, 1, 1, 16},
    {2, 64, 2, 1},  {64, 2, 1, 3},  {65, 30, 1, 1}, {7, 65, 1, 3},  {33, 17, 1, 5},
    {3, 257, 1, 1}, {66, 80, 1, 1}, {5, 3, 3, 4},
};
#define FAR ATTEND_FAR
static const AttendBand bands[] = {
    {-FAR, FAR},
    {0, 0},
    {-1, 2},
    {-FAR, 0},
    {-20, -3},
    {1, FAR},
    {-30, 17},
    {4, 260},
    {-2, 300},
    {-FAR, 19},
    {50, 51},
    {-1, 0, 32},
    {0, 0, 7},
    {0, 0, 64},
    {-1, 0, 5, true},
    {-1, 0, 32, true},
    {-FAR, FAR, 0, true},
};
enum { SIZES = sizeof sizes / sizeof *sizes, BANDS = sizeof bands / sizeof *bands };

/* Each size in each mode, with bands in turn; and each band where there are several tiles, checked
 * along directions. */
static void all_sizes(AttnFn fn) {
    const Size tall = {129, 66, 1, 16}, wide = {66, 290, 1, 8};
    for (int i = 0; i < SIZES * 4; i++)
        for (int j = i; j < i + BANDS; j += 4)
            check(fn, i % 4, sizes[i / 4], bands[j % BANDS], i * BANDS + j);
    for (int i = 0; i < BANDS; i++) {
        check(fn, i % 4, tall, bands[i], i);
        check(fn, i % 4, wide, bands[i], i);
        check(fn, (i + 2) % 4 ^ 1, wide, bands[i], i);
    }
}

static void softmax(void **state) {
    (void)state;
    all_sizes(ATTN_SOFTMAX);
    for (int i = 0; i < SIZES; i++)
        check(ATTN_SOFTMAX, BIASED, sizes[i], bands[i % 2 * i % BANDS], i);
    grad_report("attend softmax");
}

static void laplace(void **state) {
    (void)state;
    all_sizes(ATTN_LAPLACE);
    grad_report("attend laplace");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax),
        cmocka_unit_test(laplace),
    };
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
