/* CAST's clusters: scores of all tokens, affinities, choice (steps 2 to 4 of the method), before
 * any query, key or value is computed. */
#include <string.h>

#include "attention/cast.h"
#include "core/gemm.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

void cast_place_choose(ChooseScratch *t, const Cast *s, Arena *a, int N) {
    const size_t C = (size_t)s->clusters, rows = 2 * (size_t)s->shape.h * C,
                 n = cast_token_reals(N);
    t->table = arena_reals(a, rows * (size_t)s->shape.d);
    t->bias = arena_reals(a, rows);
    t->turned = arena_reals(a, (size_t)s->shape.d * BLOCK);
    t->scores = arena_reals(a, rows * n);
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

void cast_turn(real *to, const real *x, Block b, int d) {
    if (b.rows < BLOCK) memset(to, 0, (size_t)d * BLOCK * sizeof *to);
    transpose(to, BLOCK, x + (size_t)b.n0 * (size_t)d, d, b.rows, d);
}

/* ---- phi ---- */

/* phi of the tokens in order, and its sigmoid. */
static void gate(ChooseScratch *t, const Saved *v, const Cast *s, const AttnCall *c) {
    const int d = s->shape.d, all = (int)cast_token_reals(c->N);
    for (int n = 0; n < c->N; n++)
        t->phi[n] = vec_dot(c->X + (size_t)n * (size_t)d, c->w[PHI_WEIGHT], d) + c->w[PHI_BIAS][0];
    for (int n = c->N; n < all; n++) t->phi[n] = 0;
    vmath_softplus1(t->sig, v->up, v->down, t->phi, cast_inv_tau(s), all);
}

/* ---- scores, steps 2 and 3 ---- */

static void fold_projection(real *table, real *bias, const Cast *s, const real *surrogates,
                            const AttnLinear *p) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    cast_fold(table, s, surrogates, p->w);
    for (int i = 0; i < s->shape.h; i++)
        for (int c = 0; c < C; c++)
            bias[i * C + c] = vec_dot(surrogates + c * d + i * e, p->b + i * e, e);
}

static void fold_scores(ChooseScratch *t, const Cast *s, const AttnCall *c) {
    const int rows = s->shape.h * s->clusters;
    const AttnLinear *const p[2] = {&c->q, &c->k};
    for (int i = 0; i < 2; i++)
        fold_projection(t->table + i * rows * s->shape.d, t->bias + i * rows, s, c->w[SURROGATE],
                        p[i]);
}

/* A block's A_q and A_k. */
static void block_scores(real *scores, ChooseScratch *t, const Cast *s, const AttnCall *c,
                         Block b) {
    const int d = s->shape.d, rows = 2 * s->shape.h * s->clusters;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < BLOCK; i++) scores[r * BLOCK + i] = t->bias[r];
    cast_turn(t->turned, c->X, b, d);
    gemm_nn(scores, BLOCK, t->table, d, t->turned, BLOCK, rows, BLOCK, d, true);
}

/* A block of A_g, written as f_k + sig (f_q - f_k): equal values, those of a single cluster, stay
 * equal to the bit. */
static void block_affinity(ChooseScratch *t, const Cast *s, const real *scores, const real *sig) {
    const int C = s->clusters;
    const real *keys = scores + cast_block_reals(s);
    real flat[BLOCK];
    for (int i = 0; i < BLOCK; i++) flat[i] = cast_inv_tau(s);
    memset(t->sum, 0, (size_t)C * BLOCK * sizeof *t->sum);
    for (int head = 0; head < s->shape.h; head++) {
        const int at = head * C * BLOCK;
        attnfn_columns((AttnFn)s->fn, t->fq, scores + at, flat, BLOCK, C, BLOCK);
        attnfn_columns((AttnFn)s->fn, t->fk, keys + at, flat, BLOCK, C, BLOCK);
        for (int c = 0; c < C; c++)
#pragma omp simd
            for (int i = 0; i < BLOCK; i++) {
                const real fk = t->fk[c * BLOCK + i];
                t->sum[c * BLOCK + i] += fk + sig[i] * (t->fq[c * BLOCK + i] - fk);
            }
    }
}

static void affinities(ChooseScratch *t, const Cast *s, const AttnCall *call) {
    const size_t ld = cast_token_reals(call->N);
    fold_scores(t, s, call);
    EACH_BLOCK (b, call->N, call->N) {
        real *scores = t->scores + (size_t)b.at * 2 * cast_block_reals(s);
        block_scores(scores, t, s, call, b);
        block_affinity(t, s, scores, t->sig + b.n0);
        for (int c = 0; c < s->clusters; c++)
            memcpy(t->affinity + (size_t)c * ld + b.n0, t->sum + c * BLOCK, BLOCK * sizeof *t->sum);
    }
}

