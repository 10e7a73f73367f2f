/* CAST: Clustering self-Attention using Surrogate Tokens (van Engelenhoven, Strisciuglio, Talavera
 * 2024, arXiv:2402.04239).
 *
 * Surrogate tokens S [C,h,e] score every token; each cluster takes its best tokens (cluster.c);
 * attention is exact inside a cluster; a cluster's summary R_inter stands for it towards the tokens
 * outside:
 *   A_q = Q S^T, A_k = K S^T                                     [N,h,C]  (step 2)
 *   A_g = sig(phi) sum_h f(A_q/tau) + (1-sig(phi)) sum_h f(A_k/tau)  [N,C]  (step 3)
 *   R_intra = f(Q K^T / tau) V over the tokens of a cluster      [C,k,d]  (step 5)
 *   R_inter = sum_i f_i(A_k softplus1(-phi_i) / tau) V_i         [C,d]    (step 6)
 *   A_sum = f(A_q softplus1(phi) / tau)                          [N,h,C]  (step 7)
 *   R_n = sum_{c holds n} A_sum R_intra + sum_{other c} A_sum R_inter     (step 8)
 *   Y = R W_o^T + b_o                                            [N,d]    (step 9)
 * Time O(C k^2 d + N C d), memory O(N (d + h C)).
 *
 * Saved for backward (cast_state.h): Q, K and V where kept, the rows' order, R, A_q, members' A_k
 * and A_sum, what follows from phi, R_inter, the log-sum-exp of each row of a cluster's scores, and
 * the clusters. All probabilities are computed again. R_intra is not needed: the gradient of A_sum
 * for a member is <dR, R_intra> = sum_j P_ij (dR_i . V_j), which attend_backward has at hand. */
#include <string.h>

#include "attention/cast_choose.h"
#include "attention/cast_mix.h"
#include "attention/cluster.h"
#include "core/gemm.h"
#include "ops/attend.h"
#include "ops/linear.h"
#include "ops/vec.h"

#define AT(field) offsetof(Cast, field)
static const ConfigKey cast_keys[] = {
    {"clusters", KEY_INT, AT(clusters), "16", 1, 4096, NULL, "number of clusters C",
     .also = "n_clusters"},
    {"cluster_size", KEY_SIZE, AT(cluster_size), "\"fixed\"", 1, 1 << 20, "fixed length",
     "tokens a cluster holds: a number, ceil(max_length / C) or ceil(N / C) of each sequence"},
    {"mechanism", KEY_CHOICE, AT(rule), "\"topk\"", 0, 0, CLUSTER_RULE_CHOICES,
     "how tokens are assigned"},
    {"attention_fn", KEY_CHOICE, AT(fn), "\"softmax\"", 0, 0, ATTN_FN_CHOICES, "the function f"},
    {"summaries", KEY_BOOL, AT(summaries), "true", 0, 0, NULL, "clusters exchange summaries"},
    {"intra", KEY_BOOL, AT(intra), "true", 0, 0, NULL, "attention inside clusters"},
    {"surrogates", KEY_CHOICE, AT(surrogates), "\"learned\"", 0, 0, "learned frozen",
     "surrogate tokens"},
    {0},
};

static bool check(const void *self, const char *where, Err *err) {
    const Cast *s = self;
    if (s->summaries || s->intra) return true;
    return err_set(
        err, EX_CONFIG,
        "%s: keys 'model.attention.summaries' and 'model.attention.intra' are both false: "
        "nothing is left of the attention; set one to true",
        where);
}

static int params(const void *self, ParamSpec *specs) {
    const Cast *s = self;
    const int d = s->shape.d, h = s->shape.h, e = s->shape.e;
    const Init directions = {INIT_NORMAL, 1 / sqrt(e)};
    if (!specs) return CAST_PARAMS;
    specs[SURROGATE] = (ParamSpec){"surrogate",
                                   3,
                                   {s->clusters, h, e},
                                   directions,
                                   cast_learns(s) ? PARAM_TRAINED | PARAM_APART : PARAM_DRAWN};
    specs[PHI_WEIGHT] = (ParamSpec){
        "phi.weight", 2, {1, d}, {INIT_XAVIER, 0}, PARAM_TRAINED | PARAM_DECAYED | PARAM_APART};
    specs[PHI_BIAS] = (ParamSpec){"phi.bias", 1, {1}, {INIT_CONST, 0}, PARAM_TRAINED | PARAM_APART};
    return CAST_PARAMS;
}

