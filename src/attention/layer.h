/* The kit: what mechanisms share. Jobs, and the block's projections on rows. */
#ifndef ATTENTION_LAYER_H
#define ATTENTION_LAYER_H

#include "attention/attention.h"

/* A part of a document's work, with scratch of the thread that runs it (AttnMemory.job). */
typedef void AttnJob(const void *ctx, int job, Arena scratch);

/* Runs jobs 0 to jobs - 1, in any order and at once: what they write is disjoint. Where they add to
 * the same places, that is `finish` (NULL: none): it gets what its job left in scratch, and comes
 * in ascending order, one at a time, so that sums do not depend on who ran what. A job reads
 * nothing that another of the same call writes, and calls none of the functions below, which take
 * jobs' scratch from its start. Threads without a document take part (core/lanes.h). */
void attn_each(const AttnCall *c, int jobs, AttnJob *job, AttnJob *finish, const void *ctx);

/* Tokens in jobs of at most ATTN_TILE: how many jobs, and how many tokens job i has. */
enum { ATTN_TILE = 256 };
static inline int attn_tiles(int n) { return (n + ATTN_TILE - 1) / ATTN_TILE; }
static inline int attn_tile_rows(int n, int i) {
    return n - i * ATTN_TILE < ATTN_TILE ? n - i * ATTN_TILE : ATTN_TILE;
}

/* The memory of a call on up to N tokens, forward and backward: as `needs` says, and the kit's. */
AttnMemory attn_memory(const AttnMech *m, const void *self, int N);
/* What is enough for either of two, one after the other. */
AttnMemory attn_either(AttnMemory a, AttnMemory b);

/* Rows on both sides of a mechanism, n of them or fewer, (n,d) each. q, k and v are NULL where it
 * has no such projection. */
typedef struct AttnRows {
    real *qkv[3], *r;   /* by AttnProjection; what goes through o, padded (ops/attend.h) */
    real *dqkv[3], *dr; /* backward: 0, to be added to; written by attn_output_backward */
} AttnRows;

/* r is saved; q, k and v too where the shape says so, else they are scratch. */
void attn_layout_rows(AttnRows *rows, const AttnMech *m, const AttnShape *s, AttnMemory *memory,
                      int n, bool backward);

/* q, k and v of x (n,d); from their gradients dx (n,d), which is written, or added to with `add`,
 * and the projections' own, which are added to. */
void attn_project(const AttnCall *c, const AttnRows *rows, const real *x, int n);
void attn_project_backward(const AttnCall *c, const AttnRows *rows, real *dx, bool add,
                           const real *x, int n);

/* Where positions are rotary: q and k of tokens 0 to n - 1 are turned in place. */
void attn_turn(const AttnCall *c, const AttnRows *rows, const AttnShape *s, int n);

/* Both at once, of all tokens: q, k and v from X, or as forward kept them, for mechanisms that have
 * no use for unturned ones; and from the gradients of turned ones dX. */
void attn_open_rows(const AttnCall *c, const AttnRows *rows, const AttnShape *s, bool backward);
void attn_close_rows(const AttnCall *c, const AttnRows *rows, const AttnShape *s);

/* Rows of y, the first n or those that a list names, = r through o, plus those of c->base where
 * that is given; dr from dy (n,d), and o's own gradients are added to. */
void attn_output(const AttnCall *c, const AttnRows *rows, real *y, const int *list, int n);
void attn_output_backward(const AttnCall *c, const AttnRows *rows, const real *dy, int n);

#endif
