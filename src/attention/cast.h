/* What the two halves of CAST share: cast_choose.c makes scores and clusters, cast.c what follows
 * from them. */
#ifndef ATTENTION_CAST_H
#define ATTENTION_CAST_H

#include <math.h>

#include "attention/attention.h"
#include "attention/cluster.h"
#include "ops/attend.h"

typedef struct Cast {
    AttnShape shape;
    int clusters, cluster_size, rule, fn, surrogates;
    bool summaries, intra;
} Cast;

/* Its own parameters. */
enum { SURROGATE, PHI_WEIGHT, PHI_BIAS };

int cast_cluster_size(const Cast *s, int N);

static inline real cast_inv_tau(const Cast *s) { return (real)(1 / sqrt((double)s->shape.e)); }

/* Scores of tokens for surrogates, (N,h,C) in the method, are kept in blocks of BLOCK tokens, each
 * (h,C,BLOCK): f then runs over clusters with tokens side by side in vectors, and a block stays in
 * the first cache. A vector of one real a token is whole blocks too, "(blocks)" below. No block has
 * both tokens that clusters hold and others, so that there may be one more than the tokens fill;
 * what is beyond the last token of either kind are zeros, or nobody reads it. */
enum { BLOCK = 64 };

static inline int cast_blocks(int N) { return (N + BLOCK - 1) / BLOCK + 1; }
static inline size_t cast_block_reals(const Cast *s) {
    return (size_t)s->shape.h * (size_t)s->clusters * BLOCK;
}
static inline size_t cast_token_reals(int N) { return (size_t)cast_blocks(N) * BLOCK; }

/* The at-th block: rows n0.. of X, `rows` of them. */
typedef struct Block {
    int at, n0, rows;
} Block;
static inline Block cast_block(int at, int n0, int held, int N) {
    const int left = (n0 < held ? held : N) - n0;
    return (Block){at, n0, left < BLOCK ? left : BLOCK};
}
/* Blocks of N tokens, the first `held` of which are kept apart from the others. */
#define EACH_BLOCK(b, held, N)                                                                     \
    for (Block b = cast_block(0, 0, held, N); b.rows > 0;                                          \
         b = cast_block(b.at + 1, b.n0 + b.rows, held, N))

/* A block's scores of a head: (C,BLOCK). */
static inline real *cast_scores_of(real *x, const Cast *s, Block b, int head) {
    return x + (size_t)b.at * cast_block_reals(s) + (size_t)(head * s->clusters) * BLOCK;
}

/* Where in scores those of row n are: row r of (h,C) there. */
static inline size_t cast_score_at(const Cast *s, int n, int r) {
    const size_t at = (size_t)n;
    return at / BLOCK * cast_block_reals(s) + (size_t)r * BLOCK + at % BLOCK;
}

typedef struct Saved {
    real *aq;         /* scores of queries */
    real *sig;        /* (blocks) sig(phi) */
    real *up, *down;  /* (blocks) softplus1(phi)/tau, softplus1(-phi)/tau */
    real *rinter;     /* (C,d) */
    real *ak;         /* (C,h,k) scores of each cluster's members' keys for it */
    real *weight;     /* (C,h,k) A_sum of members */
    real *lse;        /* (C,h,k) */
    int *list, *size; /* (C,k), (C): members' rows of Q; how many */
} Saved;
/* One cluster's row of v->list; one cluster's and head's of (C,h,k). */
static inline int *cast_list(const Saved *v, int c, int k) {
    return v->list + (size_t)c * (size_t)k;
}
static inline real *cast_row(real *x, const Cast *s, int c, int head, int k) {
    return x + (size_t)(c * s->shape.h + head) * (size_t)k;
}
void cast_place_saved(Saved *v, const Cast *s, Arena *a, int N);

/* For clusters. */
typedef struct ChooseScratch {
    real *table[2];  /* (h,C,d), of queries and of keys: see cast_fold */
    real *bias[2];   /* (h,C) */
    real *turned;    /* (d,BLOCK) a block of tokens, transposed */
    real *aq, *ak;   /* scores in the tokens' order */
    real *phi, *sig; /* (blocks) */
    real *fq, *fk;   /* (C,BLOCK) f of a block and head */
    real *sum;       /* (C,BLOCK) a block of affinities */
    real *affinity;  /* (C,blocks BLOCK) */
    int *row;        /* (N) where in its order a token goes */
    ClusterScratch clusters;
} ChooseScratch;
void cast_place_choose(ChooseScratch *t, const Cast *s, Arena *a, int N);

/* Cluster the tokens (steps 2 to 4): all of Saved that is known then. Where folding spares products
 * AttnMech.choose does it, from X; elsewhere forward, from Q and K, with all tokens held. */
int cast_choose(const void *self, AttnCall *call, int *order);
void cast_cluster_all(const Cast *s, const AttnCall *call);
bool cast_folds(const Cast *s, int N);
double cast_spared(const void *self, int N, int held);

/* table (h,C,d) = rows (C,h,e) times a projection, head by head: w (d,d) holds e rows for each
 * head. With it scores of X for surrogates are one product, X (S W)^T instead of (X W^T) S^T; and
 * so is the output of a sum of summaries, A (R_inter W^T) instead of (A R_inter) W^T. Where no more
 * than these is wanted of a token, its query and its row of R need not be computed. */
void cast_fold(real *table, const Cast *s, const real *rows, const real *w);

/* to (d,BLOCK) = a block's rows of x (N,d), transposed, with zeros for tokens that are not there.
 */
void cast_turn(real *to, const real *x, Block b, int d);

#endif
