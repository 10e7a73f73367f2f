#include "attention/rounds.h"

#include "ops/vec.h"
#include "ops/vmath.h"

/* Of a head's round: its finish reads it too. */
typedef struct RoundJob {
    AttendPack pack;
    AttendTiles tiles;
    real *o;                   /* (padded,e) of sorted queries */
    real *lse;                 /* (N) of sorted queries */
    real *ahead, *share, *sum; /* (N) by token: what merging needs */
} RoundJob;

static RoundJob *layout_job(const Rounds *r, Arena *a, bool backward) {
    const int N = r->N, e = r->s->e;
    RoundJob none, *placed = arena_take(a, 1, sizeof *placed), *j = placed ? placed : &none;
    attend_layout(&j->pack, a, N, N, e, e, backward);
    j->pack.ld = r->s->d;
    attend_layout_tiles(&j->tiles, a, N, backward, false);
    j->o = arena_reals(a, attend_padded(N) * (size_t)e);
    j->lse = arena_reals(a, (size_t)N);
    j->ahead = arena_reals(a, (size_t)N);
    j->share = arena_reals(a, (size_t)N);
    j->sum = arena_reals(a, (size_t)N);
    return placed;
}

static const RoundJob *placed_job(Arena scratch) {
    return arena_take(&scratch, 1, sizeof(RoundJob));
}

void rounds_layout(Rounds *o, const AttnShape *s, AttnMemory *memory, int N, int rounds, bool apart,
                   bool backward) {
    const size_t all = (size_t)(rounds * s->h) * (size_t)N;
    o->s = s, o->N = N, o->rounds = rounds;
    o->order[ROUND_QUERIES] = arena_ints(&memory->saved, all);
    o->order[ROUND_KEYS] = apart ? arena_ints(&memory->saved, all) : o->order[ROUND_QUERIES];
    o->lse = arena_reals(&memory->saved, (size_t)s->h * (size_t)N);
    layout_job(o, &memory->job, backward);
}

static void pack(const Rounds *o, RoundJob *j, int job) {
    const int round = job / o->s->h, head = job % o->s->h, at = head * o->s->e;
    real *const *qkv = o->rows->qkv;
    attend_pack_queries(&j->pack, qkv[ATTN_Q] + at, rounds_order(o, ROUND_QUERIES, round, head),
                        o->N);
    attend_pack_keys(&j->pack, o->k + at, qkv[ATTN_V] + at,
                     rounds_order(o, ROUND_KEYS, round, head), o->N);
    j->pack.band = o->band;
    j->pack.o = j->o;
}

/* ---- forward ---- */

static void forward_job(const void *ctx, int job, Arena scratch) {
    const Rounds *o = ctx;
    RoundJob *j = layout_job(o, &scratch, false);
    pack(o, j, job);
    attend_forward(&j->pack, &j->tiles, 0, 0, o->N, j->lse, ATTN_SOFTMAX);
}

/* Leaves nothing in the job's lse. The share of this round's result beside those before it, 1 / (1
 * + e^(before - now)), and the log-sum-exp of them all, before + log(1 + e^(now - before)). */
static void merge_sums(const Rounds *o, const RoundJob *j, const int *order, real *lse) {
    const int N = o->N;
    real *ahead = j->ahead; /* now - before */
    for (int i = 0; i < N; i++) ahead[order[i]] = j->lse[i];
    for (int n = 0; n < N; n++) ahead[n] -= lse[n];
    vmath_softplus1(j->share, j->sum, j->lse, ahead, 1, N);
    for (int n = 0; n < N; n++) lse[n] += j->sum[n] - 1;
}

