/* Softmax cross-entropy. */
#ifndef OPS_XENT_H
#define OPS_XENT_H

#include "core/real.h"

/* Returns -log softmax(logits)[label]; dlogits (K), where not NULL, += scale * its gradient. */
double xent(real *dlogits, const real *logits, int label, double scale, int K);

/* The index of the largest logit, the lower one on ties. */
int xent_argmax(const real *logits, int K);

/* Of rows x (R,K) with a label each: returns the sum of losses, adds to *right how many labels are
 * the largest of their row, and leaves scale times the gradient in x. */
double xent_rows(real *x, const int *labels, double scale, int R, int K, int *right);

#endif
