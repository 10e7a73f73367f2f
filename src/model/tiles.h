/* The encoder's scratch, and a document's rows in tiles that stay in cache. Tiles are parts of
 * their lane's work, which threads without a lane take, too (core/lanes.h). */
#ifndef MODEL_TILES_H
#define MODEL_TILES_H

#include "attention/layer.h"
#include "model/doc.h"

/* A segment's, and the mechanism's. */
enum { TILE = ATTN_TILE };

/* A thread's, for the tile it is at. */
typedef struct TileScratch {
    real *wide[2], *narrow[2]; /* (TILE, the widest layer), (TILE,d) */
} TileScratch;
void tiles_layout(TileScratch *t, Arena *a, const Model *m);

/* A thread's, for the document it is at; and that of all threads which help with it. */
typedef struct EncoderScratch {
    real *x, *dx;    /* (N,d) a sublayer's input, and its gradient */
    real *convolved; /* (N,d) what attention reads, with a convolution before it */
    real *dy;        /* (N,d) the gradient of attention's output, where dropout changes it */
    real *embedding; /* (N,d) of documents that do not keep theirs */
    Arena attn;      /* the mechanism's */
    const TileScratch *tiles; /* (threads) */
    const Arena *jobs;        /* (threads) of the mechanism's jobs */
} EncoderScratch;

/* A segment's work on a document. */
typedef struct Segment {
    const Pass *p;
    Doc *doc;
    EncoderScratch *t;
    int segment, layer;
    real *dw; /* backward */
} Segment;

/* Calls job(s, r0, n, scratch) for each tile of the document, rows r0..r0+n-1, and finish (NULL:
 * none) as lanes_share does: in ascending order, after its job, in the same scratch. */
typedef void TileJob(const Segment *s, int r0, int n, const TileScratch *t);
void tiles_share(const Segment *s, TileJob *job, TileJob *finish);

static inline real *tile_rows(real *x, int r0, int d) { return x + (size_t)r0 * (size_t)d; }

#endif
