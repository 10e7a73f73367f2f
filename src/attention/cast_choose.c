#include "attention/cast_choose.h"

#include <string.h>

#include "attention/cluster.h"
#include "core/gemm.h"
#include "ops/attnfn.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

typedef struct Choose {
    CastState *v;
    real *table[2]; /* (h,C,d), of queries and of keys: see cast_table */
    real *bias[2];  /* (h,C) */
    real *aq, *ak;  /* scores in the tokens' order */
    real *phi;      /* (blocks) */
    real *sig;      /* (blocks) */
    real *affinity; /* (C,blocks BLOCK) */
    int *row;       /* (N) the row of each token */
} Choose;

/* Of a block. */
typedef struct ChooseBlock {
    real *turned;        /* (d,BLOCK) transposed rows */
    real *fq, *fk, *sum; /* (C,BLOCK) f of a head; affinities */
} ChooseBlock;

static void layout(Choose *t, const Cast *s, Arena *a, int N) {
    const size_t C = (size_t)s->clusters, rows = (size_t)s->shape.h * C, n = cast_token_reals(N);
    for (int i = 0; i < 2; i++) {
        t->table[i] = arena_reals(a, rows * (size_t)s->shape.d);
        t->bias[i] = arena_reals(a, rows);
    }
    t->aq = arena_reals(a, rows * n);
    t->ak = arena_reals(a, rows * n);
    t->phi = arena_reals(a, n);
    t->sig = arena_reals(a, n);
    t->affinity = arena_reals(a, C * n);
    t->row = arena_ints(a, (size_t)N);
}

static void layout_block(ChooseBlock *t, const Cast *s, Arena *a) {
    const size_t C = (size_t)s->clusters;
    t->turned = arena_reals(a, (size_t)s->shape.d * BLOCK);
    t->fq = arena_reals(a, C * BLOCK);
    t->fk = arena_reals(a, C * BLOCK);
    t->sum = arena_reals(a, C * BLOCK);
}

void cast_layout_choose(const Cast *s, AttnMemory *memory, int N) {
    Arena block = memory->job, cluster = memory->job;
    layout(&(Choose){0}, s, &memory->scratch, N);
    layout_block(&(ChooseBlock){0}, s, &block);
    cluster_layout(&(ClusterScratch){0}, &cluster, N);
    memory->job = block.used > cluster.used ? block : cluster;
}

/* ---- scores and affinities, steps 2 and 3 ---- */

/* phi of a block of tokens, and what follows from it. */
static void gate(const Choose *t, Block b) {
    const CastState *v = t->v;
    const AttnCall *c = v->call;
    const real *w = attn_own(c, PHI_WEIGHT), bias = *attn_own(c, PHI_BIAS);
    for (int n = b.n0; n < b.n0 + b.rows; n++)
        t->phi[n] = vec_dot(c->X + (size_t)n * (size_t)c->d, w, c->d) + bias;
    for (int n = b.n0 + b.rows; n < b.n0 + BLOCK; n++) t->phi[n] = 0;
    vmath_softplus1(t->sig + b.n0, v->query_scale + b.n0, v->key_scale + b.n0, t->phi + b.n0,
                    cast_inv_tau(v->s), BLOCK);
}

/* x S^T, head by head. */
static void scores(real *to, const Choose *t, ChooseBlock *o, const real *x, Block b) {
    const Cast *s = t->v->s;
    const int d = s->shape.d, e = s->shape.e;
    cast_turn(o->turned, x, b, d);
    for (int i = 0; i < s->shape.h; i++)
        gemm_nn(cast_scores_of(to, s, b, i), BLOCK, attn_own(t->v->call, SURROGATE) + i * e, d,
                o->turned + i * e * BLOCK, BLOCK, s->clusters, BLOCK, e, false);
}

/* Scores of queries and of keys from X, all heads at once. */
static void table_scores(const Choose *t, ChooseBlock *o, Block b) {
    const Cast *s = t->v->s;
    const int d = s->shape.d, rows = s->shape.h * s->clusters;
    real *const to[2] = {t->aq, t->ak};
    cast_turn(o->turned, t->v->call->X, b, d);
    for (int i = 0; i < 2; i++) {
        real *block = cast_scores_of(to[i], s, b, 0);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < BLOCK; j++) block[r * BLOCK + j] = t->bias[i][r];
        gemm_nn(block, BLOCK, t->table[i], d, o->turned, BLOCK, rows, BLOCK, d, true);
    }
}

