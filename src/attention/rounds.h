/* What mechanisms that hash share: exact attention between chunks of queries and keys that are
 * sorted, head by head, in several rounds, whose results are merged with weights by their
 * log-sum-exp. That is one softmax over all keys that a query meets, as often as it meets them; so
 * backward needs the log-sum-exp of all rounds together alone, and treats each round by itself. */
#ifndef ATTENTION_ROUNDS_H
#define ATTENTION_ROUNDS_H

#include "attention/layer.h"
#include "ops/attend.h"

enum { ROUND_QUERIES, ROUND_KEYS };

typedef struct Rounds {
    const AttnShape *s;
    const AttnCall *call;
    int N, rounds;
    AttendBand band;      /* of sorted queries and keys */
    const AttnRows *rows; /* q, v; r is written, dq and dv are added to */
    const real *k;        /* (N,d) */
    real *dk;             /* (N,d) added to */
    int *order[2];        /* (rounds,h,N) saved: tokens in the order of queries, of keys; one
                             memory where these are the same */
    real *lse;            /* (h,N) saved */
} Rounds;

/* `apart`: keys have an order of their own. */
void rounds_layout(Rounds *o, const AttnShape *s, AttnMemory *memory, int N, int rounds, bool apart,
                   bool backward);

/* One order: of a round and a head. */
static inline int *rounds_order(const Rounds *o, int side, int round, int head) {
    return o->order[side] + (size_t)(round * o->s->h + head) * (size_t)o->N;
}

void rounds_forward(const Rounds *o);
/* From rows->dr. */
void rounds_backward(const Rounds *o);

/* Tells the chunk of each token, `size` of which follow each other in an order. */
void rounds_trace(const Rounds *o, int size);

#endif
