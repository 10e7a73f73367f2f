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
 * Time O(C k^2 d + N C d), memory O(N (d + h C)).
 *
 * Saved for backward: A_q, members' A_k and A_sum, what follows from phi, R_inter, the log-sum-exp
 * of each row of a cluster's scores, and the clusters. All probabilities are computed again.
 * R_intra is not needed: the gradient of A_sum for a member is <dR, R_intra> = sum_j P_ij (dR_i .
 * V_j), which attend_backward has at hand.
 *
 * A token that no cluster holds (with Top-K and random scores (1 - 1/C)^C of them at full length, a
 * third) gives nobody its value, its key only a score that has no gradient, and gets nothing but
 * summaries. Where that is cheaper (cast_folds) its query, key, value and row of R are not
 * computed: its scores and its output go through tables of cast_fold, S W_q and S W_k [h,C,d] in
 * steps 2 and 3, R_inter W_o in step 8.
 */
#include <string.h>

#include "attention/cast.h"
#include "core/gemm.h"
#include "ops/vec.h"

enum { SIZE_FIXED = -1, SIZE_LENGTH = -2 };
enum { SURROGATES_LEARNED, SURROGATES_FROZEN };

#define AT(field) offsetof(Cast, field)
static const ConfigKey cast_keys[] = {
    {"clusters", KEY_INT, AT(clusters), "16", 1, 4096, NULL, "number of clusters C"},
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

int cast_cluster_size(const Cast *s, int N) {
    if (s->cluster_size > 0) return s->cluster_size;
    int tokens = s->cluster_size == SIZE_FIXED ? s->shape.max_length : N;
    return (tokens + s->clusters - 1) / s->clusters;
}

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
    const unsigned trained = s->surrogates == SURROGATES_LEARNED ? PARAM_TRAINED : 0;
    const Init directions = {INIT_NORMAL, 1 / sqrt(e)};
    specs[SURROGATE] = (ParamSpec){"surrogate", 3, {s->clusters, h, e}, directions, trained};
    specs[PHI_WEIGHT] =
        (ParamSpec){"phi.weight", 2, {1, d}, {INIT_XAVIER, 0}, PARAM_TRAINED | PARAM_DECAYED};
    specs[PHI_BIAS] = (ParamSpec){"phi.bias", 1, {1}, {INIT_CONST, 0}, PARAM_TRAINED};
    return 3;
}

static void clusters_shape(const void *self, int *C, int *k) {
    const Cast *s = self;
    *C = s->clusters;
    *k = cast_cluster_size(s, s->shape.max_tokens);
}

/* ---- memory ---- */

static size_t score_reals(const Cast *s, int N) {
    return (size_t)cast_blocks(N) * cast_block_reals(s);
}

void cast_place_saved(Saved *v, const Cast *s, Arena *a, int N) {
    const size_t C = (size_t)s->clusters, n = cast_token_reals(N), h = (size_t)s->shape.h;
    const size_t slots = C * (size_t)cast_cluster_size(s, N);
    v->aq = arena_reals(a, score_reals(s, N));
    v->sig = arena_reals(a, n);
    v->up = arena_reals(a, n);
    v->down = arena_reals(a, n);
    v->rinter = arena_reals(a, C * (size_t)s->shape.d);
    v->ak = arena_reals(a, slots * h);
    v->weight = arena_reals(a, slots * h);
    v->lse = arena_reals(a, slots * h);
    v->list = arena_ints(a, slots);
    v->size = arena_ints(a, C);
}

typedef struct Scratch {
    real *asum;   /* scores: the mixing weights A_sum */
    real *table;  /* (h,C,d) R_inter W_o; backward also S W_q */
    real *turned; /* (d,BLOCK) a block of tokens, transposed */
    real *u, *w;  /* (k) one cluster's vectors */
    AttendPack pack;
    /* backward */
    real *dasum;     /* scores */
    real *dtable;    /* (h,C,d) */
    real *dbias;     /* (h,C) of S b_q */
    real *dphi;      /* (blocks) */
    real *drinter;   /* (C,d) */
    real *dw, *dots; /* (k) */
} Scratch;

