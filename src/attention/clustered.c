/* Clustered attention (Vyas, Katharopoulos, Fleuret 2020, arXiv:2007.04825): the queries of a head
 * are clustered (centroids.h), and each takes its cluster's attention:
 *   Q^c = mean of the cluster's queries,  V^c = softmax(Q^c K^T / tau) V,  R_n = V^c
 * Time O(N C d), and N C word operations an assignment of K-means; memory O(N d).
 * Saved for backward: R [N,d], V^c [C,d], the log-sum-exp of each row [h,C], the clusters; Q, K and
 * V where kept. */
#include <string.h>

#include "attention/centroids.h"
#include "attention/exact.h"
#include "ops/vec.h"

static const ConfigKey keys[] = {CENTROIDS_KEYS, {0}};

typedef struct State {
    AttnRows rows;
    Centroids centroids;
    ExactPack pack; /* of centroids on keys; o is V^c */
    real *dvalues;  /* (C,d) backward: the gradient of V^c */
} State;

static AttnMemory layout(State *o, const Clustered *s, AttnMemory m, int N, bool backward) {
    attn_layout_rows(&o->rows, &attn_clustered, &s->shape, &m, N, backward);
    centroids_layout(&o->centroids, s, &m, N, backward);
    const int C = o->centroids.C;
    exact_layout(&o->pack, &s->shape, &m, C, N, backward, false);
    o->pack.p.o = arena_reals(&m.saved, attend_padded(C) * (size_t)s->shape.d);
    if (backward) o->dvalues = arena_reals(&m.scratch, (size_t)C * (size_t)s->shape.d);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    AttnMemory choose = {0};
    centroids_layout_job(self, &choose.job, N);
    return attn_either(choose, layout(&(State){0}, self, (AttnMemory){0}, N, backward));
}

static void open(State *o, const Clustered *s, const AttnCall *c, bool backward) {
    real *const *qkv = o->rows.qkv;
    layout(o, s, c->memory, c->N, backward);
    o->centroids.call = c, o->centroids.rows = &o->rows;
    if (!backward || !s->shape.keep) attn_project(c, &o->rows, c->X, c->N);
    if (!backward) centroids_choose(&o->centroids);
    if (!backward || !s->shape.keep) attn_turn(c, &o->rows, &s->shape, c->N);
    centroids_mean(&o->centroids);
    attend_pack_queries(&o->pack.p, o->centroids.mean, NULL, o->centroids.C);
    attend_pack_keys(&o->pack.p, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
}

/* A head's columns of R: to each member its cluster's values. */
static void spread_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const Centroids *x = &o->centroids;
    const int d = x->s->shape.d, e = x->s->shape.e,
              *cluster = x->cluster + (size_t)head * (size_t)x->N;
    for (int n = 0; n < x->N; n++)
        vec_copy(o->rows.r + (size_t)n * (size_t)d + head * e,
                 o->pack.p.o + (size_t)cluster[n] * (size_t)d + head * e, e);
}

static void spread_backward_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const Centroids *x = &o->centroids;
    const int d = x->s->shape.d, e = x->s->shape.e,
              *cluster = x->cluster + (size_t)head * (size_t)x->N;
    for (int c = 0; c < x->C; c++)
        memset(o->dvalues + (size_t)c * (size_t)d + head * e, 0, (size_t)e * sizeof *o->dvalues);
    for (int n = 0; n < x->N; n++) {
        real *to = o->dvalues + (size_t)cluster[n] * (size_t)d + head * e;
        vec_add(to, to, o->rows.dr + (size_t)n * (size_t)d + head * e, e);
    }
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    exact_attend(c, &o.pack);
    attn_each(c, o.centroids.s->shape.h, spread_head, NULL, &o);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    attn_output_backward(c, &o.rows, c->dY, c->N);
    attn_each(c, o.centroids.s->shape.h, spread_backward_head, NULL, &o);
    attend_pack_backward(&o.pack.p, o.dvalues);
    exact_attend_backward(c, &o.pack);
    attend_unpack(&o.pack.p, o.centroids.dmean, o.rows.dqkv[ATTN_K], o.rows.dqkv[ATTN_V]);
    centroids_mean_backward(&o.centroids);
    attn_turn_back(c, &o.rows, &o.centroids.s->shape, c->N);
    attn_project_backward(c, &o.rows, c->dX, false, c->X, c->N);
}

/* Hashes; scores, and values, of centroids. */
static double flops(const void *self, int N) {
    const Clustered *s = self;
    const double n = N, C = s->clusters < N ? s->clusters : n;
    return 2 * n * s->shape.d * (s->bits + 2 * C);
}

const AttnMech attn_clustered = {
    .name = "clustered",
    .title = "queries of a cluster share their centroid's attention",
    .time = "O(N C)",
    .memory = "O(N)",
    .reference = "arXiv:2007.04825",
    .projections = ATTN_QKVO,
    .keys = keys,
    .self_size = sizeof(Clustered),
    .params = centroids_params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .groups = centroids_groups,
};
