/* Clustered attention (Vyas, Katharopoulos, Fleuret 2020, arXiv:2007.04825): the queries of a head
 * are clustered (centroids.h), and each takes its cluster's attention:
 *   Q^c = mean of the cluster's queries,  V^c = softmax(Q^c K^T / tau) V,  R_n = V^c
 * Time O(N C d), and N C word operations an assignment of K-means; memory O(N d).
 * Saved for backward: R [N,d], V^c [C,d], the log-sum-exp of each row [h,C], the clusters; Q, K and
 * V where kept. */
#include "attention/centroids.h"
#include "attention/exact.h"
#include "ops/vec.h"

static const ConfigKey keys[] = {CENTROIDS_KEYS, {0}};

typedef struct State {
    AttnRows rows;
    Centroids centroids;
    ExactPack pack; /* of centroids on keys; o is V^c */
} State;

static AttnMemory layout(State *o, const Clustered *s, AttnMemory m, int N, bool backward) {
    attn_layout_rows(&o->rows, &attn_clustered, &s->shape, &m, N, backward);
    centroids_layout(&o->centroids, s, &m, N, backward);
    const int C = o->centroids.C;
    exact_layout(&o->pack, &s->shape, &m, C, N, backward, false);
    o->pack.p.o = arena_reals(&m.saved, attend_padded(C) * (size_t)s->shape.d);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    AttnMemory choose = {0};
    centroids_layout_job(self, &choose.job, N);
    return attn_either(choose, layout(&(State){0}, self, (AttnMemory){0}, N, backward));
}

static void open(State *o, const Clustered *s, const AttnCall *c, bool backward) {
    layout(o, s, c->memory, c->N, backward);
    centroids_open(&o->centroids, &o->rows, &o->pack.p, c, backward);
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
    centroids_share(&o.centroids, &o.pack.p);
    exact_attend_backward(c, &o.pack);
    centroids_close(&o.centroids, &o.pack.p);
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
