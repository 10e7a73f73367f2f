/* The table of attention mechanisms. Adding one is a file that defines an AttnMech, its name
 * below and a row in attention.c (CONTRIBUTING.md); it is then configured, listed,
 * gradient-checked, timed and documented by the code that walks the table.
 *
 * A mechanism computes the attention sublayer of one document, from its input X to its output Y;
 * norm, dropout and residual are the encoder's. The block owns the projections q, key, v and o, so
 * that mechanisms can be swapped on trained weights; a mechanism owns what is its own (CAST:
 * surrogates, phi). It allocates nothing, and offers its work as jobs (attn_each). What mechanisms
 * share is the kit, attention/layer.h. */
#ifndef ATTENTION_ATTENTION_H
#define ATTENTION_ATTENTION_H

#include <stdint.h>

#include "core/mem.h"
#include "core/param.h"
#include "io/schema.h"

typedef struct AttnShape {
    int d, h, e;    /* width, heads, d / h */
    int max_tokens; /* the longest sequence the model will see, cls token included */
    int max_length; /* the longest input */
    bool keep;      /* forward leaves q, k and v to backward, which else makes them again */
} AttnShape;

/* The block's projections: y = x W^T + b. */
typedef enum AttnProjection { ATTN_Q, ATTN_K, ATTN_V, ATTN_O, ATTN_PROJECTIONS } AttnProjection;
#define ATTN_HAS(projection) (1u << (projection))
#define ATTN_QKVO (ATTN_HAS(ATTN_Q) | ATTN_HAS(ATTN_K) | ATTN_HAS(ATTN_V) | ATTN_HAS(ATTN_O))
extern const char *const attn_projection_names[ATTN_PROJECTIONS]; /* of parameters: "key" */

typedef struct AttnLinear {
    const real *w, *wt, *b; /* (out,in), (in,out), (out); NULL: the mechanism has no such one */
    real *dw, *db;          /* added to; backward only */
} AttnLinear;

/* What a call works in: `saved` is the same memory in forward and backward; `scratch` is the
 * call's; `job` of a thread that runs jobs. */
typedef struct AttnMemory {
    Arena saved, scratch, job;
} AttnMemory;

/* What a mechanism chose, for pictures, cast_step and gradient checks. NULL: not wanted. */
typedef struct AttnTrace {
    int *clusters;    /* (C,k) of all heads together: token indices, -1 for an empty slot */
    real *affinities; /* (N,C) */
    /* Where each head has groups of its own, in each of its rounds of grouping (of hashing, say):
     * the group of each token, -1 for none; and as a key, where keys are grouped apart. */
    int *groups, *groups_key; /* (h,rounds,stride) */
    int stride;               /* at least N */
    uint64_t *seen;  /* (h,stride,(stride + 63) / 64) bits, all 0 at first: attn_trace_sees */
    real *input;     /* (N,d) what the mechanism read; the encoder's to tell */
    uint64_t digest; /* of all discrete choices, see attn_trace_choice */
} AttnTrace;

/* Where cast_bench wants to know what a mechanism does with its time. */
typedef struct AttnMeter {
    double seconds; /* in the mechanism, without the kit's products */
    double avoided; /* of the block's projections, forward and backward: how many operations a
                       shortcut of the mechanism's left out, less what it takes itself */
} AttnMeter;

typedef struct AttnCall {
    int N, d;
    const real *X;    /* (N,d) */
    real *Y;          /* (N,d) written; forward only */
    const real *rope; /* ops/rope.h, for max_tokens; NULL: other positions */
    const real *base; /* (N,d), not Y: the output is added to it in Y; NULL: nothing */
    const real *dY;   /* (N,d) backward only, as all gradients; else NULL */
    real *dX;         /* (N,d) written */
    AttnLinear proj[ATTN_PROJECTIONS]; /* the block's */
    const real *w;                     /* its own parameters: attn_own */
    real *dw;
    const size_t *own;
    AttnMemory memory; /* as `needs` measured */
    const Arena *jobs; /* `job` of each thread, to share jobs with others from inside a lane; NULL:
                          all are done in place, in memory.job */
    AttnTrace *trace;
    AttnMeter *meter; /* NULL: not wanted */
} AttnCall;

/* The mechanism's own parameter i, in the order of `params`, and its gradient, which is added to;
 * not of one that does not train. */
static inline const real *attn_own(const AttnCall *c, int i) { return c->w + c->own[i]; }
static inline real *attn_own_grad(const AttnCall *c, int i) { return c->dw + c->own[i]; }

typedef struct AttnMech {
    const char *name, *title, *reference;
    const char *time, *memory; /* how they grow with the tokens N */
    const char *swap; /* whether it can take another's place on trained weights, and another its;
                         NULL: it can (train/fit.h) */
    unsigned projections;  /* ATTN_HAS of those that it uses */
    bool keys_are_queries; /* k_j is q_j / |q_j|, and no query sees its own, unless it is alone */
    bool subset; /* a query sees a subset of the keys by themselves, and attn_trace_sees which */
    const ConfigKey *keys; /* NULL: none; offsets into `self` */
    size_t self_size;      /* of `self`, which starts with an AttnShape */
    /* Checks across keys, after they and the shape are in self. NULL: none. */
    bool (*check)(const void *self, const char *where, Err *err);
    /* Describes its own parameters, unless specs is NULL; returns how many. NULL: it has none.
     * Random draws are parameters too, PARAM_DRAWN. */
    int (*params)(const void *self, ParamSpec *specs);
    /* The bytes of each arena, in `used`, for N tokens: never less for more tokens. */
    AttnMemory (*needs)(const void *self, int N, bool backward);
    void (*forward)(const void *self, const AttnCall *c);
    void (*backward)(const void *self, const AttnCall *c);
    /* Multiply-adds of the products that the method needs between the projections, times 2, in the
     * forward pass. */
    double (*flops)(const void *self, int N);
    /* (C,k) of trace->clusters. NULL: its heads have no clusters in common. */
    void (*clusters)(const void *self, int *C, int *k);
    /* The rounds of trace->groups, and whether keys have groups of their own. NULL: no groups. */
    void (*groups)(const void *self, int *rounds, bool *keys);
} AttnMech;

extern const AttnMech attn_cast, attn_full, attn_naive, attn_local, attn_clustered,
    attn_i_clustered, attn_lsh, attn_smyrf, attn_performer, attn_linear, attn_linformer,
    attn_nystrom;

#define ATTN_DEFAULT "cast"
/* Ends with NULL. */
extern const AttnMech *const attn_table[];
const AttnMech *attn_find(const char *name);

/* After the keys were read into self: adds the shape, and checks. */
bool attn_configure(const AttnMech *m, void *self, const AttnShape *shape, const char *where,
                    Err *err);

/* Adds a choice to the digest: that `what` (a token, say) is in `where` (a cluster). Not
 * from a job; the order in which choices are told does not matter. */
void attn_trace_choice(AttnTrace *trace, int where, int what);

/* That a head's query attends exactly to this key: where trace->seen is wanted. Not from a job. */
void attn_trace_sees(AttnTrace *trace, int head, int query, int key);
/* The bits of a query's keys. */
uint64_t *attn_trace_seen(const AttnTrace *trace, int head, int query);

#endif