/* A block of A_g, written as f_k + sig (f_q - f_k): equal values, those of a single cluster, stay
 * equal to the bit. */
static void block_affinity(const Choose *t, ChooseBlock *o, Block b) {
    const Cast *s = t->v->s;
    const int C = s->clusters;
    const AttnFn f = (AttnFn)s->fn;
    const real *sig = t->sig + b.n0;
    real flat[BLOCK];
    for (int i = 0; i < BLOCK; i++) flat[i] = cast_inv_tau(s);
    memset(o->sum, 0, (size_t)C * BLOCK * sizeof *o->sum);
    for (int head = 0; head < s->shape.h; head++) {
        attnfn_columns(f, o->fq, cast_scores_of(t->aq, s, b, head), flat, BLOCK, C, BLOCK);
        attnfn_columns(f, o->fk, cast_scores_of(t->ak, s, b, head), flat, BLOCK, C, BLOCK);
        for (int c = 0; c < C; c++)
#pragma omp simd
            for (int i = 0; i < BLOCK; i++) {
                const real fk = o->fk[c * BLOCK + i];
                o->sum[c * BLOCK + i] += fk + sig[i] * (o->fq[c * BLOCK + i] - fk);
            }
    }
}

static void choose_block(const void *ctx, int i, Arena scratch) {
    const Choose *t = ctx;
    const CastState *v = t->v;
    const size_t ld = cast_token_reals(v->N);
    const Block b = cast_block(i, v->N, v->N);
    ChooseBlock o;
    layout_block(&o, v->s, &scratch);
    gate(t, b);
    if (v->skips) {
        table_scores(t, &o, b);
    } else {
        scores(t->aq, t, &o, v->rows.qkv[ATTN_Q], b);
        scores(t->ak, t, &o, v->rows.qkv[ATTN_K], b);
    }
    block_affinity(t, &o, b);
    for (int c = 0; c < v->s->clusters; c++)
        memcpy(t->affinity + (size_t)c * ld + b.n0, o.sum + c * BLOCK, BLOCK * sizeof *o.sum);
}

/* A head's table and bias for scores of x = X W^T + b, of queries and of keys. */
static void score_tables(const void *ctx, int head, Arena scratch) {
    const Choose *t = ctx;
    const AttnCall *call = t->v->call;
    const Cast *s = t->v->s;
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    const real *S = attn_own(call, SURROGATE);
    for (int i = 0; i < 2; i++) {
        const AttnLinear *p = &call->proj[i];
        cast_table(t->table[i], s, S, p->w, head);
        for (int c = 0; c < C; c++)
            t->bias[i][head * C + c] = vec_dot(S + c * d + head * e, p->b + head * e, e);
    }
}

/* ---- clusters, step 4 ---- */

/* What backward needs of members' keys. */
static void keep_members(const Choose *t, int c) {
    const CastState *v = t->v;
    for (int head = 0; head < v->s->shape.h; head++) {
        real *ak = cast_members(v, v->ak, c, head);
        const int *list = cast_list(v, c);
        for (int i = 0; i < v->size[c]; i++)
            ak[i] = t->ak[cast_score_at(v->s, list[i], head * v->s->clusters + c)];
    }
}

static void top_k(const void *ctx, int c, Arena scratch) {
    const Choose *t = ctx;
    const CastState *v = t->v;
    ClusterScratch sort;
    cluster_layout(&sort, &scratch, v->N);
    v->size[c] = cluster_top_k(cast_list(v, c), t->affinity + (size_t)c * cast_token_reals(v->N),
                               &sort, v->N, v->k);
    keep_members(t, c);
}

static void single_assignment(const void *ctx, int job, Arena scratch) {
    const Choose *t = ctx;
    const CastState *v = t->v;
    ClusterScratch sort;
    cluster_layout(&sort, &scratch, v->N);
    cluster_sa_top_k(v->list, v->size, t->affinity, (int)cast_token_reals(v->N), &sort, v->N,
                     v->s->clusters, v->k);
    for (int c = 0; c < v->s->clusters; c++) keep_members(t, c);
}

/* In every head, the tokens of a cluster see each other. */
static void report_seen(const CastState *v, AttnTrace *trace, int c) {
    for (int head = 0; head < v->s->shape.h && v->s->intra; head++)
        for (int i = 0; i < v->size[c]; i++)
            for (int j = 0; j < v->size[c]; j++)
                attn_trace_sees(trace, head, cast_list(v, c)[i], cast_list(v, c)[j]);
}

