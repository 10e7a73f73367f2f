/* Exact attention, o = f(q k^T) v head by head, of n packed tokens, in tiles that stay in cache.
 * Full attention calls it for a sequence, CAST for a cluster's tokens.
 *
 * Tokens are packed: n rows, all heads side by side, padded with zero rows to a multiple of 16, so
 * that products come in few shapes and full vectors. q is scaled by 1/tau already. Softmax is
 * computed online over tiles of keys (Milakov, Gimelshein 2018, arXiv:1805.02867; Rabe, Staats
 * 2021, arXiv:2112.05682), and backward recomputes it from one log-sum-exp a row, as FlashAttention
 * does (Dao et al. 2022, arXiv:2205.14135). */
#ifndef OPS_ATTEND_H
#define OPS_ATTEND_H

#include "core/mem.h"
#include "ops/attnfn.h"

typedef struct AttendPack {
    int n, np;          /* tokens, and rows with padding */
    int d, e;           /* width of all heads, of one */
    real *q, *k, *v;    /* (np,d) */
    real *kt, *vt;      /* (d,np) transposed; vt in the backward pass only, like all below */
    real *o;            /* (np,d) forward: written; backward: read where it is known */
    real *go;           /* (np,d) the gradient of o */
    real *dq, *dk, *dv; /* (np,d) written */
    real *tile, *dtile; /* scores of a tile, and their gradients */
    real *stats;        /* of a tile's rows: shift, sum, its own sum, factor; backward: D */
    bool whole_rows;    /* backward: tiles span all keys */
} AttendPack;

/* Rows of a pack of n tokens. */
static inline size_t attend_padded(int n) { return ((size_t)n + 15) / 16 * 16; }

/* Takes the buffers for up to n tokens. whole_rows: the backward pass will not know o (see below).
 */
void attend_place(AttendPack *p, Arena *a, int n, int d, int e, bool backward, bool whole_rows);

/* Packs rows idx[0..n-1] (NULL: rows 0..n-1) of q, k, v (row stride d), q scaled by 1/sqrt(e). */
void attend_pack(AttendPack *p, const real *q, const real *k, const real *v, const int *idx, int n);
/* And for the backward pass go; o may be NULL. */
void attend_pack_backward(AttendPack *p, const real *go, const real *o, const int *idx);
/* Sets dq, dk, dv to 0, where attend_backward is not called. */
void attend_no_gradients(const AttendPack *p);
/* Adds dq, dk, dv to the rows that they came from. */
void attend_unpack(const AttendPack *p, real *dq, real *dk, real *dv, const int *idx);

/* One head, in a pack placed for the forward pass: writes its columns of o, and lse (n), the
 * log-sum-exp of each row (Laplace: untouched).
 */
void attend_forward(const AttendPack *p, int head, real *lse, AttnFn f);

/* One head, for the output a_i o_i with row weights a (NULL: all 1) and `go` its gradient: writes
 * its columns of dq, dk, dv, and da (n) = <go_i, o_i> (may be NULL). That product is taken from
 * p->o; or, with whole_rows, summed as it arises, and o is not needed. */
void attend_backward(const AttendPack *p, int head, real *da, const real *a, const real *lse,
                     AttnFn f);

#endif
