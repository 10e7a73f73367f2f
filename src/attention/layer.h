/* A mechanism between its projections: q, key and v of the tokens that it holds before it, o after
 * it. From a sublayer's input to its output, without norm, dropout and residual. */
#ifndef ATTENTION_LAYER_H
#define ATTENTION_LAYER_H

#include "attention/attention.h"

typedef struct AttnLayer {
    const AttnMech *mech;
    const void *self;
    int d;
    AttnLinear q, k, v, o;
    const real *own[ATTN_PARAMS]; /* the mechanism's parameters, and their gradients */
    real *down[ATTN_PARAMS];
} AttnLayer;

/* What a document keeps from forward to backward. */
typedef struct AttnActs {
    real *qkv[3]; /* (held,d) each, see AttnCall; NULL: made again in backward */
    real *r;      /* (N,d) */
    int *order;   /* (N) the token of each row */
    int N, held;
    RngKey key; /* of the mechanism's draws */
    AttnTap *tap;
    Arena saved; /* the mechanism's */
} AttnActs;
/* keep: q, k and v too. Of many narrow documents at once, which no cache holds, it is quicker not
 * to. */
void attn_acts_place(AttnActs *a, Arena *memory, const AttnLayer *l, int N, bool keep);

typedef struct AttnScratch {
    real *x, *dx;            /* (N,d) the input in the mechanism's order, and its gradient */
    real *dr, *dq, *dk, *dv; /* (N,d), (held,d) */
    real *qkv[3];            /* (held,d) for documents that do not keep them */
    Arena mech;
} AttnScratch;
void attn_scratch_place(AttnScratch *t, Arena *memory, const AttnLayer *l, int N, bool keep);

/* Up to rows of the output on x (N,d), in the mechanism's order. */
void attn_layer_forward(const AttnLayer *l, AttnActs *a, const AttnScratch *t, const real *x);

/* The output's rows are made in tiles, and so is their gradient taken: from row r0 on, at most
 * `most`, that are all held or all not; 0 at the end. */
int attn_rows(const AttnActs *a, int r0, int most);
/* y (n,d): written. */
void attn_layer_output(const AttnLayer *l, const AttnActs *a, real *y, int r0, int n);
void attn_layer_output_backward(const AttnLayer *l, const AttnActs *a, const AttnScratch *t,
                                const real *dy, int r0, int n);

/* When all of the output's gradient was taken: that of x, to t->dx in the mechanism's order. x may
 * lie there. */
void attn_layer_backward(const AttnLayer *l, const AttnActs *a, const AttnScratch *t,
                         const real *x);

/* The parts of both that are the mechanism's own, for who wants to time it: its call on x, its
 * choice, which brings x into its order, and what the backward pass adds to the call. Q, K and V
 * are those of attn_layer_forward; a document that does not keep them must be the last it ran. */
AttnCall attn_layer_call(const AttnLayer *l, const AttnActs *a, const AttnScratch *t,
                         const real *x);
void attn_layer_choose(const AttnLayer *l, AttnActs *a, const AttnScratch *t, AttnCall *c);
void attn_layer_gradients(const AttnLayer *l, const AttnScratch *t, AttnCall *c);

#endif
