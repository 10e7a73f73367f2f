#include "attention/exact.h"

#include "attention/layer.h"

_Static_assert(ATTN_TILE % ATTEND_ROWS == 0, "jobs on tiles of tokens are whole jobs of attend");

typedef struct Exact {
    AttnRows rows;
    AttendPack pack;
    real *lse;
} Exact;

static AttnMemory layout(Exact *x, const AttnMech *m, const AttnShape *s, AttnMemory memory, int N,
                         bool backward) {
    attn_layout_rows(&x->rows, m, s, &memory, N, backward);
    attend_layout(&x->pack, &memory.scratch, N, N, s->d, s->e, backward);
    x->pack.o = x->rows.r;
    x->lse = arena_reals(&memory.saved, (size_t)N * (size_t)s->h);
    attend_layout_tiles(&(AttendTiles){0}, &memory.job, N, backward, false);
    return memory;
}

AttnMemory exact_needs(const AttnMech *m, const AttnShape *s, int N, bool backward) {
    return layout(&(Exact){0}, m, s, (AttnMemory){0}, N, backward);
}

static void open(Exact *x, const AttnMech *m, const AttnShape *s, AttendBand band,
                 const AttnCall *c, bool backward) {
    real *const *qkv = x->rows.qkv;
    layout(x, m, s, c->memory, c->N, backward);
    x->pack.band = band;
    x->pack.rope.table = c->rope;
    if (!backward || !s->keep) attn_project(c, &x->rows, c->X, c->N);
    attend_pack_queries(&x->pack, qkv[ATTN_Q], NULL, c->N);
    attend_pack_keys(&x->pack, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
}

/* A head's tile of queries. */
static void forward_job(const void *ctx, int job, Arena scratch) {
    const Exact *x = ctx;
    const int N = x->pack.n, tile = job % attn_tiles(N), head = job / attn_tiles(N);
    AttendTiles t;
    attend_layout_tiles(&t, &scratch, N, false, false);
    attend_forward(&x->pack, &t, head, tile * ATTN_TILE, attn_tile_rows(N, tile),
                   x->lse + (size_t)head * (size_t)N, ATTN_SOFTMAX);
}

static void backward_job(const void *ctx, int head, Arena scratch) {
    const Exact *x = ctx;
    AttendTiles t;
    attend_layout_tiles(&t, &scratch, x->pack.n, true, false);
    attend_backward(&x->pack, &t, head, NULL, NULL, x->lse + (size_t)head * (size_t)x->pack.n,
                    ATTN_SOFTMAX);
}

void exact_forward(const AttnMech *m, const AttnShape *s, AttendBand band, const AttnCall *c) {
    Exact x;
    open(&x, m, s, band, c, false);
    attn_each(c, s->h * attn_tiles(c->N), forward_job, NULL, &x);
    attn_output(c, &x.rows, c->Y, NULL, c->N);
}

void exact_backward(const AttnMech *m, const AttnShape *s, AttendBand band, const AttnCall *c) {
    Exact x;
    open(&x, m, s, band, c, true);
    attn_output_backward(c, &x.rows, c->dY, c->N);
    attend_pack_backward(&x.pack, x.rows.dr);
    attn_each(c, s->h, backward_job, NULL, &x);
    attend_turn_back(&x.pack, false);
    attend_unpack(&x.pack, x.rows.dqkv[ATTN_Q], x.rows.dqkv[ATTN_K], x.rows.dqkv[ATTN_V]);
    attn_project_backward(c, &x.rows, c->dX, false, c->X, c->N);
}

/* Scores, and values. */
double exact_flops(const AttnShape *s, AttendBand band, int N) {
    double pairs = 0;
    for (int i = 0; i < N; i++) {
        const int from = i + band.first, to = i + band.last;
        const int seen = (to < N ? to + 1 : N) - (from > 0 ? from : 0);
        pairs += seen > 0 ? seen : 0;
    }
    return 2 * 2.0 * pairs * s->d;
}
