/* Exact softmax attention (Vaswani et al. 2017, arXiv:1706.03762), tiled with an online softmax:
 * the fair baseline.
 *   R = softmax(Q K^T / tau) V, head by head; Y = R W_o^T + b_o. Time O(N^2 d), memory O(N d).
 * Saved for backward: R [N,d] and the log-sum-exp of each row [h,N]; Q, K and V where kept. */
#include "attention/layer.h"
#include "ops/attend.h"

typedef struct Full {
    AttnRows rows;
    AttendPack pack;
    real *lse;
} Full;

static AttnMemory place(Full *f, const AttnShape *s, AttnMemory m, int N, bool backward) {
    attn_place_rows(&f->rows, &attn_full, s, &m, N, backward);
    attend_place(&f->pack, &m.scratch, N, N, s->d, s->e, backward);
    f->pack.o = f->rows.r;
    f->lse = arena_reals(&m.saved, (size_t)N * (size_t)s->h);
    attend_place_tiles(&(AttendTiles){0}, &m.job, N, backward, false);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    return place(&(Full){0}, self, (AttnMemory){0}, N, backward);
}

static void open(Full *f, const AttnShape *s, const AttnCall *c, bool backward) {
    real *const *qkv = f->rows.qkv;
    place(f, s, c->memory, c->N, backward);
    if (!backward || !s->keep) attn_project(c, &f->rows, c->X, c->N);
    attend_pack_queries(&f->pack, qkv[ATTN_Q], NULL, c->N);
    attend_pack_keys(&f->pack, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
}

/* A head's tile of queries. */
static void forward_job(const void *ctx, int job, Arena scratch) {
    const Full *f = ctx;
    const int N = f->pack.n, tile = job % attn_tiles(N), head = job / attn_tiles(N);
    AttendTiles t;
    attend_place_tiles(&t, &scratch, N, false, false);
    attend_forward(&f->pack, &t, head, tile * ATTN_TILE, attn_tile_rows(N, tile),
                   f->lse + (size_t)head * (size_t)N, ATTN_SOFTMAX);
}

static void backward_job(const void *ctx, int head, Arena scratch) {
    const Full *f = ctx;
    AttendTiles t;
    attend_place_tiles(&t, &scratch, f->pack.n, true, false);
    attend_backward(&f->pack, &t, head, NULL, NULL, f->lse + (size_t)head * (size_t)f->pack.n,
                    ATTN_SOFTMAX);
}

static void forward(const void *self, const AttnCall *c) {
    const AttnShape *s = self;
    Full f;
    open(&f, s, c, false);
    attn_each(c, s->h * attn_tiles(c->N), forward_job, NULL, &f);
    attn_output(c, &f.rows, c->Y, c->N);
}

static void backward(const void *self, const AttnCall *c) {
    const AttnShape *s = self;
    Full f;
    open(&f, s, c, true);
    attn_output_backward(c, &f.rows, c->dY, c->N);
    attend_pack_backward(&f.pack, f.rows.dr);
    attn_each(c, s->h, backward_job, NULL, &f);
    attend_unpack(&f.pack, f.rows.dqkv[ATTN_Q], f.rows.dqkv[ATTN_K], f.rows.dqkv[ATTN_V]);
    attn_project_backward(c, &f.rows, c->dX, c->X, c->N);
}

const AttnMech attn_full = {
    .name = "full",
    .title = "exact softmax attention in tiles: O(N^2) time, O(N) memory",
    .reference = "arXiv:1706.03762",
    .projections = ATTN_QKVO,
    .self_size = sizeof(AttnShape),
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = attn_exact_flops,
};
