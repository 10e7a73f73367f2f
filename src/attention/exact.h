/* Exact softmax attention of every token on all tokens or on a band of them, tiled with an online
 * softmax, as the whole sublayer: R = softmax(Q K^T / tau) V, head by head; Y = R W_o^T + b_o. Keys
 * beyond the band cost nothing. Time O(N w d) of a band of w tokens, memory O(N d).
 * Saved for backward: R [N,d] and the log-sum-exp of each row [h,N]; Q, K and V where kept. */
#ifndef ATTENTION_EXACT_H
#define ATTENTION_EXACT_H

#include "attention/attention.h"
#include "ops/attend.h"

/* As AttnMech.needs, forward, backward and flops of m. */
AttnMemory exact_needs(const AttnMech *m, const AttnShape *s, int N, bool backward);
void exact_forward(const AttnMech *m, const AttnShape *s, AttendBand band, const AttnCall *c);
void exact_backward(const AttnMech *m, const AttnShape *s, AttendBand band, const AttnCall *c);
/* Of a window with each token in its own, first <= 0 <= last: a mechanism with blocks, or whose
 * queries do not see their own key, counts for itself. */
double exact_flops(const AttnShape *s, AttendBand band, int N);

/* Attention of packed queries on packed keys, as jobs, for mechanisms that attend exactly to what
 * they make of queries and keys. The log-sum-exp of each row is saved. */
typedef struct ExactPack {
    AttendPack p;
    real *lse; /* (h,n) */
    bool whole_rows;
} ExactPack;
/* whole_rows: backward has no o (ops/attend.h). */
void exact_layout(ExactPack *x, const AttnShape *s, AttnMemory *memory, int n, int m, bool backward,
                  bool whole_rows);
/* Writes o, which is the caller's, and lse. */
void exact_attend(const AttnCall *c, const ExactPack *x);
/* From o, unless it has none, and go to dq, dk and dv of the pack. */
void exact_attend_backward(const AttnCall *c, const ExactPack *x);

#endif