static void place_scratch(Scratch *t, const Cast *s, Arena *a, int N, bool backward) {
    const size_t C = (size_t)s->clusters, d = (size_t)s->shape.d, h = (size_t)s->shape.h;
    const int k = cast_cluster_size(s, N), most = k < N ? k : N;
    t->asum = arena_reals(a, score_reals(s, N));
    t->table = arena_reals(a, h * C * d);
    t->turned = arena_reals(a, d * BLOCK);
    t->u = arena_reals(a, attend_padded(most));
    t->w = arena_reals(a, attend_padded(most));
    attend_place(&t->pack, a, most, s->shape.d, s->shape.e, backward, true);
    if (!backward) return;
    t->dasum = arena_reals(a, score_reals(s, N));
    t->dtable = arena_reals(a, h * C * d);
    t->dbias = arena_reals(a, h * C);
    t->dphi = arena_reals(a, cast_token_reals(N));
    t->drinter = arena_reals(a, C * d);
    t->dw = arena_reals(a, attend_padded(most));
    t->dots = arena_reals(a, attend_padded(most));
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static AttnNeeds needs(const void *self, int N) {
    Arena saved = {0}, choose = {0}, forward = {0}, backward = {0};
    cast_place_saved(&(Saved){0}, self, &saved, N);
    cast_place_choose(&(ChooseScratch){0}, self, &choose, N);
    place_scratch(&(Scratch){0}, self, &forward, N, false);
    place_scratch(&(Scratch){0}, self, &backward, N, true);
    return (AttnNeeds){saved.used, larger(choose.used, forward.used), backward.used};
}

/* ---- phi ---- */

static void gate_backward(const Scratch *t, const Cast *s, const AttnCall *call) {
    const int d = s->shape.d;
    real sum = 0;
    EACH_BLOCK (b, call->held, call->N) {
        const real *dphi = t->dphi + b.at * BLOCK;
        const size_t at = (size_t)b.n0 * (size_t)d;
        gemm_nn(call->dX + at, d, dphi, 1, call->w[PHI_WEIGHT], d, b.rows, d, 1, true);
        gemm_tn(call->dw[PHI_WEIGHT], d, dphi, 1, call->X + at, d, 1, d, b.rows, true);
        for (int i = 0; i < b.rows; i++) sum += dphi[i];
    }
    call->dw[PHI_BIAS][0] += sum;
}

/* ---- mixing weights A_sum, step 7 ---- */

static void weights_forward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call) {
    EACH_BLOCK (b, call->held, call->N)
        for (int head = 0; head < s->shape.h; head++)
            attnfn_columns((AttnFn)s->fn, cast_scores_of(t->asum, s, b, head),
                           cast_scores_of(v->aq, s, b, head), v->up + b.at * BLOCK, BLOCK,
                           s->clusters, BLOCK);
}

/* dphi += <dz, A_q> sig / tau, then dz *= softplus1(phi) / tau: dz becomes the gradient of A_q. */
static void weights_factor(Scratch *t, const Cast *s, const Saved *v, real *dz, const real *aq,
                           Block b) {
    real dot[BLOCK] = {0};
    const real *up = v->up + b.at * BLOCK, *sig = v->sig + b.at * BLOCK;
    for (int c = 0; c < s->clusters; c++)
#pragma omp simd
        for (int i = 0; i < BLOCK; i++) {
            dot[i] += dz[c * BLOCK + i] * aq[c * BLOCK + i];
            dz[c * BLOCK + i] *= up[i];
        }
    for (int i = 0; i < BLOCK; i++) t->dphi[b.at * BLOCK + i] += dot[i] * sig[i] * cast_inv_tau(s);
}

/* Of tokens that are held, on to Q and S. */
static void query_backward(const Cast *s, const AttnCall *call, const real *dz, int head, Block b) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    const size_t at = (size_t)b.n0 * (size_t)d + (size_t)(head * e);
    gemm_tn(call->dQ + at, d, dz, BLOCK, call->w[SURROGATE] + head * e, d, b.rows, e, C, true);
    if (s->surrogates == SURROGATES_LEARNED)
        gemm_nn(call->dw[SURROGATE] + head * e, d, dz, BLOCK, call->Q + at, d, C, e, b.rows, true);
}

/* Of others, on to X, the table S W_q and its bias, all heads at once. */
static void folded_backward(const Scratch *t, const Cast *s, const AttnCall *call, const real *dz,
                            Block b) {
    const int d = s->shape.d, rows = s->shape.h * s->clusters;
    const size_t at = (size_t)b.n0 * (size_t)d;
    gemm_tn(call->dX + at, d, dz, BLOCK, t->table, d, b.rows, d, rows, true);
    gemm_nn(t->dtable, d, dz, BLOCK, call->X + at, d, rows, d, b.rows, true);
    for (int r = 0; r < rows; r++) t->dbias[r] += vec_total(dz + r * BLOCK, b.rows);
}

