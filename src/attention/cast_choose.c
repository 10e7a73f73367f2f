/* CAST's clusters: scores of all tokens, affinities, choice (steps 2 to 4 of the method). */
#include <string.h>

#include "attention/cast.h"
#include "core/gemm.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

void cast_place_choose(ChooseScratch *t, const Cast *s, Arena *a, int N) {
    const size_t C = (size_t)s->clusters, rows = (size_t)s->shape.h * C, n = cast_token_reals(N);
    for (int i = 0; i < 2; i++) {
        t->table[i] = arena_reals(a, rows * (size_t)s->shape.d);
        t->bias[i] = arena_reals(a, rows);
    }
    t->turned = arena_reals(a, (size_t)s->shape.d * BLOCK);
    t->aq = arena_reals(a, rows * n);
    t->ak = arena_reals(a, rows * n);
    t->phi = arena_reals(a, n);
    t->sig = arena_reals(a, n);
    t->fq = arena_reals(a, C * BLOCK);
    t->fk = arena_reals(a, C * BLOCK);
    t->sum = arena_reals(a, C * BLOCK);
    t->affinity = arena_reals(a, C * n);
    t->row = arena_ints(a, (size_t)N);
    cluster_place(&t->clusters, a, N);
}

void cast_fold(real *table, const Cast *s, const real *rows, const real *w) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    for (int i = 0; i < s->shape.h; i++)
        gemm_nn(table + i * C * d, d, rows + i * e, d, w + i * e * d, d, C, d, e, false);
}

/* Multiply-adds that folding spares: of each token that is not held, all twelve products of q, k, v
 * and o. Against these, tables are h times as wide as S and R_inter: for the scores of all tokens,
 * for the output of others, backward for both, and to be made and undone. */
static double folding_spares(const Cast *s, double N, double others) {
    const double C = s->clusters, d = s->shape.d, wider = (s->shape.h - 1) * C * d;
    return 12 * others * d * d - (2 * N + 5 * others) * wider - 9 * C * d * d;
}

/* Bringing rows into order takes about as long as a product of d^2 a token: at text's shapes (d 64,
 * 4 heads, 20 clusters), where 0.7 d^2 would be spared, the step became 4 % slower. */
bool cast_folds(const Cast *s, int N) {
    const double share = fmin(1, cast_cluster_size(s, N) / (double)N);
    const double others =
        s->rule == CLUSTER_TOPK ? pow(1 - share, s->clusters) : fmax(0, 1 - s->clusters * share);
    return folding_spares(s, N, N * others) > (double)N * s->shape.d * s->shape.d;
}

double cast_spared(const void *self, int N, int held) {
    return cast_folds(self, N) ? 2 * folding_spares(self, N, N - held) : 0;
}

void cast_turn(real *to, const real *x, Block b, int d) {
    if (b.rows < BLOCK) memset(to, 0, (size_t)d * BLOCK * sizeof *to);
    transpose(to, BLOCK, x + (size_t)b.n0 * (size_t)d, d, b.rows, d);
}

/* ---- phi ---- */

/* phi of the tokens in order, and what follows from it. */
static void gate(ChooseScratch *t, const Saved *v, const Cast *s, const AttnCall *c) {
    const int d = s->shape.d, all = (int)cast_token_reals(c->N);
    for (int n = 0; n < c->N; n++)
        t->phi[n] = vec_dot(c->X + (size_t)n * (size_t)d, c->w[PHI_WEIGHT], d) + c->w[PHI_BIAS][0];
    for (int n = c->N; n < all; n++) t->phi[n] = 0;
    vmath_softplus1(t->sig, v->up, v->down, t->phi, cast_inv_tau(s), all);
}

/* ---- scores, steps 2 and 3 ---- */

/* x S^T, head by head. */
static void scores(real *to, ChooseScratch *t, const Cast *s, const real *x, const AttnCall *c) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    EACH_BLOCK (b, c->N, c->N) {
        cast_turn(t->turned, x, b, d);
        for (int i = 0; i < s->shape.h; i++)
            gemm_nn(cast_scores_of(to, s, b, i), BLOCK, c->w[SURROGATE] + i * e, d,
                    t->turned + i * e * BLOCK, BLOCK, C, BLOCK, e, false);
    }
}

