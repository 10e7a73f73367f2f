/* The table of attention mechanisms. Adding one is a file that defines an AttnMech, and a row in
 * attention.c; it is then configured, listed, gradient-checked, timed and documented by the code
 * that walks the table.
 *
 * The block owns the projections q, key, v and o (layer.h), so that mechanisms can be swapped on
 * trained weights; a mechanism owns what is its own (CAST: surrogate, phi). It works on one
 * sequence, on one thread, and allocates nothing. */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include "core/mem.h"
#include "core/param.h"
#include "core/rng.h"
#include "io/schema.h"

enum { ATTN_PARAMS = 4 };

typedef struct AttnShape {
    int d, h, e;    /* width, heads, d / h */
    int max_tokens; /* the longest sequence the model will see, cls token included */
    int max_length; /* the longest input */
} AttnShape;

/* What pictures and cast_step read: a mechanism that clusters copies here what it computed. NULL:
 * not wanted. */
typedef struct AttnTap {
    int *clusters;    /* (C,k): token indices, -1 for an empty slot */
    real *affinities; /* (N,C) */
} AttnTap;

/* A projection of the block: y = x W^T + b. */
typedef struct AttnLinear {
    const real *w, *wt, *b; /* (out,in), (in,out), (out) */
    real *dw, *db;          /* added to; backward only */
} AttnLinear;

/* A mechanism may hold some of the tokens, and rows come in its order: tokens that are held, then
 * the others. */
typedef struct AttnCall {
    int N, held;
    const real *X;              /* (N,d) the attention's own input. choose: in the tokens' order */
    const real *Q, *K, *V;      /* (held,d), heads side by side: (held,h,e) */
    real *R;                    /* (N,d) forward: written. backward: as forward left it. Rows of
                                   others are output already: projected by o, without its bias */
    AttnLinear q, k, o;         /* for what a mechanism makes of others */
    const real *w[ATTN_PARAMS]; /* its own parameters */
    RngKey key;                 /* equal in forward and backward */
    Arena saved,
        scratch; /* as `needs` measured; saved is the same memory in forward and backward */
    AttnTap *tap;
    const real *dR;          /* (N,d) of R as it is: others' rows of the output. Backward only,
                                like all below */
    real *dX, *dQ, *dK, *dV; /* (N,d), (held,d); added to */
    real *dw[ATTN_PARAMS];   /* added to */
} AttnCall;

typedef struct AttnNeeds {
    size_t saved, forward, backward; /* bytes: kept from forward to backward, and scratch of each */
} AttnNeeds;

typedef struct AttnMech {
    const char *name, *title, *reference;
    const ConfigKey *keys; /* NULL: none; offsets into `self` */
    size_t self_size;      /* of `self`, which starts with an AttnShape */
    /* Checks across keys, after they and the shape are in self. NULL: none. */
    bool (*check)(const void *self, const char *where, Err *err);
    /* Describes its own parameters, at most ATTN_PARAMS; returns how many. NULL: it has none. */
    int (*params)(const void *self, ParamSpec *specs);
    AttnNeeds (*needs)(const void *self, int N);
    /* Before forward, from X, q, k and w alone, with the same saved and scratch: writes the tokens
     * that it holds, ascending, then the others, to `order` (N), and returns how many it holds; or
     * 0: it holds all, and Q, K and V come in the tokens' order. NULL: always so. */
    int (*choose)(const void *self, AttnCall *c, int *order);
    void (*forward)(const void *self, AttnCall *c);
    void (*backward)(const void *self, AttnCall *c);
    /* Multiply-adds of the products that the method needs, times 2, in the forward pass. */
    double (*flops)(const void *self, int N);
    /* Of these and their backward pass, how many are never executed, projections of tokens that
     * are not held among them. NULL: none. */
    double (*spared)(const void *self, int N, int held);
    /* (C,k) of tap->clusters. NULL: it does not cluster. */
    void (*clusters)(const void *self, int *C, int *k);
} AttnMech;

extern const AttnMech attn_cast, attn_full, attn_naive;

/* Ends with NULL. */
extern const AttnMech *const attn_table[];
const AttnMech *attn_find(const char *name);

/* After the keys were read into self: adds the shape, and checks. */
bool attn_configure(const AttnMech *m, void *self, const AttnShape *shape, const char *where,
                    Err *err);

/* `flops` of exact attention: scores, and values. */
double attn_exact_flops(const void *self, int N);

#endif
