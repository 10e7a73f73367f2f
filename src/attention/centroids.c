#include "attention/centroids.h"

#include <string.h>

#include "attention/cluster.h"
#include "attention/hamming.h"
#include "ops/vec.h"

int centroids_params(const void *self, ParamSpec *specs) {
    const Clustered *s = self;
    const Init init = {s->hash_bias ? INIT_NORMAL : INIT_HYPERPLANES, 1};
    if (specs)
        specs[0] =
            (ParamSpec){"planes", 3, {s->shape.h, s->bits, s->shape.e + 1}, init, PARAM_DRAWN};
    return 1;
}

void centroids_groups(const void *self, int *rounds, bool *keys) {
    *rounds = 1;
    *keys = false;
}

void centroids_layout(Centroids *o, const Clustered *s, AttnMemory *memory, int N, bool backward) {
    const size_t h = (size_t)s->shape.h, all = h * (size_t)N;
    o->s = s, o->N = N, o->C = s->clusters < N ? s->clusters : N;
    const size_t means = (size_t)o->C * (size_t)s->shape.d;
    o->cluster = arena_ints(&memory->saved, all);
    o->order = arena_ints(&memory->saved, all);
    o->start = arena_ints(&memory->saved, h * ((size_t)o->C + 1));
    o->mean = arena_reals(&memory->scratch, means);
    if (!backward) return;
    o->sum = arena_reals(&memory->scratch, means);
    o->dmean = arena_reals(&memory->scratch, means);
    if (o->dmean) memset(o->dmean, 0, means * sizeof *o->dmean);
}

void centroids_layout_job(const Clustered *s, Arena *job, int N) {
    hamming_layout(&(Hamming){0}, job, N, s->clusters < N ? s->clusters : N);
}

/* ---- the choice ---- */

static void choose_head(const void *ctx, int head, Arena scratch) {
    const Centroids *o = ctx;
    const Clustered *s = o->s;
    const int e = s->shape.e;
    const real *planes = attn_own(o->call, 0) + (size_t)head * (size_t)(s->bits * (e + 1));
    Hamming hamming;
    hamming_layout(&hamming, &scratch, o->N, o->C);
    hamming_words(&hamming, o->rows->qkv[ATTN_Q] + head * e, s->shape.d, planes, s->bits, e,
                  s->hash_bias, o->N);
    const size_t queries = (size_t)head * (size_t)o->N;
    hamming_clusters(&hamming, o->cluster + queries, o->N, o->C, s->iterations);
    cluster_sort(o->order + queries, o->start + head * (o->C + 1), o->cluster + queries, o->N,
                 o->C);
}

static void tell(const Centroids *o, AttnTrace *trace) {
    for (int head = 0; head < o->s->shape.h; head++)
        for (int n = 0; n < o->N; n++) {
            const int c = o->cluster[(size_t)head * (size_t)o->N + (size_t)n];
            attn_trace_choice(trace, head * o->C + c, n);
            if (trace->groups) trace->groups[(size_t)head * (size_t)trace->stride + (size_t)n] = c;
        }
}

/* ---- means ---- */

static real *row(const Centroids *o, real *x, int n, int head) {
    return x + (size_t)n * (size_t)o->s->shape.d + (size_t)(head * o->s->shape.e);
}

/* A head's columns of cluster c: the sum of its queries' rows of `from`. */
static real *sum_members(const Centroids *o, real *to, real *from, int head, int c) {
    const int *list = centroids_members(o, head, c), e = o->s->shape.e;
    real *sum = row(o, to, c, head);
    memset(sum, 0, (size_t)e * sizeof *sum);
    for (int i = 0; i < centroids_size(o, head, c); i++)
        vec_add(sum, sum, row(o, from, list[i], head), e);
    return sum;
}

static void mean_head(const void *ctx, int head, Arena scratch) {
    const Centroids *o = ctx;
    for (int c = 0; c < o->C; c++) {
        const int size = centroids_size(o, head, c);
        const real share = size ? 1 / (real)size : 0;
        real *mean = sum_members(o, o->mean, o->rows->qkv[ATTN_Q], head, c);
        for (int i = 0; i < o->s->shape.e; i++) mean[i] *= share;
    }
}

static void share_head(const void *ctx, int head, Arena scratch) {
    const Centroids *o = ctx;
    for (int c = 0; c < o->C; c++) sum_members(o, o->sum, o->rows->dr, head, c);
}

static void mean_backward_head(const void *ctx, int head, Arena scratch) {
    const Centroids *o = ctx;
    const int e = o->s->shape.e;
    for (int c = 0; c < o->C; c++) {
        const int *list = centroids_members(o, head, c), size = centroids_size(o, head, c);
        const real share = size ? 1 / (real)size : 0, *dmean = row(o, o->dmean, c, head);
        for (int i = 0; i < size; i++) {
            real *to = row(o, o->rows->dqkv[ATTN_Q], list[i], head);
            vec_add_scaled(to, dmean, share, e);
        }
    }
}

/* ---- a call ---- */

void centroids_open(Centroids *o, AttnRows *rows, AttendPack *pack, const AttnCall *c,
                    bool backward) {
    const AttnShape *shape = &o->s->shape;
    const bool again = !backward || !shape->keep;
    o->call = c, o->rows = rows;
    if (again) attn_project(c, rows, c->X, c->N);
    if (!backward) attn_each(c, shape->h, choose_head, NULL, o);
    if (!backward && c->trace) tell(o, c->trace);
    if (again) attn_turn(c, rows, shape, c->N);
    attn_each(c, shape->h, mean_head, NULL, o);
    attend_pack_queries(pack, o->mean, NULL, o->C);
    attend_pack_keys(pack, rows->qkv[ATTN_K], rows->qkv[ATTN_V], NULL, c->N);
}

void centroids_share(const Centroids *o, AttendPack *pack) {
    attn_output_backward(o->call, o->rows, o->call->dY, o->N);
    attn_each(o->call, o->s->shape.h, share_head, NULL, o);
    attend_pack_backward(pack, o->sum);
}

void centroids_close(const Centroids *o, const AttendPack *pack) {
    const AttnCall *c = o->call;
    attend_unpack(pack, o->dmean, o->rows->dqkv[ATTN_K], o->rows->dqkv[ATTN_V]);
    attn_each(c, o->s->shape.h, mean_backward_head, NULL, o);
    attn_close_rows(c, o->rows, &o->s->shape);
}
