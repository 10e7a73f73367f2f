/* Tiled attention in tests: a case's tables, lists and band, and both passes over them. */
#ifndef TESTS_OPS_ATTEND_CASE_H
#define TESTS_OPS_ATTEND_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "draws.h"
#include "ops/attend.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

enum { Q, GO, K, V, A, INPUTS }; /* (rows,d), but A (h,n) */
enum { O, DA, DQ, DK, DV, RESULTS };
static const char *const names[RESULTS] = {"o", "da", "dq", "dk", "dv"};

typedef struct Case {
    AttnFn fn;
    int n, m, h, e;
    AttendBand band;
    double scale;     /* of q and k */
    double mean;      /* of k */
    int spare;        /* memory is planned for that many queries and keys more */
    int lists;        /* bit 0: queries are listed; bit 1: keys */
    bool a;           /* rows have weights */
    int qrows, krows; /* of the tables that are listed from */
    int *queries, *keys;
    real *in[INPUTS];
    size_t size[RESULTS];  /* o (n,d), da (h,n), the others as q, k, v */
    real *lse;             /* (h,n) */
    real *got[RESULTS];    /* what attend makes; o is padded */
    double *want[RESULTS]; /* what it should make */
} Case;

/* As anything else may have left it. */
static void *poisoned(void *x, size_t bytes) {
    if (!x) abort();
    return memset(x, 0xff, bytes);
}
/* Exactly n reals, so that the address sanitizer sees the first access beyond. */
static real *reals(size_t n) {
    return poisoned(malloc(n > 0 ? n * sizeof(real) : 1), n * sizeof(real));
}

static bool sees(const Case *c, int i, int j) {
    const int block = c->band.block > 1 ? c->band.block : 1, from = i / block, to = j / block;
    if (c->band.not_self && i == j) return false;
    return from + c->band.first <= to && to <= from + c->band.last;
}

typedef struct Pass {
    AttendPack pack;
    AttendTiles tiles;
    void *memory;
} Pass;

static void layout(Pass *p, const Case *c, Arena *a, bool backward, bool whole) {
    attend_layout(&p->pack, a, c->n + c->spare, c->m + c->spare, c->h * c->e, c->e, backward);
    attend_layout_tiles(&p->tiles, a, c->m + c->spare, backward, whole);
}

/* The pass gets just the memory that it asks for. */
static void open_pass(Pass *p, const Case *c, bool backward, bool whole) {
    Arena a = {0};
    layout(p, c, &a, backward, whole);
    p->memory = poisoned(aligned_alloc(64, a.used), a.used);
    a = (Arena){p->memory, 0, a.used};
    layout(p, c, &a, backward, whole);
    attend_pack_queries(&p->pack, c->in[Q], c->queries, c->n);
    attend_pack_keys(&p->pack, c->in[K], c->in[V], c->keys, c->m);
    p->pack.band = c->band;
}

static void forward(const Case *c, int step, real *o, real *lse) {
    Pass p;
    open_pass(&p, c, false, false);
    p.pack.o = o;
    for (int head = 0; head < c->h; head++)
        for (int r0 = 0; r0 < c->n; r0 += step)
            attend_forward(&p.pack, &p.tiles, head, r0, step < c->n - r0 ? step : c->n - r0,
                           lse + (size_t)(head * c->n), c->fn);
    free(p.memory);
}

static void backward(const Case *c, bool whole) {
    Pass p;
    open_pass(&p, c, true, whole);
    p.pack.o = whole ? NULL : c->got[O];
    attend_pack_backward(&p.pack, c->in[GO]);
    for (int head = 0; head < c->h; head++) {
        const size_t at = (size_t)(head * c->n);
        attend_backward(&p.pack, &p.tiles, head, c->got[DA] + at, c->a ? c->in[A] + at : NULL,
                        c->lse + at, c->fn);
    }
    for (int i = DQ; i < RESULTS; i++) memset(c->got[i], 0, c->size[i] * sizeof(real));
    attend_unpack(&p.pack, c->got[DQ], c->got[DK], c->got[DV]);
    free(p.memory);
}

static int *draw_list(Draws *d, int n, int rows) {
    int *list = malloc(((size_t)n + 1) * sizeof *list);
    if (!list) abort();
    for (int i = 0; i < n; i++) list[i] = draw_int(d, 0, rows - 1);
    return list;
}