/* Table and bias for scores of x = X W^T + b. */
static void score_table(real *table, real *bias, const Cast *s, const real *S,
                        const AttnLinear *p) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    cast_fold(table, s, S, p->w);
    for (int r = 0; r < s->shape.h * C; r++) {
        const int head = r / C;
        bias[r] = vec_dot(S + r % C * d + head * e, p->b + head * e, e);
    }
}

/* Scores of queries and of keys from X, all heads at once. */
static void folded_scores(ChooseScratch *t, const Cast *s, const AttnCall *c) {
    const int d = s->shape.d, rows = s->shape.h * s->clusters;
    real *const to[2] = {t->aq, t->ak};
    score_table(t->table[0], t->bias[0], s, c->w[SURROGATE], &c->q);
    score_table(t->table[1], t->bias[1], s, c->w[SURROGATE], &c->k);
    EACH_BLOCK (b, c->N, c->N) {
        cast_turn(t->turned, c->X, b, d);
        for (int i = 0; i < 2; i++) {
            real *block = cast_scores_of(to[i], s, b, 0);
            for (int r = 0; r < rows; r++)
                for (int j = 0; j < BLOCK; j++) block[r * BLOCK + j] = t->bias[i][r];
            gemm_nn(block, BLOCK, t->table[i], d, t->turned, BLOCK, rows, BLOCK, d, true);
        }
    }
}

/* A block of A_g, written as f_k + sig (f_q - f_k): equal values, those of a single cluster, stay
 * equal to the bit. */
static void block_affinity(ChooseScratch *t, const Cast *s, real *aq, Block b) {
    const int C = s->clusters;
    const real *sig = t->sig + b.n0;
    real flat[BLOCK];
    for (int i = 0; i < BLOCK; i++) flat[i] = cast_inv_tau(s);
    memset(t->sum, 0, (size_t)C * BLOCK * sizeof *t->sum);
    for (int head = 0; head < s->shape.h; head++) {
        attnfn_columns((AttnFn)s->fn, t->fq, cast_scores_of(aq, s, b, head), flat, BLOCK, C, BLOCK);
        attnfn_columns((AttnFn)s->fn, t->fk, cast_scores_of(t->ak, s, b, head), flat, BLOCK, C,
                       BLOCK);
        for (int c = 0; c < C; c++)
#pragma omp simd
            for (int i = 0; i < BLOCK; i++) {
                const real fk = t->fk[c * BLOCK + i];
                t->sum[c * BLOCK + i] += fk + sig[i] * (t->fq[c * BLOCK + i] - fk);
            }
    }
}

static void affinities(ChooseScratch *t, const Cast *s, real *aq, int N) {
    const size_t ld = cast_token_reals(N);
    EACH_BLOCK (b, N, N) {
        block_affinity(t, s, aq, b);
        for (int c = 0; c < s->clusters; c++)
            memcpy(t->affinity + (size_t)c * ld + b.n0, t->sum + c * BLOCK, BLOCK * sizeof *t->sum);
    }
}

/* ---- the order of tokens: those in clusters, then the others ---- */

/* Marks the tokens that clusters hold; if they are many, a few more, so that products have whole
 * blocks of rows. */
static int mark_held(int *mark, const Cast *s, const Saved *v, int N, int k) {
    enum { MANY = 64, ROWS = 16 };
    int held = 0;
    memset(mark, 0, (size_t)N * sizeof *mark);
    for (int c = 0; c < s->clusters; c++)
        for (int i = 0; i < v->size[c]; i++) {
            int *m = mark + cast_list(v, c, k)[i];
            held += !*m;
            *m = 1;
        }
    for (int i = 0; i < N && held > MANY && held % ROWS; i++)
        if (!mark[i]) mark[i] = 1, held++;
    return held;
}

static int order_tokens(int *order, ChooseScratch *t, const Cast *s, const Saved *v, int N, int k) {
    const int held = mark_held(t->row, s, v, N, k);
    int in = 0, out = held;
    for (int i = 0; i < N; i++) {
        t->row[i] = t->row[i] ? in++ : out++;
        order[t->row[i]] = i;
    }
    return held;
}

/* ---- what is kept, in that order ---- */

