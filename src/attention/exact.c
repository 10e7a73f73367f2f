#include "attention/exact.h"

#include "attention/layer.h"

_Static_assert(ATTN_TILE % ATTEND_ROWS == 0, "jobs on tiles of tokens are whole jobs of attend");

void exact_layout(ExactPack *x, const AttnShape *s, AttnMemory *memory, int n, int m, bool backward,
                  bool whole_rows) {
    x->whole_rows = whole_rows;
    attend_layout(&x->p, &memory->scratch, n, m, s->d, s->e, backward);
    x->lse = arena_reals(&memory->saved, (size_t)n * (size_t)s->h);
    attend_layout_tiles(&(AttendTiles){0}, &memory->job, m, backward, whole_rows);
}

/* A head's tile of queries. */
static void forward_job(const void *ctx, int job, Arena scratch) {
    const ExactPack *x = ctx;
    const int n = x->p.n, tile = job % attn_tiles(n), head = job / attn_tiles(n);
    AttendTiles t;
    attend_layout_tiles(&t, &scratch, x->p.m, false, false);
    attend_forward(&x->p, &t, head, tile * ATTN_TILE, attn_tile_rows(n, tile),
                   x->lse + (size_t)head * (size_t)n, ATTN_SOFTMAX);
}

static void backward_job(const void *ctx, int head, Arena scratch) {
    const ExactPack *x = ctx;
    AttendTiles t;
    attend_layout_tiles(&t, &scratch, x->p.m, true, x->whole_rows);
    attend_backward(&x->p, &t, head, NULL, NULL, x->lse + (size_t)head * (size_t)x->p.n,
                    ATTN_SOFTMAX);
}

void exact_attend(const AttnCall *c, const ExactPack *x) {
    attn_each(c, x->p.d / x->p.e * attn_tiles(x->p.n), forward_job, NULL, x);
}

void exact_attend_backward(const AttnCall *c, const ExactPack *x) {
    attn_each(c, x->p.d / x->p.e, backward_job, NULL, x);
}

/* ---- the sublayer ---- */

typedef struct Exact {
    AttnRows rows;
    ExactPack pack;
} Exact;

static AttnMemory layout(Exact *x, const AttnMech *m, const AttnShape *s, AttnMemory memory, int N,
                         bool backward) {
    attn_layout_rows(&x->rows, m, s, &memory, N, backward);
    exact_layout(&x->pack, s, &memory, N, N, backward, false);
    x->pack.p.o = x->rows.r;
    return memory;
}

AttnMemory exact_needs(const AttnMech *m, const AttnShape *s, int N, bool backward) {
    return layout(&(Exact){0}, m, s, (AttnMemory){0}, N, backward);
}

static void open(Exact *x, const AttnMech *m, const AttnShape *s, AttendBand band,
                 const AttnCall *c, bool backward) {
    real *const *qkv = x->rows.qkv;
    layout(x, m, s, c->memory, c->N, backward);
    x->pack.p.band = band;
    x->pack.p.rope.table = c->rope;
    if (!backward || !s->keep) attn_project(c, &x->rows, c->X, c->N);
    attend_pack_queries(&x->pack.p, qkv[ATTN_Q], NULL, c->N);
    attend_pack_keys(&x->pack.p, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
}

void exact_forward(const AttnMech *m, const AttnShape *s, AttendBand band, const AttnCall *c) {
    Exact x = {0};
    open(&x, m, s, band, c, false);
    exact_attend(c, &x.pack);
    attn_output(c, &x.rows, c->Y, NULL, c->N);
}

void exact_backward(const AttnMech *m, const AttnShape *s, AttendBand band, const AttnCall *c) {
    Exact x = {0};
    open(&x, m, s, band, c, true);
    attn_output_backward(c, &x.rows, c->dY, c->N);
    attend_pack_backward(&x.pack.p, x.rows.dr);
    exact_attend_backward(c, &x.pack);
    attend_turn_back(&x.pack.p, false);
    attend_unpack(&x.pack.p, x.rows.dqkv[ATTN_Q], x.rows.dqkv[ATTN_K], x.rows.dqkv[ATTN_V]);
    attn_project_backward(c, &x.rows, c->dX, false, c->X, c->N);
}

/* Pairs of N tokens that are 1 to w places apart, w at least 0. */
static double pairs_within(int N, double w) {
    const double most = N - 1;
    return w < most ? w * (2 * most - w + 1) / 2 : most * (most + 1) / 2;
}

/* Scores, and values. */
double exact_flops(const AttnShape *s, AttendBand band, int N) {
    const double pairs = N + pairs_within(N, -band.first) + pairs_within(N, band.last);
    return 2 * 2.0 * pairs * s->d;
}