static void clusters_shape(const void *self, int *C, int *k) {
    const Cast *s = self;
    *C = s->clusters;
    *k = cast_cluster_size(s, s->shape.max_tokens);
}

/* ---- memory ---- */

static void layout_saved(CastState *v, const Cast *s, AttnMemory *m, int N, bool backward) {
    const size_t C = (size_t)s->clusters, n = cast_token_reals(N), h = (size_t)s->shape.h;
    const size_t slots = C * (size_t)cast_places(s, N);
    attn_layout_rows(&v->rows, &attn_cast, &s->shape, m, N, backward);
    v->aq = arena_reals(&m->saved, cast_score_reals(s, N));
    v->sig = arena_reals(&m->saved, n);
    v->query_scale = arena_reals(&m->saved, n);
    v->key_scale = arena_reals(&m->saved, n);
    v->rinter = arena_reals(&m->saved, C * (size_t)s->shape.d);
    v->ak = arena_reals(&m->saved, slots * h);
    v->member_mix = arena_reals(&m->saved, slots * h);
    v->lse = arena_reals(&m->saved, slots * h);
    v->list = arena_ints(&m->saved, slots);
    v->size = arena_ints(&m->saved, C);
    v->order = arena_ints(&m->saved, (size_t)N + 1);
}

static void layout_scratch(CastState *v, const Cast *s, Arena *a, int N, bool backward) {
    const size_t C = (size_t)s->clusters, d = (size_t)s->shape.d, h = (size_t)s->shape.h;
    const size_t rows = (size_t)N * d;
    v->x_rows = arena_reals(a, rows);
    v->asum = arena_reals(a, cast_score_reals(s, N));
    v->outside = backward ? arena_reals(a, cast_score_reals(s, N)) : v->asum;
    v->table = arena_reals(a, h * C * d);
    if (!backward) return;
    v->dy_rows = arena_reals(a, rows);
    v->dasum = arena_reals(a, cast_score_reals(s, N));
    v->dphi = arena_reals(a, cast_token_reals(N));
    v->dtable = arena_reals(a, h * C * d);
    v->dbias = arena_reals(a, h * C);
    v->drinter = arena_reals(a, C * d);
}

/* What a job on a cluster works with. */
typedef struct ClusterJob {
    AttendPack pack;
    AttendTiles tiles;
    real *u, *w;     /* (k) of one head */
    real *dots, *dw; /* backward: (k); (h,k), which its finish reads */
} ClusterJob;

static ClusterJob *layout_cluster(const Cast *s, Arena *a, int N, bool backward) {
    const int most = cast_places(s, N);
    const size_t n = attend_padded(most);
    ClusterJob none, *j = arena_take(a, 1, sizeof *j), *o = j ? j : &none;
    attend_layout(&o->pack, a, most, most, s->shape.d, s->shape.e, backward);
    attend_layout_tiles(&o->tiles, a, most, backward, true);
    o->pack.o = backward ? NULL : arena_reals(a, n * (size_t)s->shape.d);
    o->u = arena_reals(a, n);
    o->w = arena_reals(a, n);
    o->dots = arena_reals(a, n);
    o->dw = arena_reals(a, n * (size_t)s->shape.h);
    return j;
}

/* What its job left for its finish. */
static const ClusterJob *placed_cluster(Arena scratch) {
    return arena_take(&scratch, 1, sizeof(ClusterJob));
}

static AttnMemory needs(const void *self, int N, bool backward) {
    const Cast *s = self;
    CastState v = {0};
    AttnMemory choose = {0};
    layout_saved(&v, s, &choose, N, backward);
    AttnMemory pass = choose;
    cast_layout_choose(s, &choose, N);
    layout_scratch(&v, s, &pass.scratch, N, backward);
    layout_cluster(s, &pass.job, N, backward);
    cast_layout_mix(s, &pass.job);
    return attn_either(choose, pass);
}

