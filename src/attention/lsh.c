/* Attention within buckets of a locality-sensitive hash, as in Reformer (Kitaev, Kaiser, Levskaya
 * 2020, arXiv:2001.04451). Queries are keys too, K_j = Q_j / |Q_j|; there is no projection of keys.
 * Head by head, in each round:
 *   bucket = argmax of [x R; -x R], R [e,buckets/2] drawn once;
 *   tokens sorted by (bucket, position) are cut into chunks, each of which attends to itself and to
 *   the one before, across buckets too; the first to itself alone, so that no key counts twice
 *   (others wrap); and a token not to itself, unless it is alone in the sequence.
 * Rounds are merged by their log-sum-exp (rounds.h); keys met in several count as often. Time
 * O(rounds N (chunk d + e buckets)), memory O(N d).
 * Saved for backward: R [N,d], the orders [rounds,h,N], the log-sum-exp of each row; Q and V where
 * kept. */
#include <math.h>
#include <string.h>

#include "attention/cluster.h"
#include "attention/rounds.h"
#include "core/gemm.h"
#include "ops/vec.h"

typedef struct Lsh {
    AttnShape shape;
    int rounds, buckets, chunk;
} Lsh;

#define AT(field) offsetof(Lsh, field)
static const ConfigKey keys[] = {
    {"rounds", KEY_INT, AT(rounds), "1", 1, 16, NULL, "rounds of hashing"},
    {"buckets", KEY_INT, AT(buckets), "64", 2, 1 << 16, KEY_EVEN, "buckets of a round"},
    {"chunk", KEY_INT, AT(chunk), "32", 2, 1 << 20, NULL,
     "tokens in a chunk, which attends to itself and the one before"},
    {0},
};

static int params(const void *self, ParamSpec *specs) {
    const Lsh *s = self;
    if (specs)
        specs[0] = (ParamSpec){"rotations",
                               4,
                               {s->rounds, s->shape.h, s->shape.e, s->buckets / 2},
                               {INIT_NORMAL, 1},
                               PARAM_DRAWN};
    return 1;
}

static void groups(const void *self, int *rounds, bool *apart) {
    *rounds = ((const Lsh *)self)->rounds;
    *apart = false;
}

typedef struct State {
    const Lsh *s;
    const AttnCall *call;
    AttnRows rows;
    Rounds rounds;
    real *k, *dk; /* (N,d) */
} State;

/* Of a job that hashes. */
typedef struct HashJob {
    real *scores; /* (ATTN_TILE,buckets/2) */
    int *bucket;  /* (N) */
    int *start;   /* (buckets + 1) */
} HashJob;

static void layout_hash(HashJob *j, const Lsh *s, Arena *a, int N) {
    j->scores = arena_reals(a, ATTN_TILE * (size_t)(s->buckets / 2));
    j->bucket = arena_ints(a, (size_t)N);
    j->start = arena_ints(a, (size_t)s->buckets + 1);
}

static AttnMemory layout(State *o, const Lsh *s, AttnMemory m, int N, bool backward) {
    const size_t all = (size_t)N * (size_t)s->shape.d;
    o->s = s;
    attn_layout_rows(&o->rows, &attn_lsh, &s->shape, &m, N, backward);
    rounds_layout(&o->rounds, &s->shape, &m, N, s->rounds, false, backward);
    o->k = arena_reals(&m.scratch, all);
    if (backward) o->dk = arena_reals(&m.scratch, all);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    AttnMemory hash = {0};
    layout_hash(&(HashJob){0}, self, &hash.job, N);
    return attn_either(hash, layout(&(State){0}, self, (AttnMemory){0}, N, backward));
}

/* ---- the choice ---- */

/* The largest of x and -x, the lower index on ties. */
static int bucket_of(const real *x, int half) {
    int best = 0;
    for (int i = 1; i < half; i++)
        if (x[i] > x[best]) best = i;
    const real top = x[best];
    int least = 0;
    for (int i = 1; i < half; i++)
        if (x[i] < x[least]) least = i;
    return -x[least] > top ? half + least : best;
}

static void hash_tokens(const State *o, const HashJob *j, int round, int head) {
    const int d = o->s->shape.d, e = o->s->shape.e, half = o->s->buckets / 2, N = o->call->N;
    const real *R =
        attn_own(o->call, 0) + (size_t)(round * o->s->shape.h + head) * (size_t)e * (size_t)half;
    for (int tile = 0; tile < attn_tiles(N); tile++) {
        const int n0 = tile * ATTN_TILE, n = attn_tile_rows(N, tile);
        gemm_nn(j->scores, half, o->rows.qkv[ATTN_Q] + (size_t)n0 * (size_t)d + head * e, d, R,
                half, n, half, e, false);
        for (int i = 0; i < n; i++) j->bucket[n0 + i] = bucket_of(j->scores + i * half, half);
    }
}