/* A_q, and what follows from phi. */
static void keep_tokens(const Saved *v, const ChooseScratch *t, const Cast *s, const int *order,
                        int held, int N) {
    const int rows = s->shape.h * s->clusters;
    EACH_BLOCK (b, held, N) {
        const size_t at = (size_t)b.at * BLOCK;
        real *aq = cast_scores_of(v->aq, s, b, 0), *phi = v->sig + at;
        size_t from[BLOCK];
        for (int i = 0; i < b.rows; i++) from[i] = cast_score_at(s, order[b.n0 + i], 0);
        for (int i = 0; i < BLOCK; i++) phi[i] = i < b.rows ? t->phi[order[b.n0 + i]] : 0;
        for (int r = 0; r < rows; r++) {
            const real *restrict row = t->aq + r * BLOCK;
#pragma omp simd
            for (int i = 0; i < b.rows; i++) aq[r * BLOCK + i] = row[from[i]];
            for (int i = b.rows; i < BLOCK; i++) aq[r * BLOCK + i] = 0;
        }
        vmath_softplus1(phi, v->up + at, v->down + at, phi, cast_inv_tau(s), BLOCK);
    }
}

/* Members' A_k. */
static void keep_members(const Saved *v, const ChooseScratch *t, const Cast *s, int k) {
    for (int c = 0; c < s->clusters; c++)
        for (int head = 0; head < s->shape.h; head++) {
            real *ak = cast_row(v->ak, s, c, head, k);
            const int *list = cast_list(v, c, k);
            for (int i = 0; i < v->size[c]; i++)
                ak[i] = t->ak[cast_score_at(s, list[i], head * s->clusters + c)];
        }
}

/* Lists name tokens' rows from now on. */
static void name_rows(const Saved *v, const int *row, int C, int k) {
    for (int c = 0; c < C; c++) {
        int *list = cast_list(v, c, k);
        for (int i = 0; i < v->size[c]; i++) list[i] = row[list[i]];
    }
}

/* ---- the whole ---- */

static void report(const Cast *s, const Saved *v, const ChooseScratch *t, const AttnTap *tap, int N,
                   int k) {
    const int C = s->clusters, slots = cast_cluster_size(s, s->shape.max_tokens);
    if (tap->clusters)
        for (int c = 0; c < C; c++)
            for (int i = 0; i < slots; i++)
                tap->clusters[c * slots + i] = i < v->size[c] ? cast_list(v, c, k)[i] : -1;
    if (tap->affinities) transpose(tap->affinities, C, t->affinity, (int)cast_token_reals(N), C, N);
}

/* Lists of tokens, and members' A_k, from A_q, t->ak and phi. */
static void cluster(const Saved *v, ChooseScratch *t, const Cast *s, real *aq,
                    const AttnCall *call) {
    const int N = call->N, k = cast_cluster_size(s, N);
    affinities(t, s, aq, N);
    cluster_choose((ClusterRule)s->rule, v->list, v->size, t->affinity, (int)cast_token_reals(N),
                   &t->clusters, N, s->clusters, k);
    keep_members(v, t, s, k);
    if (call->tap) report(s, v, t, call->tap, N, k);
}

int cast_choose(const void *self, AttnCall *call, int *order) {
    const Cast *s = self;
    const int N = call->N, k = cast_cluster_size(s, N);
    Saved v;
    ChooseScratch t;
    if (!cast_folds(s, N)) return 0;
    cast_place_saved(&v, s, &call->saved, N);
    cast_place_choose(&t, s, &call->scratch, N);
    gate(&t, &v, s, call);
    folded_scores(&t, s, call);
    cluster(&v, &t, s, t.aq, call);
    const int held = order_tokens(order, &t, s, &v, N, k);
    keep_tokens(&v, &t, s, order, held, N);
    name_rows(&v, t.row, s->clusters, k);
    return held;
}

void cast_cluster_all(const Cast *s, const AttnCall *call) {
    Arena saved = call->saved, scratch = call->scratch;
    Saved v;
    ChooseScratch t;
    cast_place_saved(&v, s, &saved, call->N);
    cast_place_choose(&t, s, &scratch, call->N);
    t.sig = v.sig;
    gate(&t, &v, s, call);
    scores(v.aq, &t, s, call->Q, call);
    scores(t.ak, &t, s, call->K, call);
    cluster(&v, &t, s, v.aq, call);
}