/* ---- rows in an order of their own, where tokens are skipped ---- */

static void gather_tile(const void *ctx, int tile, Arena scratch) {
    const CastState *v = ctx;
    const AttnCall *c = v->call;
    const size_t d = (size_t)c->d;
    for (int i = tile * ATTN_TILE, n = i + attn_tile_rows(v->dy ? v->N : v->clustered, tile); i < n;
         i++) {
        const size_t from = (size_t)v->order[i] * d, to = (size_t)i * d;
        vec_copy(v->x_rows + to, c->X + from, c->d);
        if (c->dY) vec_copy(v->dy_rows + to, c->dY + from, c->d);
    }
}

/* X (forward: of clustered rows), and in the backward pass dY, in the rows' order; and where their
 * gradients go. */
static void order_rows(CastState *v) {
    const AttnCall *c = v->call;
    v->x = c->X, v->dy = c->dY, v->dx = c->dX;
    if (!v->skips) return;
    attn_each(c, attn_tiles(v->dy ? v->N : v->clustered), gather_tile, NULL, v);
    v->x = v->x_rows, v->dy = v->dx = v->dy_rows;
}

/* Gradients of rows to their tokens. */
static void scatter_tile(const void *ctx, int tile, Arena scratch) {
    const CastState *v = ctx;
    const size_t d = (size_t)v->call->d;
    for (int i = tile * ATTN_TILE, n = i + attn_tile_rows(v->N, tile); i < n; i++)
        vec_copy(v->call->dX + (size_t)v->order[i] * d, v->dx + (size_t)i * d, v->call->d);
}

/* dR of clustered rows; that of unclustered ones has no use but through tables. */
static void output_backward(const CastState *v) {
    const int d = v->call->d;
    attn_output_backward(v->call, &v->rows, v->dy, v->clustered);
    for (int r = v->clustered, n; (n = v->N - r) > 0; r += n) {
        if (n > ATTN_TILE) n = ATTN_TILE;
        linear_backward_bias(v->call->proj[ATTN_O].db, v->dy + (size_t)r * (size_t)d, d, n, d);
    }
}

/* ---- a cluster's summary, step 6 ---- */

/* u and w of one cluster and head, with zeros for the padding of the pack. */
static void summary_weights(const CastState *v, ClusterJob *j, int c, int head) {
    const int m = j->pack.m, *list = cast_list(v, c);
    const real *ak = cast_members(v, v->ak, c, head);
    for (int i = 0; i < m; i++) j->u[i] = ak[i] * v->key_scale[list[i]];
    attnfn_forward((AttnFn)v->s->fn, j->w, j->u, 1, m);
    for (int i = m; i < j->pack.mp; i++) j->w[i] = 0;
}

/* R_inter = w V. */
static void summary_forward(const CastState *v, ClusterJob *j, int c) {
    const AttendPack *p = &j->pack;
    const int d = v->s->shape.d, e = v->s->shape.e;
    for (int head = 0; head < v->s->shape.h; head++) {
        summary_weights(v, j, c, head);
        gemm_nn(v->rinter + c * d + head * e, d, j->w, p->mp, p->v + head * e, d, 1, e, p->mp,
                false);
    }
}

/* Through w to V, A_k and phi; through A_k at once to K and S, since only members' A_k count here.
 * phi gets its share from j->dw when the job is finished. */
