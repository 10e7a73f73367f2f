/* What CAST's files share: its config, how scores are laid out, and what a call works with.
 *
 * A token that no cluster holds (with Top-K and random scores (1 - 1/C)^C of them at full length, a
 * third) gives nobody its value, its key only a score that has no gradient, and gets nothing but
 * summaries. Where that is cheaper (cast_skips) its query, key, value and row of R are not
 * computed: all tokens' scores go through tables S W_q and S W_k [h,C,d] then (steps 2 and 3), and
 * its output through R_inter W_o (step 8). Rows then come in another order, those of clustered
 * tokens first. */
#ifndef ATTENTION_CAST_STATE_H
#define ATTENTION_CAST_STATE_H

#include <math.h>

#include "attention/layer.h"

typedef struct Cast {
    AttnShape shape;
    int clusters, cluster_size, rule, fn, surrogates;
    bool summaries, intra;
} Cast;

/* Its own parameters. */
enum { SURROGATE, PHI_WEIGHT, PHI_BIAS, CAST_PARAMS };

enum { SURROGATES_LEARNED, SURROGATES_FROZEN };
static inline bool cast_learns(const Cast *s) { return s->surrogates == SURROGATES_LEARNED; }

enum { SIZE_FIXED = -1, SIZE_LENGTH = -2 };
/* The places of a cluster for N tokens, which may be more than these: with SIZE_FIXED they are of
 * max_length. */
int cast_cluster_size(const Cast *s, int N);
/* Those of a cluster's places that N tokens can take. */
int cast_places(const Cast *s, int N);

static inline real cast_inv_tau(const Cast *s) { return (real)(1 / sqrt((double)s->shape.e)); }

/* ---- blocks ---- */

/* Scores of tokens for surrogates, (N,h,C) in the method, are kept in blocks of BLOCK rows, each
 * (h,C,BLOCK): f then runs over clusters with tokens side by side in vectors, and a block stays in
 * the L1 cache. Arrays of one real a token are padded to blocks too, "(blocks)" below. No block has
 * both clustered and unclustered tokens, so that there may be one more than the tokens fill; what
 * is beyond the last token of either kind are zeros, or nobody reads it. */
enum { BLOCK = 64 };

static inline int cast_blocks(int N) { return (N + BLOCK - 1) / BLOCK; }
static inline size_t cast_block_reals(const Cast *s) {
    return (size_t)s->shape.h * (size_t)s->clusters * BLOCK;
}
static inline size_t cast_token_reals(int N) { return (size_t)(cast_blocks(N) + 1) * BLOCK; }
static inline size_t cast_score_reals(const Cast *s, int N) {
    return (size_t)(cast_blocks(N) + 1) * cast_block_reals(s);
}

/* Rows n0 to n0 + rows - 1, in block number `at`. */
typedef struct Block {
    int at, n0, rows;
} Block;
static inline Block cast_block(int at, int clustered, int N) {
    const int first = cast_blocks(clustered);
    const int n0 = at < first ? at * BLOCK : clustered + (at - first) * BLOCK;
    const int left = (at < first ? clustered : N) - n0;
    return (Block){at, n0, left < BLOCK ? left : BLOCK};
}

/* A block's scores of a head: (C,BLOCK). */
static inline real *cast_scores_of(real *x, const Cast *s, Block b, int head) {
    return x + (size_t)b.at * cast_block_reals(s) + (size_t)(head * s->clusters) * BLOCK;
}

/* Where in scores those of clustered row n are: row r of (h,C) there. */
static inline size_t cast_score_at(const Cast *s, int n, int r) {
    const size_t at = (size_t)n;
    return at / BLOCK * cast_block_reals(s) + (size_t)r * BLOCK + at % BLOCK;
}

typedef struct CastState {
    const Cast *s;
    const AttnCall *call;
    int N, k;
    bool skips;
    int clustered; /* rows that are computed: members', and a few to fill up; N unless it skips */
    const real *x; /* (N,d) X, in the rows' order */
    /* saved */
    AttnRows rows;    /* of clustered tokens; dr, dqkv: backward */
    int *order;       /* where it skips: (N + 1) the token of each row; then `clustered` */
    int *list, *size; /* (C,k) rows of members; (C) how many */
    real *aq;         /* scores of queries */
    real *sig;        /* (blocks) sig(phi) */
    real *query_scale, *key_scale; /* (blocks) softplus1(phi)/tau, softplus1(-phi)/tau */
    real *rinter;                  /* (C,d) */
    real *ak;                      /* (C,h,k) scores of each cluster's members' keys for it */
    real *member_mix;              /* (C,h,k) A_sum of members, each in its cluster */
    real *lse;                     /* (C,h,k) */
    /* scratch */
    real *x_rows;  /* (N,d) where it skips: x */
    real *asum;    /* scores: the mixing weights A_sum */
    real *outside; /* scores: A_sum, 0 where the cluster holds the token; forward: asum's memory */
    real *table;   /* (h,C,d) R_inter W_o, then S W_q */
    /* backward */
    const real *dy; /* (N,d) dY in the rows' order */
    real *dx;       /* (N,d) of x; where it skips in dy's memory, read by then */
    real *dy_rows;  /* (N,d) as x_rows */
    real *dasum, *dphi, *dtable, *dbias; /* scores, (blocks), (h,C,d), (h,C) of S b_q */
    real *drinter;                       /* (C,d) */
} CastState;

/* One cluster's row of v->list; one cluster's and head's of (C,h,k). */
static inline int *cast_list(const CastState *v, int c) {
    return v->list + (size_t)c * (size_t)v->k;
}
static inline real *cast_members(const CastState *v, real *x, int c, int head) {
    return x + (size_t)(c * v->s->shape.h + head) * (size_t)v->k;
}

/* Blocks of the rows' order, as many as there are now. */
static inline int cast_row_blocks(const CastState *v) {
    return cast_blocks(v->clustered) + cast_blocks(v->N - v->clustered);
}

/* Whether rows of R of unclustered tokens are left out. Of N and the config alone, so that backward
 * has what forward had. */
bool cast_skips(const Cast *s, int N);
/* Of the method's operations, forward and backward, how many skipping left out. */
double cast_avoided(const CastState *v);

/* A head of table (h,C,d) = rows (C,h,e) times a projection: w (d,d) holds e rows for each head.
 * With it scores of X for surrogates are one product, X (S W)^T instead of (X W^T) S^T; and so is
 * the output of a sum of summaries, A (R_inter W^T) instead of (A R_inter) W^T. Where no more than
 * these is wanted of a token, its query and its row of R need not be computed. */
void cast_table(real *table, const Cast *s, const real *rows, const real *w, int head);

/* A head of tables (h,C,d). */
static inline real *cast_table_of(real *tables, const Cast *s, int head) {
    return tables + (size_t)head * (size_t)s->clusters * (size_t)s->shape.d;
}

/* to (d,BLOCK) = a block's rows of x (N,d), transposed; zeros for tokens that are not there. */
void cast_turn(real *to, const real *x, Block b, int d);

#endif
