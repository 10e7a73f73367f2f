/* Softmax cross-entropy, of labels that may be smoothed: `smoothing` s of the target's mass, 0 to
 * less than 1, lies evenly on all K classes, 1 - s more on the label (Szegedy et al. 2016,
 * arXiv:1512.00567, equation 7). */
#ifndef OPS_XENT_H
#define OPS_XENT_H

#include "core/real.h"

/* Returns -sum_k target[k] log softmax(logits)[k]; dlogits (K), where not NULL, += scale * its
 * gradient. */
double xent(real *dlogits, const real *logits, int label, double scale, double smoothing, int K);

/* The index of the largest logit, the lower one on ties. */
int xent_argmax(const real *logits, int K);

/* Of rows x (R,K) with a label each: returns the sum of losses, adds to *correct how many labels
 * are the largest of their row, and leaves scale times the gradient in x. */
double xent_rows(real *x, const int *labels, double scale, double smoothing, int R, int K,
                 int *correct);

#endif