static void summary_backward(const CastState *v, ClusterJob *j, int c, int head) {
    const AttendPack *p = &j->pack;
    const AttnCall *call = v->call;
    const int d = v->s->shape.d, e = v->s->shape.e, mp = p->mp, at = c * d + head * e;
    const real *dr = v->drinter + at;
    const int *list = cast_list(v, c);
    real *dw = j->dw + (size_t)head * (size_t)mp, *du = j->u;
    summary_weights(v, j, c, head);
    gemm_nn(p->dv + head * e, d, j->w, 1, dr, d, mp, e, 1, true);
    gemm_nn(j->dots, mp, dr, d, p->vt + (size_t)(head * e) * (size_t)p->ldt, p->ldt, 1, mp, e,
            false);
    memset(dw, 0, (size_t)mp * sizeof *dw);
    attnfn_backward((AttnFn)v->s->fn, dw, j->dots, j->w, j->u, 1, p->m);
    for (int i = 0; i < mp; i++) du[i] = i < p->m ? dw[i] * v->key_scale[list[i]] : 0;
    gemm_nn(p->dk + head * e, d, du, 1, attn_own(call, SURROGATE) + at, d, mp, e, 1, true);
    if (cast_learns(v->s))
        gemm_nn(attn_own_grad(call, SURROGATE) + at, d, du, mp, p->k + head * e, d, 1, e, mp, true);
}

static void summary_finish(const CastState *v, const ClusterJob *j, int c) {
    const int *list = cast_list(v, c);
    for (int head = 0; head < v->s->shape.h; head++) {
        const real *ak = cast_members(v, v->ak, c, head);
        const real *dw = j->dw + (size_t)head * (size_t)j->pack.mp;
        for (int i = 0; i < j->pack.m; i++) {
            const int n = list[i];
            v->dphi[n] -= dw[i] * ak[i] * (1 - v->sig[n]) * cast_inv_tau(v->s);
        }
    }
}

/* ---- a cluster: attention inside it, step 5, and its summary ---- */

static void pack_cluster(const CastState *v, AttendPack *p, int c) {
    real *const *qkv = v->rows.qkv;
    p->rope = (Rope){v->call->rope, v->skips ? v->order : NULL};
    attend_pack_queries(p, qkv[ATTN_Q], cast_list(v, c), v->size[c]);
    attend_pack_keys(p, qkv[ATTN_K], qkv[ATTN_V], cast_list(v, c), v->size[c]);
}

static void cluster_forward(const void *ctx, int c, Arena scratch) {
    const CastState *v = ctx;
    ClusterJob *j = layout_cluster(v->s, &scratch, v->N, false);
    if (v->size[c] == 0) return;
    pack_cluster(v, &j->pack, c);
    for (int head = 0; head < v->s->shape.h && v->s->intra; head++)
        attend_forward(&j->pack, &j->tiles, head, 0, j->pack.n, cast_members(v, v->lse, c, head),
                       (AttnFn)v->s->fn);
    if (v->s->summaries) summary_forward(v, j, c);
}

/* R of the members += A_sum R_intra. */
static void cluster_forward_finish(const void *ctx, int c, Arena scratch) {
    const CastState *v = ctx;
    const ClusterJob *j = placed_cluster(scratch);
    const int d = v->s->shape.d, e = v->s->shape.e, *list = cast_list(v, c);
    for (int head = 0; head < v->s->shape.h && v->s->intra; head++) {
        const real *mix = cast_members(v, v->member_mix, c, head);
        for (int r = 0; r < v->size[c]; r++) {
            real *out = v->rows.r + (size_t)list[r] * (size_t)d + head * e;
            const real *o = j->pack.o + (size_t)r * (size_t)d + head * e;
            vec_add_scaled(out, o, mix[r], e);
        }
    }
}

/* Members' dA_sum is through R_intra: what summaries_backward_block left there is not theirs. */
static void members_backward(const CastState *v, ClusterJob *j, int c, int head) {
    const int *list = cast_list(v, c);
    if (v->s->intra)
        attend_backward(&j->pack, &j->tiles, head, j->dots, cast_members(v, v->member_mix, c, head),
                        cast_members(v, v->lse, c, head), (AttnFn)v->s->fn);
    for (int i = 0; i < j->pack.n; i++)
        v->dasum[cast_score_at(v->s, list[i], head * v->s->clusters + c)] =
            v->s->intra ? j->dots[i] : 0;
}