/* Tokens of clusters, best first. */
static void report(const Choose *t, AttnTrace *trace) {
    const CastState *v = t->v;
    const int C = v->s->clusters, slots = cast_cluster_size(v->s, v->s->shape.max_tokens);
    for (int c = 0; c < C; c++)
        for (int i = 0; i < v->size[c]; i++) attn_trace_choice(trace, c, cast_list(v, c)[i]);
    for (int c = 0; c < C && trace->seen; c++) report_seen(v, trace, c);
    for (int c = 0; c < C && trace->clusters; c++)
        for (int i = 0; i < slots; i++)
            trace->clusters[(size_t)c * (size_t)slots + (size_t)i] =
                i < v->size[c] ? cast_list(v, c)[i] : -1;
    if (trace->affinities)
        transpose(trace->affinities, C, t->affinity, (int)cast_token_reals(v->N), C, v->N);
}

/* ---- the order of rows: clustered tokens, then unclustered ones ---- */

/* Marks the tokens that clusters hold; if they are many, a few more, so that products have whole
 * blocks of rows. */
static int mark_clustered(int *mark, const CastState *v) {
    enum { MANY = 64, ROWS = 16 };
    int clustered = 0;
    memset(mark, 0, (size_t)v->N * sizeof *mark);
    for (int c = 0; c < v->s->clusters; c++)
        for (int i = 0; i < v->size[c]; i++) {
            int *m = mark + cast_list(v, c)[i];
            clustered += !*m;
            *m = 1;
        }
    for (int i = 0; i < v->N && clustered > MANY && clustered % ROWS; i++)
        if (!mark[i]) mark[i] = 1, clustered++;
    return clustered;
}

/* From now on lists name rows. */
static void order_rows(const Choose *t) {
    CastState *v = t->v;
    v->clustered = v->order[v->N] = mark_clustered(t->row, v);
    int in = 0, out = v->clustered;
    for (int i = 0; i < v->N; i++) {
        t->row[i] = t->row[i] ? in++ : out++;
        v->order[t->row[i]] = i;
    }
    for (int c = 0; c < v->s->clusters; c++) {
        int *list = cast_list(v, c);
        for (int i = 0; i < v->size[c]; i++) list[i] = t->row[list[i]];
    }
}

/* A_q of a block of rows, and what follows from phi. */
static void keep_block(const void *ctx, int i, Arena scratch) {
    const Choose *t = ctx;
    const CastState *v = t->v;
    const Cast *s = v->s;
    const Block b = cast_block(i, v->clustered, v->N);
    const size_t at = (size_t)b.at * BLOCK;
    real *aq = cast_scores_of(v->aq, s, b, 0), *phi = v->sig + at;
    size_t from[BLOCK];
    for (int j = 0; j < b.rows; j++) from[j] = cast_score_at(s, v->order[b.n0 + j], 0);
    for (int j = 0; j < BLOCK; j++) phi[j] = j < b.rows ? t->phi[v->order[b.n0 + j]] : 0;
    for (int r = 0; r < s->shape.h * s->clusters; r++) {
        const real *restrict row = t->aq + r * BLOCK;
#pragma omp simd
        for (int j = 0; j < b.rows; j++) aq[r * BLOCK + j] = row[from[j]];
        for (int j = b.rows; j < BLOCK; j++) aq[r * BLOCK + j] = 0;
    }
    vmath_softplus1(phi, v->query_scale + at, v->key_scale + at, phi, cast_inv_tau(s), BLOCK);
}

void cast_choose(CastState *v, AttnMemory memory) {
    const AttnCall *c = v->call;
    Choose t = {.v = v};
    layout(&t, v->s, &memory.scratch, v->N);
    if (!v->skips) t.aq = v->aq, t.sig = v->sig;
    if (v->skips) attn_each(c, v->s->shape.h, score_tables, NULL, &t);
    attn_each(c, cast_blocks(v->N), choose_block, NULL, &t);
    if (v->s->rule == CLUSTER_TOPK)
        attn_each(c, v->s->clusters, top_k, NULL, &t);
    else
        attn_each(c, 1, single_assignment, NULL, &t);
    if (c->trace) report(&t, c->trace);
    if (!v->skips) return;
    order_rows(&t);
    attn_each(c, cast_row_blocks(v), keep_block, NULL, &t);
}