static void open_case(Case *c) {
    Draws d = draws_open("attend", (uint64_t)(c->n * 8192 + c->m * 2 + (int)c->fn));
    if (c->h == 0) c->h = 1;
    c->qrows = c->n + (c->lists & 1 ? 5 : 0), c->krows = c->m + (c->lists & 2 ? 5 : 0);
    if (c->lists & 1) c->queries = draw_list(&d, c->n, c->qrows);
    if (c->lists & 2) c->keys = draw_list(&d, c->m, c->krows);
    const size_t width = (size_t)(c->h * c->e), rows = (size_t)(c->h * c->n);
    const size_t q = (size_t)c->qrows * width, k = (size_t)c->krows * width;
    const size_t inputs[INPUTS] = {q, q, k, k, rows},
                 results[] = {rows * (size_t)c->e, rows, q, k, k};
    for (int i = 0; i < INPUTS; i++) {
        c->in[i] = reals(inputs[i]);
        draw_normals(&d, c->in[i], inputs[i], i == K ? c->mean : 0,
                     (i == Q || i == K) && c->scale > 0 ? c->scale : 1);
    }
    for (int i = 0; i < RESULTS; i++) {
        c->size[i] = results[i];
        c->got[i] = reals(i == O ? attend_padded(c->n) * width : results[i]);
        c->want[i] = calloc(results[i] + 1, sizeof(double));
        if (!c->want[i]) abort();
    }
    c->lse = reals(rows);
}

static void close_case(Case *c) {
    for (int i = 0; i < INPUTS; i++) free(c->in[i]);
    for (int i = 0; i < RESULTS; i++) free(c->got[i]), free(c->want[i]);
    free(c->lse), free(c->queries), free(c->keys);
}

static const char *describe(const Case *c) {
    static char text[200];
    snprintf(text, sizeof text,
             "%s, %d queries, %d keys, %d of width %d, band %d..%d of %d%s, lists %d%s",
             c->fn ? "laplace" : "softmax", c->n, c->m, c->h, c->e, c->band.first, c->band.last,
             c->band.block, c->band.not_self ? " without itself" : "", c->lists,
             c->a ? ", weights" : "");
    return text;
}

/* Windows, of one key too and shifted off the keys in part or whole; none at all; one or both ends
 * open; of blocks; without the query's own key. */
#define FAR ATTEND_FAR
static const AttendBand bands[] = {
    {0, 0},
    {-1, 1},
    {-5, 0},
    {0, 7},
    {-16, 15},
    {-40, 17},
    {-48, 300},
    {-300, -20},
    {3, 3},
    {30, 500},
    {2, -2},
    {5000, 6000},
    {-70, -64},
    {-6000, -5000},
    {-FAR, 0},
    {-FAR, -1},
    {-FAR, -200},
    {-FAR, 36},
    {1, FAR},
    {-100, FAR},
    {250, FAR},
    {0, 0, 64},
    {-1, 0, 32},
    {0, 0, 100},
    {-1, 0, 7},
    {1, 2, 48},
    {0, 0, 62},
    {0, 0, 0, true},
    {-1, 0, 32, true},
    {-1, 0, 9, true},
    {-FAR, FAR, 0, true},
    {-20, 300, 0, true},
};
/* A last tile of one query has no other to tell that it is cut: 1, 65, 129. */
static const struct {
    int n, m;
} sizes[] = {{1, 1},     {1, 300},   {65, 300}, {64, 64},  {300, 1},
             {129, 530}, {530, 129}, {33, 16},  {257, 256}};

static Case band_case(int i) {
    Case c = {.fn = i % 2 ? ATTN_LAPLACE : ATTN_SOFTMAX};
    const int size = i / 2 / COUNT(bands);
    c.band = bands[i / 2 % COUNT(bands)], c.n = sizes[size].n, c.m = sizes[size].m;
    c.h = 1 + i / 2 % 2, c.e = 1 + i / 2 % 4, c.a = i / 2 % 4 > 1;
    return c;
}
enum { BAND_CASES = 2 * COUNT(bands) * COUNT(sizes) };

#endif