/* From the table S W_q and its bias S b_q to S, W_q and b_q. */
static void unfold_query(const Scratch *t, const Cast *s, const AttnCall *call) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    const real *dbias = t->dbias;
    for (int head = 0; head < s->shape.h; head++) {
        const real *dtable = t->dtable + head * C * d, *S = call->w[SURROGATE] + head * e;
        gemm_tn(call->q.dw + head * e * d, d, S, d, dtable, d, e, d, C, true);
        gemm_tn(call->q.db + head * e, e, dbias + head * C, 1, S, d, 1, e, C, true);
        if (s->surrogates != SURROGATES_LEARNED) continue;
        real *dS = call->dw[SURROGATE] + head * e;
        gemm_nn(dS, d, dtable, d, call->q.wt + head * e, d, C, e, d, true);
        gemm_nn(dS, d, dbias + head * C, 1, call->q.b + head * e, e, C, e, 1, true);
    }
}

/* From the gradient of A_sum to those of A_q's factors: phi, and Q and S, or X, W_q and S, through
 * their products. */
static void weights_backward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call) {
    const int d = s->shape.d, C = s->clusters, rows = s->shape.h * C;
    if (call->held < call->N) {
        cast_fold(t->table, s, call->w[SURROGATE], call->q.w);
        memset(t->dtable, 0, (size_t)(rows * d) * sizeof *t->dtable);
        memset(t->dbias, 0, (size_t)rows * sizeof *t->dbias);
    }
    EACH_BLOCK (b, call->held, call->N) {
        for (int head = 0; head < s->shape.h; head++) {
            real *dz = cast_scores_of(t->dasum, s, b, head),
                 *aq = cast_scores_of(v->aq, s, b, head);
            attnfn_columns_backward((AttnFn)s->fn, dz, dz, cast_scores_of(t->asum, s, b, head), aq,
                                    v->up + b.at * BLOCK, BLOCK, C, BLOCK);
            weights_factor(t, s, v, dz, aq, b);
            if (b.n0 < call->held) query_backward(s, call, dz, head, b);
        }
        if (b.n0 >= call->held) folded_backward(t, s, call, cast_scores_of(t->dasum, s, b, 0), b);
    }
    if (call->held < call->N) unfold_query(t, s, call);
}

/* Sets members' A_sum to 0, for the sum over other clusters; with `keep` they are copied to
 * v->weight first. */
static void take_members(real *asum, const Cast *s, const Saved *v, bool keep, int k) {
    for (int c = 0; c < s->clusters; c++)
        for (int head = 0; head < s->shape.h; head++) {
            real *weight = cast_row(v->weight, s, c, head, k);
            for (int i = 0; i < v->size[c]; i++) {
                real *at = asum + cast_score_at(s, cast_list(v, c, k)[i], head * s->clusters + c);
                if (keep) weight[i] = *at;
                *at = 0;
            }
        }
}

/* Puts members' A_sum back, with its gradient t->dots, through R_intra; others_backward left there
 * what it would be through R_inter, which members do not read. */
static void put_members(Scratch *t, const Cast *s, const real *weight, const int *list, int row) {
    for (int i = 0; i < t->pack.n; i++) {
        const size_t at = cast_score_at(s, list[i], row);
        t->asum[at] = weight[i];
        t->dasum[at] = t->dots[i];
    }
}

/* ---- a cluster's summary, step 6 ---- */

/* u and w of one cluster and head, with zeros for the padding of the pack. */
static void summary_weights(Scratch *t, const Cast *s, const Saved *v, const int *list,
                            const real *ak) {
    const int m = t->pack.n;
    for (int i = 0; i < m; i++) t->u[i] = ak[i] * v->down[list[i]];
    attnfn_forward((AttnFn)s->fn, t->w, t->u, 1, m);
    for (int i = m; i < t->pack.np; i++) t->w[i] = 0;
}

/* R_inter = w V. */
static void summary_forward(Scratch *t, const Cast *s, const Saved *v, const int *list, int c,
                            int k) {
    const AttendPack *p = &t->pack;
    const int d = s->shape.d, e = s->shape.e;
    for (int head = 0; head < s->shape.h; head++) {
        summary_weights(t, s, v, list, cast_row(v->ak, s, c, head, k));
        gemm_nn(v->rinter + c * d + head * e, d, t->w, p->np, p->v + head * e, d, 1, e, p->np,
                false);
    }
}

/* Through w to V, A_k and phi; through A_k at once to K and S, since only members' A_k count here.
 */