static void merge(const void *ctx, int job, Arena scratch) {
    const Rounds *o = ctx;
    const RoundJob *j = placed_job(scratch);
    const int round = job / o->s->h, head = job % o->s->h, e = o->s->e,
              *order = rounds_order(o, ROUND_QUERIES, round, head);
    real *lse = o->lse + (size_t)head * (size_t)o->N;
    if (round > 0) merge_sums(o, j, order, lse);
    for (int i = 0; i < o->N; i++) {
        const int n = order[i];
        real *to = o->rows->r + (size_t)n * (size_t)o->s->d + head * e;
        const real *from = j->o + (size_t)i * (size_t)e;
        if (round == 0) {
            vec_copy(to, from, e);
            lse[n] = j->lse[i];
            continue;
        }
        for (int x = 0; x < e; x++) to[x] += j->share[n] * (from[x] - to[x]);
    }
}

void rounds_forward(const Rounds *o) {
    attn_each(o->call, o->rounds * o->s->h, forward_job, merge, o);
}

/* ---- backward ---- */

static void backward_job(const void *ctx, int job, Arena scratch) {
    const Rounds *o = ctx;
    RoundJob *j = layout_job(o, &scratch, true);
    const int round = job / o->s->h, head = job % o->s->h, e = o->s->e, at = head * e,
              *order = rounds_order(o, ROUND_QUERIES, round, head);
    const real *lse = o->lse + (size_t)head * (size_t)o->N;
    pack(o, j, job);
    attend_pack_backward(&j->pack, o->rows->dr + at);
    for (int i = 0; i < o->N; i++) {
        vec_copy(j->o + (size_t)i * (size_t)e, o->rows->r + (size_t)order[i] * (size_t)o->s->d + at,
                 e);
        j->lse[i] = lse[order[i]];
    }
    attend_backward(&j->pack, &j->tiles, 0, NULL, NULL, j->lse, ATTN_SOFTMAX);
}

static void unpack(const void *ctx, int job, Arena scratch) {
    const Rounds *o = ctx;
    const int at = job % o->s->h * o->s->e;
    real *const *dqkv = o->rows->dqkv;
    attend_unpack(&placed_job(scratch)->pack, dqkv[ATTN_Q] + at, o->dk + at, dqkv[ATTN_V] + at);
}

void rounds_backward(const Rounds *o) {
    attn_each(o->call, o->rounds * o->s->h, backward_job, unpack, o);
}

/* ---- trace ---- */

static void trace_side(const Rounds *o, AttnTrace *trace, int side, int size, int *groups) {
    for (int head = 0; head < o->s->h; head++)
        for (int round = 0; round < o->rounds; round++) {
            const int *order = rounds_order(o, side, round, head), row = head * o->rounds + round;
            const uint32_t at = (uint32_t)(row * 2 + side) * (uint32_t)o->N;
            for (int i = 0; i < o->N; i++) {
                const int chunk = i / size;
                attn_trace_choice(trace, (int)(at + (uint32_t)chunk), order[i]);
                if (groups) groups[(size_t)row * (size_t)trace->stride + (size_t)order[i]] = chunk;
            }
        }
}

/* The chunks of keys that the band has beside each chunk of queries. */
static void trace_seen(const Rounds *o, AttnTrace *trace) {
    for (int job = 0; job < o->rounds * o->s->h; job++) {
        const int round = job / o->s->h, head = job % o->s->h,
                  *queries = rounds_order(o, ROUND_QUERIES, round, head),
                  *keys = rounds_order(o, ROUND_KEYS, round, head);
        for (int i = 0; i < o->N; i++)
            for (int j = attend_from(o->band, i); j < attend_to(o->band, i, o->N); j++)
                if (i != j || !o->band.not_self) attn_trace_sees(trace, head, queries[i], keys[j]);
    }
}

void rounds_trace(const Rounds *o, int size) {
    AttnTrace *trace = o->call->trace;
    if (!trace) return;
    if (trace->seen) trace_seen(o, trace);
    trace_side(o, trace, ROUND_QUERIES, size, trace->groups);
    if (o->order[ROUND_KEYS] != o->order[ROUND_QUERIES])
        trace_side(o, trace, ROUND_KEYS, size, trace->groups_key);
}