static void cluster_backward(const void *ctx, int c, Arena scratch) {
    const CastState *v = ctx;
    ClusterJob *j = layout_cluster(v->s, &scratch, v->N, true);
    if (v->size[c] == 0) return;
    pack_cluster(v, &j->pack, c);
    attend_pack_backward(&j->pack, v->rows.dr);
    if (!v->s->intra) attend_no_gradients(&j->pack);
    for (int head = 0; head < v->s->shape.h; head++) members_backward(v, j, c, head);
    attend_turn_back(&j->pack, v->s->summaries); /* summaries are of keys as they were */
    for (int head = 0; head < v->s->shape.h && v->s->summaries; head++)
        summary_backward(v, j, c, head);
}

static void cluster_backward_finish(const void *ctx, int c, Arena scratch) {
    const CastState *v = ctx;
    const ClusterJob *j = placed_cluster(scratch);
    real *const *dqkv = v->rows.dqkv;
    if (v->size[c] == 0) return;
    if (v->s->summaries) summary_finish(v, j, c);
    attend_unpack(&j->pack, dqkv[ATTN_Q], dqkv[ATTN_K], dqkv[ATTN_V]);
}

static void open(CastState *v, const Cast *s, const AttnCall *c, bool backward) {
    AttnMemory m = c->memory;
    *v = (CastState){.s = s, .call = c, .N = c->N, .k = cast_places(s, c->N)};
    v->skips = cast_skips(s, c->N);
    layout_saved(v, s, &m, c->N, backward);
    v->clustered = backward && v->skips ? v->order[c->N] : c->N;
    if (!backward && !v->skips) attn_project(c, &v->rows, c->X, c->N);
    if (!backward) cast_choose(v, m);
    layout_scratch(v, s, &m.scratch, c->N, backward);
    order_rows(v);
    if (backward ? !s->shape.keep : v->skips) attn_project(c, &v->rows, v->x, v->clustered);
    cast_mix(v);
}

static void forward(const void *self, const AttnCall *c) {
    const Cast *s = self;
    CastState v;
    open(&v, s, c, false);
    memset(v.rows.r, 0, (size_t)v.clustered * (size_t)c->d * sizeof(real));
    memset(v.rinter, 0, (size_t)s->clusters * (size_t)c->d * sizeof(real));
    attn_each(c, s->clusters, cluster_forward, cluster_forward_finish, &v);
    cast_summaries(&v);
    attn_output(c, &v.rows, c->Y, v.skips ? v.order : NULL, v.clustered);
    if (c->meter) c->meter->avoided += cast_avoided(&v);
}

static void backward(const void *self, const AttnCall *c) {
    const Cast *s = self;
    CastState v;
    open(&v, s, c, true);
    output_backward(&v);
    memset(v.dphi, 0, cast_token_reals(c->N) * sizeof(real));
    cast_summaries_backward(&v);
    attn_each(c, s->clusters, cluster_backward, cluster_backward_finish, &v);
    cast_mix_backward(&v);
    attn_project_backward(c, &v.rows, v.dx, true, v.x, v.clustered);
    if (v.skips) attn_each(c, attn_tiles(c->N), scatter_tile, NULL, &v);
}

/* A_q, A_k, phi; scores and values inside clusters; summaries; step 8's sum over clusters. */
static double flops(const void *self, int N) {
    const Cast *s = self;
    double n = N, C = s->clusters, d = s->shape.d, k = cast_places(s, N);
    double members = s->rule == CLUSTER_TOPK ? C * k : fmin(n, C * k);
    double macs = 2 * n * C * d + n * d;
    if (s->intra) macs += 2 * members * (members / C) * d;
    if (s->summaries) macs += members * d + n * C * d;
    return 2 * macs;
}

const AttnMech attn_cast = {
    .name = "cast",
    .title = "attention inside clusters around surrogate tokens, summaries between them",
    .time = "O(C k^2 + N C) for C clusters of k tokens",
    .memory = "O(N)",
    .swap = "out; in with drawn surrogates",
    .reference = "arXiv:2402.04239",
    .subset = true,
    .keys = cast_keys,
    .projections = ATTN_QKVO,
    .self_size = sizeof(Cast),
    .check = check,
    .params = params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .clusters = clusters_shape,
};
