/* A document in a pass of the model: what a batch's documents share, and the memory of one. */
#ifndef MODEL_DOC_H
#define MODEL_DOC_H

#include "model/fold.h"

/* Batch norm's statistics of the batch at hand, or the running ones in evaluation. */
typedef struct BatchStats {
    real *mean, *rstd;   /* (d) */
    const real *dg, *db; /* (d) sums over the batch, for the backward pass */
    double population;   /* tokens of the batch */
} BatchStats;

/* What all documents of a batch share. */
typedef struct Pass {
    const Model *m;
    const real *w, *wt;
    const BatchStats *stats; /* one a norm; only with batch norm */
    const Fold *fold;        /* projected embedding tables */
    bool drops;              /* in training: dropout, where there is one */
} Pass;

/* One block's activations. */
typedef struct BlockActs {
    Arena attn; /* what the mechanism saves */
    real *f;    /* (N,d_ff) before gelu; NULL where it is made again */
} BlockActs;

/* A document's memory. */
typedef struct Doc {
    int N;               /* tokens, cls counted */
    const int *ids;      /* its token ids, without cls */
    RngKey key;          /* of its dropout masks */
    AttnTrace *trace;    /* one a block, or NULL */
    AttnMeter *meter;    /* or NULL */
    real **stream;       /* (2 depth + 1) x (N,d): the inputs of norms, and of the first sublayer;
                            with batch norm the first, the embedding, is a thread's */
    real **mean, **rstd; /* (nnorms) x (N): layer norm; scale norm keeps 1/|x| in rstd */
    BlockActs *blocks;
    real *grad;   /* (N,d) gradient of the stream */
    real *z, *dz; /* (d) pooled */
} Doc;
void doc_layout(Doc *doc, Arena *a, const Model *m, int N);

/* Whether documents keep their embedding, or a thread makes it again for each segment. */
bool doc_keeps_embedding(const Model *m);

/* Whether there is dropout at a place in this pass; and if so, of rows r0..r0+n-1 of width d of the
 * document, the same wherever they are computed. */
bool doc_drops(const Pass *p, DropoutPlace place);
void doc_drop(const Pass *p, const Doc *doc, DropoutPlace place, int layer, real *x, int r0, int n,
              int d);

#endif
