/* About the inverse of each head's matrix A (L,L), a softmax of rows, by steps of the iteration
 * that Razavi, Kerayechian, Gachpazan, Shateyi 2014 give and Nystromformer uses (arXiv:2102.03902,
 * eq. 11):
 *   Z_0 = A^T / |A|_1 (|A|_inf is 1),  Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4
 * |A|_1 is the largest sum of a column; its gradient goes to the first column that has it. */
#ifndef ATTENTION_PINVERSE_H
#define ATTENTION_PINVERSE_H

#include "attention/attention.h"

typedef struct PInverse {
    int L, steps;
    real *A, *Z; /* saved: (h,L,L); (h,steps + 1,L,L) of each step */
} PInverse;

/* What forward and backward need of a job's scratch is taken from there as well. */
void pinverse_layout(PInverse *p, AttnMemory *memory, int h, int L, int steps, bool backward);

/* A head's A, the caller's to write; and its Z, after forward. */
real *pinverse_input(const PInverse *p, int head);
const real *pinverse_output(const PInverse *p, int head);

/* After forward: the column that |A|_1 is the sum of, which is a choice (attn_trace_choice). */
int pinverse_column(const PInverse *p, int head);

void pinverse_forward(const PInverse *p, int head, Arena scratch);
/* dA (L,L) is written; dZ (L,L) is used up. */
void pinverse_backward(const PInverse *p, int head, real *dA, real *dZ, Arena scratch);

#endif