static void summary_backward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call,
                             const int *list, int c, int k) {
    const AttendPack *p = &t->pack;
    const int d = s->shape.d, e = s->shape.e, m = p->n, np = p->np;
    for (int head = 0; head < s->shape.h; head++) {
        const int column = head * e;
        const real *dr = t->drinter + c * d + column, *ak = cast_row(v->ak, s, c, head, k);
        summary_weights(t, s, v, list, ak);
        gemm_nn(p->dv + column, d, t->w, 1, dr, d, np, e, 1, true);
        gemm_nn(t->dots, np, dr, d, p->vt + (size_t)column * (size_t)np, np, 1, np, e, false);
        memset(t->dw, 0, (size_t)np * sizeof *t->dw);
        attnfn_backward((AttnFn)s->fn, t->dw, t->dots, t->w, t->u, 1, m);
        for (int i = 0; i < m; i++) {
            const int n = list[i];
            t->dphi[n] -= t->dw[i] * ak[i] * (1 - v->sig[n]) * cast_inv_tau(s);
            t->dw[i] *= v->down[n];
        }
        gemm_nn(p->dk + column, d, t->dw, 1, call->w[SURROGATE] + c * d + column, d, np, e, 1,
                true);
        if (s->surrogates == SURROGATES_LEARNED)
            gemm_nn(call->dw[SURROGATE] + c * d + column, d, t->dw, np, p->k + column, d, 1, e, np,
                    true);
    }
}

/* ---- the sum over other clusters, step 8 ---- */

/* R += sum over the clusters that do not hold n of A_sum R_inter; asum has zeros for members. For
 * tokens that are not held it is all, and their output is made at once. */
static void others_forward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters, h = s->shape.h;
    if (call->held < call->N) cast_fold(t->table, s, v->rinter, call->o.wt);
    EACH_BLOCK (b, call->held, call->N) {
        real *R = call->R + (size_t)b.n0 * (size_t)d;
        for (int i = 0; i < h && b.n0 < call->held; i++)
            gemm_tn(R + i * e, d, cast_scores_of(t->asum, s, b, i), BLOCK, v->rinter + i * e, d,
                    b.rows, e, C, true);
        if (b.n0 >= call->held)
            gemm_tn(R, d, cast_scores_of(t->asum, s, b, 0), BLOCK, t->table, d, b.rows, d, h * C,
                    false);
    }
}

/* From the table R_inter W_o to R_inter and W_o. */
static void unfold_output(const Scratch *t, const Cast *s, const Saved *v, const AttnCall *call) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    for (int i = 0; i < s->shape.h; i++) {
        const real *dtable = t->dtable + i * C * d;
        gemm_nn(t->drinter + i * e, d, dtable, d, call->o.w + i * e, d, C, e, d, true);
        gemm_tn(call->o.dw + i * e, d, dtable, d, v->rinter + i * e, d, d, e, C, true);
    }
}

static void others_backward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters, h = s->shape.h;
    if (call->held < call->N) cast_fold(t->table, s, v->rinter, call->o.wt);
    EACH_BLOCK (b, call->held, call->N) {
        const real *dR = call->dR + (size_t)b.n0 * (size_t)d;
        cast_turn(t->turned, call->dR, b, d);
        for (int i = 0; i < h && b.n0 < call->held; i++) {
            gemm_nn(t->drinter + i * e, d, cast_scores_of(t->asum, s, b, i), BLOCK, dR + i * e, d,
                    C, e, b.rows, b.n0 > 0);
            gemm_nn(cast_scores_of(t->dasum, s, b, i), BLOCK, v->rinter + i * e, d,
                    t->turned + i * e * BLOCK, BLOCK, C, BLOCK, e, false);
        }
        if (b.n0 < call->held) continue;
        gemm_nn(t->dtable, d, cast_scores_of(t->asum, s, b, 0), BLOCK, dR, d, h * C, d, b.rows,
                b.n0 > call->held);
        gemm_nn(cast_scores_of(t->dasum, s, b, 0), BLOCK, t->table, d, t->turned, BLOCK, h * C,
                BLOCK, d, false);
    }
    if (call->held < call->N) unfold_output(t, s, v, call);
}

/* ---- attention inside a cluster, step 5 ---- */

/* R of the members += A_sum R_intra. */
static void intra_forward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call,
                          const int *list, int c, int k) {
    const int d = s->shape.d, h = s->shape.h, e = s->shape.e;
    for (int head = 0; head < h; head++)
        attend_forward(&t->pack, head, cast_row(v->lse, s, c, head, k), (AttnFn)s->fn);
    for (int head = 0; head < h; head++) {
        const real *weight = cast_row(v->weight, s, c, head, k);
        for (int r = 0; r < t->pack.n; r++) {
            real *out = call->R + (size_t)list[r] * (size_t)d + head * e;
            const real *o = t->pack.o + (size_t)r * (size_t)d + head * e;
            EACH_VEC(i, left, e, vec_add_scaled(out + i, o + i, weight[r], left));
        }
    }
}

