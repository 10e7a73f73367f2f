/* Masked training (Amos et al. 2023, arXiv:2310.02980): which tokens stand where some are masked?
 * A linear layer from the encoder's output at these to the vocabulary, and the cross-entropy. */
#ifndef MODEL_LM_H
#define MODEL_LM_H

#include "model/encoder.h"

/* A tile of masked tokens. */
typedef struct LmScratch {
    int *token, *target; /* (LM_ROWS) their places in the document, and what stood there */
    real *x, *dx;        /* (LM_ROWS,d) */
    real *logits;        /* (LM_ROWS,vocab) */
} LmScratch;
void lm_layout(LmScratch *t, Arena *a, const Model *m);

/* Makes `masked` of n ids TOKEN_MASKED: any of them with the same probability. */
void lm_mask(int *ids, int n, int masked, RngKey key);

typedef struct LmOutcome {
    double loss; /* summed over masked tokens */
    int correct; /* of them */
} LmOutcome;

/* targets (without cls): the id of every token that is TOKEN_MASKED in doc->ids. x (N,d): the
 * encoder's output. The loss is of targets smoothed so (ops/xent.h). With dw adds `scale` times the
 * gradients, and writes the encoder's output's to doc->grad. logits (NULL: not wanted): of token i
 * in row i of (.,vocab); others are untouched. */
LmOutcome lm_step(const Pass *p, Doc *doc, const int *targets, const real *x, LmScratch *t,
                  double scale, double smoothing, real *dw, real *logits);

#endif
