/* Linformer (Wang, Li, Khabsa, Fang, Ma 2020, arXiv:2006.04768): exact attention on `rank` mixtures
 * of keys and of values,
 *   R = softmax(Q (E K)^T / tau) (E V),
 * E [rank,max_tokens] trained, one for keys and values and all heads of a layer, as Long Range
 * Arena has it (the paper's code has one a head). A shorter sequence uses its first N columns. Time
 * O(N rank d), memory O(N d). Saved for backward: R [N,d] and the log-sum-exp of each row [h,N]; Q,
 * K and V where kept. */
#include <string.h>

#include "attention/exact.h"
#include "attention/layer.h"
#include "core/gemm.h"

typedef struct Linformer {
    AttnShape shape;
    int rank;
} Linformer;

static const ConfigKey keys[] = {
    {"rank", KEY_INT, offsetof(Linformer, rank), "256", 1, 1 << 16, NULL,
     "mixtures of keys that a query attends to"},
    {0},
};

static int params(const void *self, ParamSpec *specs) {
    const Linformer *s = self;
    if (specs)
        specs[0] = (ParamSpec){"projection",
                               2,
                               {s->rank, s->shape.max_tokens},
                               {INIT_NORMAL, 0.02},
                               PARAM_TRAINED | PARAM_DECAYED};
    return 1;
}

typedef struct State {
    const Linformer *s;
    const AttnCall *call;
    AttnRows rows;
    ExactPack pack;
    real *mixed[2], *dmixed[2]; /* (rank,d) E K and E V, and their gradients */
} State;

static AttnMemory layout(State *o, const Linformer *s, AttnMemory m, int N, bool backward) {
    const size_t mixed = (size_t)s->rank * (size_t)s->shape.d;
    o->s = s;
    attn_layout_rows(&o->rows, &attn_linformer, &s->shape, &m, N, backward);
    exact_layout(&o->pack, &s->shape, &m, N, s->rank, backward, false);
    o->pack.p.o = o->rows.r;
    for (int i = 0; i < 2; i++) {
        o->mixed[i] = arena_reals(&m.scratch, mixed);
        if (!backward) continue;
        o->dmixed[i] = arena_reals(&m.scratch, mixed);
        if (o->dmixed[i]) memset(o->dmixed[i], 0, mixed * sizeof(real));
    }
    return m;
}

/* A block of E for a job: in E itself its rows would be max_tokens apart, as a rule a power of two,
 * and crowd the cache (ops/attend.h). */
enum { ROWS = 64 };
static real *layout_block(Arena *job) {
    return arena_reals(job, ROWS * (size_t)attend_stride(ATTN_TILE));
}

static AttnMemory needs(const void *self, int N, bool backward) {
    AttnMemory block = {0};
    layout_block(&block.job);
    return attn_either(block, layout(&(State){0}, self, (AttnMemory){0}, N, backward));
}

static int row_jobs(const Linformer *s) { return (s->rank + ROWS - 1) / ROWS; }
static int job_rows(const Linformer *s, int r0) {
    return s->rank - r0 < ROWS ? s->rank - r0 : ROWS;
}

/* Rows r0.. of E, the columns of a tile of tokens. */
static void take_block(const State *o, real *block, int r0, int tile) {
    const size_t ld = (size_t)o->s->shape.max_tokens;
    const real *E = attn_own(o->call, 0) + (size_t)r0 * ld + tile * ATTN_TILE;
    for (int r = 0; r < job_rows(o->s, r0); r++)
        memcpy(block + r * attend_stride(ATTN_TILE), E + (size_t)r * ld,
               (size_t)attn_tile_rows(o->call->N, tile) * sizeof *block);
}

/* Some rows of E K and of E V. */
static void mix_rows(const void *ctx, int job, Arena scratch) {
    const State *o = ctx;
    const AttnCall *c = o->call;
    const int r0 = job * ROWS, d = c->d;
    real *block = layout_block(&scratch);
    for (int tile = 0; tile < attn_tiles(c->N); tile++) {
        const size_t first = (size_t)(tile * ATTN_TILE) * (size_t)d;
        take_block(o, block, r0, tile);
        for (int i = 0; i < 2; i++)
            gemm_nn(o->mixed[i] + (size_t)r0 * (size_t)d, d, block, attend_stride(ATTN_TILE),
                    o->rows.qkv[ATTN_K + i] + first, d, job_rows(o->s, r0), d,
                    attn_tile_rows(c->N, tile), tile > 0);
    }
}

static void open(State *o, const Linformer *s, const AttnCall *c, bool backward) {
    layout(o, s, c->memory, c->N, backward);
    o->call = c;
    attn_open_rows(c, &o->rows, &s->shape, backward);
    attn_each(c, row_jobs(s), mix_rows, NULL, o);
    attend_pack_queries(&o->pack.p, o->rows.qkv[ATTN_Q], NULL, c->N);
    attend_pack_keys(&o->pack.p, o->mixed[0], o->mixed[1], NULL, s->rank);
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    exact_attend(c, &o.pack);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

/* dE += d(E K) K^T + d(E V) V^T, some rows of it. */
static void projection_rows(const void *ctx, int job, Arena scratch) {
    const State *o = ctx;
    const AttnCall *c = o->call;
    const int r0 = job * ROWS, d = c->d, ld = o->s->shape.max_tokens;
    for (int i = 0; i < 2; i++)
        gemm_nt(attn_own_grad(c, 0) + (size_t)r0 * (size_t)ld, ld,
                o->dmixed[i] + (size_t)r0 * (size_t)d, d, o->rows.qkv[ATTN_K + i], d,
                job_rows(o->s, r0), c->N, d, true);
}

/* dK = E^T d(E K), dV = E^T d(E V), of a tile of tokens. */
static void keys_tile(const void *ctx, int tile, Arena scratch) {
    const State *o = ctx;
    const AttnCall *c = o->call;
    const int d = c->d;
    const size_t first = (size_t)(tile * ATTN_TILE) * (size_t)d;
    real *block = layout_block(&scratch);
    for (int r0 = 0; r0 < o->s->rank; r0 += ROWS) {
        take_block(o, block, r0, tile);
        for (int i = 0; i < 2; i++)
            gemm_tn(o->rows.dqkv[ATTN_K + i] + first, d, block, attend_stride(ATTN_TILE),
                    o->dmixed[i] + (size_t)r0 * (size_t)d, d, attn_tile_rows(c->N, tile), d,
                    job_rows(o->s, r0), r0 > 0);
    }
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    attn_output_backward(c, &o.rows, c->dY, c->N);
    attend_pack_backward(&o.pack.p, o.rows.dr);
    exact_attend_backward(c, &o.pack);
    attend_unpack(&o.pack.p, o.rows.dqkv[ATTN_Q], o.dmixed[0], o.dmixed[1]);
    attn_each(c, row_jobs(o.s), projection_rows, NULL, &o);
    attn_each(c, attn_tiles(c->N), keys_tile, NULL, &o);
    attn_close_rows(c, &o.rows, &o.s->shape);
}

/* E K and E V; scores, and values. */
static double flops(const void *self, int N) {
    const Linformer *s = self;
    return 2 * 4.0 * N * s->rank * s->shape.d;
}

const AttnMech attn_linformer = {
    .name = "linformer",
    .title = "exact attention on learned mixtures of keys and values",
    .time = "O(N rank)",
    .memory = "O(N)",
    .swap = "no: its mixtures are trained",
    .reference = "arXiv:2006.04768",
    .projections = ATTN_QKVO,
    .keys = keys,
    .self_size = sizeof(Linformer),
    .params = params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
