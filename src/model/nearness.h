/* How near an attention comes to exact attention with the same queries, keys and values: the
 * outputs before the projection o, head by head, and, where its queries see a subset of the keys,
 * the weight that exact attention has there. Where queries are the keys, as in lsh.c, exact
 * attention is what that mechanism would be with all tokens in one chunk. Time O(N^2 d) a document,
 * memory O(N (N h / 64 + d)). */
#ifndef MODEL_NEARNESS_H
#define MODEL_NEARNESS_H

#include "model/encoder.h"

/* Sums over documents. */
typedef struct Nearness {
    double off, all;      /* squares: of the difference to exact attention's output, of that */
    double kept, queries; /* exact weight on the keys that a query sees; queries */
    double flops, exact;  /* between the projections, of all heads: the mechanism's, exact's */
} Nearness;
void nearness_add(Nearness *sum, const Nearness *x);
/* Of the norms of differences and outputs; of exact weights, NaN where all keys are seen; of FLOPs.
 */
double nearness_error(const Nearness *x);
double nearness_kept(const Nearness *x);
double nearness_flops(const Nearness *x);

typedef struct NearScratch {
    AttnMemory memory;
    uint64_t *seen;
    real *qkv[3], *r; /* (N,d) each; r: the mechanism's output */
    real *eye, *zero; /* (d,d) and (d): what stands for o */
    real *scores, *o; /* a tile of queries: (.,N) and (.,e) */
} NearScratch;
void nearness_layout(NearScratch *t, Arena *a, const Model *m);

/* Writes near[heads] of a document of N tokens, of which the attention of block `layer` reads X
 * (N,d). */
void nearness_of(Nearness *near, const Pass *p, const NearScratch *t, int layer, const real *X,
                 int N);

#endif
