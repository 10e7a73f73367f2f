/* Inverted dropout (Srivastava et al. 2014): an element is kept with probability 1 - p and scaled
 * by 1 / (1 - p). The mask of element i is a function of (key, i): the backward pass draws it
 * again. */
#ifndef OPS_DROPOUT_H
#define OPS_DROPOUT_H

#include <stdint.h>

#include "core/rng.h"

/* x *= mask on elements first..first+n-1, x being the first of them; 0 <= p < 1, 0 does nothing.
 * Also the backward pass, on dx. */
void dropout_apply(real *x, RngKey key, double p, int64_t first, int64_t n);

#endif