/* ---- the order of tokens: those in clusters, then the others ---- */

static int *list_of(const Saved *v, int c, int k) { return v->list + (size_t)c * (size_t)k; }

/* Marks the tokens that clusters hold; if they are many, a few more, so that products have whole
 * blocks of rows. */
static int mark_held(int *mark, const Cast *s, const Saved *v, int N, int k) {
    enum { MANY = 64, ROWS = 16 };
    int held = 0;
    memset(mark, 0, (size_t)N * sizeof *mark);
    for (int c = 0; c < s->clusters; c++)
        for (int i = 0; i < v->size[c]; i++) {
            int *m = mark + list_of(v, c, k)[i];
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

/* Where in t->scores token n's A_q of the first head for the first cluster is; its A_k is
 * block_reals further. */
static size_t score_of(const Cast *s, int n) {
    const size_t token = (size_t)n;
    return token / BLOCK * 2 * cast_block_reals(s) + token % BLOCK;
}

/* A_q, and what follows from phi. */
static void keep_tokens(const Saved *v, ChooseScratch *t, const Cast *s, const int *order, int held,
                        int N) {
    const int rows = s->shape.h * s->clusters;
    EACH_BLOCK (b, held, N) {
        real *aq = v->aq + (size_t)b.at * cast_block_reals(s), *phi = v->sig + b.at * BLOCK;
        size_t from[BLOCK];
        for (int i = 0; i < b.rows; i++) from[i] = score_of(s, order[b.n0 + i]);
        for (int i = 0; i < BLOCK; i++) phi[i] = i < b.rows ? t->phi[order[b.n0 + i]] : 0;
        for (int r = 0; r < rows; r++) {
            const real *restrict row = t->scores + r * BLOCK;
#pragma omp simd
            for (int i = 0; i < b.rows; i++) aq[r * BLOCK + i] = row[from[i]];
            for (int i = b.rows; i < BLOCK; i++) aq[r * BLOCK + i] = 0;
        }
        const size_t at = (size_t)b.at * BLOCK;
        vmath_softplus1(phi, v->up + at, v->down + at, phi, cast_inv_tau(s), BLOCK);
    }
}

/* Members' A_k; and lists name their rows from now on. */
static void keep_members(const Saved *v, const ChooseScratch *t, const Cast *s, int k) {
    for (int c = 0; c < s->clusters; c++) {
        int *list = list_of(v, c, k);
        for (int head = 0; head < s->shape.h; head++) {
            const size_t at = cast_block_reals(s) + (size_t)(head * s->clusters + c) * BLOCK;
            real *ak = v->ak + (size_t)(c * s->shape.h + head) * (size_t)k;
            for (int i = 0; i < v->size[c]; i++) ak[i] = t->scores[score_of(s, list[i]) + at];
        }
        for (int i = 0; i < v->size[c]; i++) list[i] = t->row[list[i]];
    }
}

/* ---- the whole ---- */

static void report(const Cast *s, const Saved *v, const ChooseScratch *t, const AttnTap *tap, int N,
                   int k) {
    const int C = s->clusters, slots = cast_cluster_size(s, s->shape.max_tokens);
    if (tap->clusters)
        for (int c = 0; c < C; c++)
            for (int i = 0; i < slots; i++)
                tap->clusters[c * slots + i] = i < v->size[c] ? list_of(v, c, k)[i] : -1;
    if (tap->affinities) transpose(tap->affinities, C, t->affinity, (int)cast_token_reals(N), C, N);
}

int cast_choose(const void *self, AttnCall *call, int *order) {
    const Cast *s = self;
    const int N = call->N, C = s->clusters, k = cast_cluster_size(s, N);
    Saved v;
    ChooseScratch t;
    cast_place_saved(&v, s, &call->saved, N);
    cast_place_choose(&t, s, &call->scratch, N);
    gate(&t, &v, s, call);
    affinities(&t, s, call);
    cluster_choose((ClusterRule)s->rule, v.list, v.size, t.affinity, (int)cast_token_reals(N),
                   &t.clusters, N, C, k);
    if (call->tap) report(s, &v, &t, call->tap, N, k);
    const int held = order_tokens(order, &t, s, &v, N, k);
    keep_tokens(&v, &t, s, order, held, N);
    keep_members(&v, &t, s, k);
    return held;
}