static void members_backward(Scratch *t, const Cast *s, const Saved *v, const int *list, int c,
                             int k) {
    for (int head = 0; head < s->shape.h; head++) {
        const real *weight = cast_row(v->weight, s, c, head, k);
        if (s->intra)
            attend_backward(&t->pack, head, t->dots, weight, cast_row(v->lse, s, c, head, k),
                            (AttnFn)s->fn);
        put_members(t, s, weight, list, head * s->clusters + c);
    }
}

/* ---- the whole ---- */

static void forward(const void *self, AttnCall *call) {
    const Cast *s = self;
    const int N = call->N, C = s->clusters, k = cast_cluster_size(s, N);
    Saved v;
    Scratch t;
    if (!cast_folds(s, N)) cast_cluster_all(s, call);
    cast_place_saved(&v, s, &call->saved, N);
    place_scratch(&t, s, &call->scratch, N, false);
    weights_forward(&t, s, &v, call);
    take_members(t.asum, s, &v, true, k);
    const int rows = s->summaries ? call->held : N; /* others_forward writes the rest */
    memset(call->R, 0, (size_t)rows * (size_t)s->shape.d * sizeof *call->R);
    memset(v.rinter, 0, (size_t)(C * s->shape.d) * sizeof *v.rinter);
    for (int c = 0; c < C; c++) {
        const int *list = cast_list(&v, c, k);
        if (v.size[c] == 0) continue;
        attend_pack(&t.pack, call->Q, call->K, call->V, list, v.size[c]);
        if (s->intra) intra_forward(&t, s, &v, call, list, c, k);
        if (s->summaries) summary_forward(&t, s, &v, list, c, k);
    }
    if (s->summaries) others_forward(&t, s, &v, call);
}

static void cluster_backward(Scratch *t, const Cast *s, const Saved *v, const AttnCall *call, int c,
                             int k) {
    const int *list = cast_list(v, c, k);
    attend_pack(&t->pack, call->Q, call->K, call->V, list, v->size[c]);
    attend_pack_backward(&t->pack, call->dR, NULL, list);
    if (!s->intra) {
        attend_no_gradients(&t->pack);
        memset(t->dots, 0, (size_t)t->pack.n * sizeof *t->dots);
    }
    members_backward(t, s, v, list, c, k);
    if (s->summaries) summary_backward(t, s, v, call, list, c, k);
    attend_unpack(&t->pack, call->dQ, call->dK, call->dV, list);
}

static void backward(const void *self, AttnCall *call) {
    const Cast *s = self;
    const int N = call->N, C = s->clusters, k = cast_cluster_size(s, N);
    Saved v;
    Scratch t;
    cast_place_saved(&v, s, &call->saved, N);
    place_scratch(&t, s, &call->scratch, N, true);
    memset(t.dphi, 0, cast_token_reals(N) * sizeof *t.dphi);
    weights_forward(&t, s, &v, call);
    if (s->summaries) {
        take_members(t.asum, s, &v, false, k);
        others_backward(&t, s, &v, call);
    } else {
        memset(t.dasum, 0, score_reals(s, N) * sizeof *t.dasum);
    }
    for (int c = 0; c < C; c++)
        if (v.size[c] > 0) cluster_backward(&t, s, &v, call, c, k);
    weights_backward(&t, s, &v, call);
    gate_backward(&t, s, call);
}

/* A_q, A_k, phi; scores and values inside clusters; summaries; step 8's sum over clusters. */
static double flops(const void *self, int N) {
    const Cast *s = self;
    double n = N, C = s->clusters, d = s->shape.d, k = cast_cluster_size(s, N);
    if (k > n) k = n;
    double held = s->rule == CLUSTER_TOPK ? C * k : fmin(n, C * k); /* tokens in clusters */
    double macs = 2 * n * C * d + n * d;
    if (s->intra) macs += 2 * held * (held / C) * d;
    if (s->summaries) macs += held * d + n * C * d;
    return 2 * macs;
}

const AttnMech attn_cast = {
    .name = "cast",
    .title = "CAST: attention inside clusters around surrogate tokens, summaries between them",
    .reference = "arXiv:2402.04239",
    .keys = cast_keys,
    .self_size = sizeof(Cast),
    .check = check,
    .params = params,
    .needs = needs,
    .choose = cast_choose,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .spared = cast_spared,
    .clusters = clusters_shape,
};