/* The tokens of a bucket stay in order. */
static void sort_job(const void *ctx, int job, Arena scratch) {
    const State *o = ctx;
    const int round = job / o->s->shape.h, head = job % o->s->shape.h, N = o->call->N;
    int *order = rounds_order(&o->rounds, ROUND_QUERIES, round, head);
    HashJob j;
    layout_hash(&j, o->s, &scratch, N);
    hash_tokens(o, &j, round, head);
    cluster_sort(order, j.start, j.bucket, N, o->s->buckets);
}

/* ---- keys ---- */

/* 1 / |q|; 0 of a zero query, whose key is 0 and has no gradient; no number where the square is not
 * finite, which is noticed. */
static real inverse_norm(const real *q, int e) {
    const real square = vec_dot(q, q, e);
    if (isinf(square)) return (real)NAN;
    return square > 0 ? 1 / REAL_SQRT(square) : 0;
}

static void keys_tile(const void *ctx, int tile, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, e = o->s->shape.e, n0 = tile * ATTN_TILE;
    for (int n = n0; n < n0 + attn_tile_rows(o->call->N, tile); n++)
        for (int at = 0; at < d; at += e) {
            const real *q = o->rows.qkv[ATTN_Q] + (size_t)n * (size_t)d + at;
            real *k = o->k + (size_t)n * (size_t)d + at;
            const real by = inverse_norm(q, e);
            for (int i = 0; i < e; i++) k[i] = by * q[i];
        }
}

/* dq += (dk - k <k, dk>) / |q|. */
static void keys_backward_tile(const void *ctx, int tile, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, e = o->s->shape.e, n0 = tile * ATTN_TILE;
    for (int n = n0; n < n0 + attn_tile_rows(o->call->N, tile); n++)
        for (int at = 0; at < d; at += e) {
            const size_t row = (size_t)n * (size_t)d + (size_t)at;
            const real *k = o->k + row, *dk = o->dk + row;
            real *dq = o->rows.dqkv[ATTN_Q] + row;
            const real by = inverse_norm(o->rows.qkv[ATTN_Q] + row, e), dot = vec_dot(k, dk, e);
            for (int i = 0; i < e; i++) dq[i] += by * (dk[i] - dot * k[i]);
        }
}

/* ---- the sublayer ---- */

static void open(State *o, const Lsh *s, const AttnCall *c, bool backward) {
    layout(o, s, c->memory, c->N, backward);
    o->call = o->rounds.call = c;
    o->rounds.rows = &o->rows;
    o->rounds.k = o->k, o->rounds.dk = o->dk;
    o->rounds.band = (AttendBand){.first = -1, .block = s->chunk, .not_self = c->N > 1};
    if (!backward || !s->shape.keep) attn_project(c, &o->rows, c->X, c->N);
    if (!backward) attn_each(c, s->rounds * s->shape.h, sort_job, NULL, o);
    if (!backward || !s->shape.keep) attn_turn(c, &o->rows, &s->shape, c->N);
    attn_each(c, attn_tiles(c->N), keys_tile, NULL, o);
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    rounds_trace(&o.rounds, o.s->chunk);
    rounds_forward(&o.rounds);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    memset(o.dk, 0, (size_t)c->N * (size_t)c->d * sizeof *o.dk);
    attn_output_backward(c, &o.rows, c->dY, c->N);
    rounds_backward(&o.rounds);
    attn_each(c, attn_tiles(c->N), keys_backward_tile, NULL, &o);
    attn_close_rows(c, &o.rows, &o.s->shape);
}

/* Hashes; scores, and values, of two chunks. */
static double flops(const void *self, int N) {
    const Lsh *s = self;
    const double n = N, seen = 2.0 * s->chunk < n ? 2.0 * s->chunk : n;
    return 2 * s->rounds * n * s->shape.d * (s->buckets / 2 + 2 * seen);
}

const AttnMech attn_lsh = {
    .name = "lsh",
    .title = "Reformer: queries, which are keys too, attend within buckets of a hash",
    .time = "O(rounds N (chunk + buckets))",
    .memory = "O(rounds N)",
    .swap = "no: it has no projection of keys",
    .reference = "arXiv:2001.04451",
    .projections = ATTN_HAS(ATTN_Q) | ATTN_HAS(ATTN_V) | ATTN_HAS(ATTN_O),
    .keys_are_queries = true,
    .subset = true,
    .keys = keys,
    .self_size = sizeof(Lsh),
    .params = params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .groups = groups,
};
