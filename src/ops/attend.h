/* Exact attention, o = f(q k^T) v head by head, of packed queries on packed keys, in tiles that
 * stay in cache. Full attention calls it for a sequence, CAST for a cluster's tokens.
 *
 * Queries and keys are packed: each a list of rows, all heads side by side, padded with zero rows
 * to a multiple of 16, so that products come in few shapes and full vectors. q is scaled by 1/tau
 * already. Softmax is computed online over tiles of keys (Milakov, Gimelshein 2018,
 * arXiv:1805.02867; Rabe, Staats 2021, arXiv:2112.05682), and backward recomputes it from one
 * log-sum-exp a row, as FlashAttention does (Dao et al. 2022, arXiv:2205.14135). */
#ifndef OPS_ATTEND_H
#define OPS_ATTEND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/mem.h"
#include "ops/attnfn.h"
#include "ops/rope.h"

/* Which keys a query sees: of query i, its place in the pack, keys i + first to i + last, where
 * there are such; with a block of some queries and keys, all keys of blocks i / block + first to
 * i / block + last; and not key i itself where that is left out. Another key's weight is exactly 0,
 * and tiles of keys that no query of a tile sees cost nothing; a query that sees none has output 0.
 */
typedef struct AttendBand {
    int first, last;
    int block;     /* 0: 1 */
    bool not_self; /* key i is left out of what query i sees */
} AttendBand;
#define ATTEND_FAR (1 << 29)
#define ATTEND_ALL ((AttendBand){-ATTEND_FAR, ATTEND_FAR})

static inline int attend_block(AttendBand b) { return b.block > 1 ? b.block : 1; }
/* Query i sees keys attend_from to attend_to - 1 of m, where there are such, or all but one. */
static inline int attend_from(AttendBand b, int i) {
    const int64_t from = ((int64_t)(i / attend_block(b)) + b.first) * attend_block(b);
    return (int)(from < 0 ? 0 : from < INT_MAX ? from : INT_MAX);
}
static inline int attend_to(AttendBand b, int i, int m) {
    const int64_t to = ((int64_t)(i / attend_block(b)) + b.last + 1) * attend_block(b);
    return (int)(to < 0 ? 0 : to < m ? to : m);
}

/* Operands. Jobs may work on one pack at once, each on a head or some queries of one. */
typedef struct AttendPack {
    int n, np, m, mp;          /* queries and keys, and rows with padding */
    int d, e;                  /* width of all heads, of one */
    int ld;                    /* row stride of what is packed: d, unless set after layout */
    int ldt;                   /* row stride of kt and vt */
    const int *queries, *keys; /* the rows that were packed; NULL: from 0 on */
    AttendBand band;
    Rope rope; /* of the rows' tokens */
    /* The caller's; NULL: none. What is added to a head's scores of each key, 0 in the padding; its
     * gradient, which backward writes; and that of each row's log-sum-exp, which it takes into
     * account (neither with whole_rows nor with row weights). */
    const real *bias; /* (h,mp) */
    real *dbias;      /* (h,mp) */
    const real *dlse; /* (h,n) */
    real *q;          /* (np,d) */
    real *o;          /* (np,d) the caller's: forward writes it, backward reads it */
    real *k, *v;      /* (mp,d) */
    real *kt, *vt;    /* (d,ldt) transposed; vt in the backward pass only, like all below */
    real *go, *dq;    /* (np,d) the gradient of o; written */
    real *dk, *dv;    /* (mp,d) written */
} AttendPack;

/* A tile of scores: of each thread its own. */
typedef struct AttendTiles {
    real *tile, *dtile; /* scores, and their gradients */
    real *stats;        /* of a tile's rows: shift, sum, its own sum, factor; backward: D */
    bool whole_rows;    /* backward: tiles span all keys */
} AttendTiles;

/* Rows of a pack of n. */
static inline size_t attend_padded(int n) { return ((size_t)n + 15) / 16 * 16; }
/* Between rows of scores of m keys, and rows of keys transposed. Rows that are a power of two apart
 * would crowd into the few places of the cache that such addresses share: with 1,024 keys their
 * products take 1.3 times as long at e = 16, and 1.6 times at e = 64, on an EPYC with 8 such
 * places. */
static inline int attend_stride(int m) {
    const int padded = (int)attend_padded(m);
    return padded % 256 ? padded : padded + 16;
}

/* Takes the buffers, but o, for up to n queries and m keys. Until p->band is set all are seen, and
 * until p->rope is nothing turns. */
void attend_layout(AttendPack *p, Arena *a, int n, int m, int d, int e, bool backward);
/* whole_rows: the backward pass has no o (see below). */
void attend_layout_tiles(AttendTiles *t, Arena *a, int m, bool backward, bool whole_rows);

/* Packs rows queries[0..n-1] of q and keys[0..m-1] of k and v (row stride ld; no list: from row 0
 * on), q scaled by 1/sqrt(e); q and k are turned by p->rope. */
void attend_pack_queries(AttendPack *p, const real *q, const int *queries, int n);
void attend_pack_keys(AttendPack *p, const real *k, const real *v, const int *keys, int m);
/* And for the backward pass the queries' go. */
void attend_pack_backward(AttendPack *p, const real *go);
/* Sets dq, dk, dv to 0, where attend_backward is not called. */
void attend_no_gradients(const AttendPack *p);
/* Turns dq and dk back; with `keys` also k itself. */
void attend_turn_back(const AttendPack *p, bool keys);
/* Adds dq / sqrt(e), dk and dv to the rows that they came from (row stride ld; NULL: not wanted).
 */
void attend_unpack(const AttendPack *p, real *dq, real *dk, real *dv);

/* A job may have any run of queries that begins at a multiple of this. Another run gives the same
 * bits, unless blocks of the band reach over its border: products then have other shapes. */
enum { ATTEND_ROWS = 64 };
/* Rows of products at a time; of more than 4096 keys half as many. */
enum { ATTEND_TILE = 32 };

/* One head, queries r0 to r0 + n - 1, r0 a multiple of ATTEND_ROWS: writes their columns of o
 * (behind the last ones also those of the padding), and lse[r0..], the log-sum-exp of each row (no
 * key: 0; Laplace: untouched). */
void attend_forward(const AttendPack *p, const AttendTiles *t, int head, int r0, int n, real *lse,
                    AttnFn f);

/* One head, all queries, since dk and dv are sums over them; for the output a_i o_i with row
 * weights a (NULL: all 1) and `go` its gradient: writes its columns of dq, dk, dv, and da (n) =
 * <go_i, o_i> (may be NULL). That product is taken from p->o; or, with whole_rows, summed as it
 * arises, and o is not needed. */
void attend_backward(const AttendPack *p, const AttendTiles *t, int head, real *da, const real *a,
                     const real *lse, AttnFn f);

#endif
