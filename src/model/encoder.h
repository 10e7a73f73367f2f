/* The encoder on one document: segments forward and backward (model/model.h says where it is cut).
 * A document runs on one thread, in memory of its own, rows in tiles that stay in cache. */
#ifndef MODEL_ENCODER_H
#define MODEL_ENCODER_H

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
    double dropout;          /* 0 in evaluation */
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
    AttnTap *tap;        /* one a block, or NULL */
    AttnMeter *meter;    /* or NULL */
    real **stream;       /* (2 depth + 1) x (N,d): the inputs of norms, and of the first sublayer;
                            with batch norm the first, the embedding, is a thread's */
    real **mean, **rstd; /* (nnorms) x (N): layer norm; scale norm keeps 1/|x| in rstd */
    BlockActs *blocks;
    real *grad;   /* (N,d) gradient of the stream */
    real *z, *dz; /* (d) pooled */
} Doc;
void doc_place(Doc *doc, Arena *a, const Model *m, int N);

/* A thread's scratch. */
typedef struct EncoderScratch {
    real *x, *dx;    /* (N,d) a sublayer's input, and its gradient */
    real *dy;        /* (N,d) the gradient of attention's output, where dropout changes it */
    real *embedding; /* (N,d) of documents that do not keep theirs */
    real *wide[2], *narrow[2]; /* tiles: of the widest layer, of width d */
    Arena attn, job;           /* the mechanism's, and its jobs' */
} EncoderScratch;
void encoder_place(EncoderScratch *t, Arena *a, const Model *m);

/* What a segment computes, besides its norm. */
typedef enum SegmentPart {
    PART_EMBEDDING, /* alone */
    PART_ATTENTION,
    PART_FEED_FORWARD,
    PART_POOLING
} SegmentPart;
SegmentPart segment_part(const Model *m, int segment);

void segment_forward(const Pass *p, Doc *doc, EncoderScratch *t, int segment);

/* Adds the gradients of the segment's parameters to dw. The last segment starts from doc->dz. With
 * batch norm, the norm's gradient is finished when the segment before it runs, from the sums over
 * the batch. */
void segment_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, real *dw);

/* The stream that a segment leaves for the norm after it: (N,d). */
const real *segment_output(const Pass *p, const Doc *doc, int segment);

#endif
