/* The function f of attention: softmax over a row or a column, or Laplace elementwise
 * (docs/method.md, steps 3, 5, 6 and 7). */
#ifndef OPS_ATTNFN_H
#define OPS_ATTNFN_H

#include "core/real.h"

typedef enum AttnFn { ATTN_SOFTMAX, ATTN_LAPLACE } AttnFn;
#define ATTN_FN_CHOICES "softmax laplace"

/* y = f(x) on R rows of n contiguous elements. y may be x. */
void attnfn_forward(AttnFn f, real *y, const real *x, int R, int n);

/* dx += f'(x) dy; y = f(x) and x are as in the forward pass (softmax reads y, Laplace reads x). */
void attnfn_backward(AttnFn f, real *dx, const real *dy, const real *y, const real *x, int R,
                     int n);

/* The same on columns, which run side by side in vectors: R rows with row stride ld, n columns
 * rounded up to whole vectors, each with a factor of its own. A single row gives 1 to the bit, so
 * that a single cluster's scores tie. y may be x.
 *   y = f(factor[j] x[:,j]);  z = factor x:  dz = f'(z) dy, written. dz may be dy. */
void attnfn_columns(AttnFn f, real *y, const real *x, const real *factor, int ld, int R, int n);
void attnfn_columns_backward(AttnFn f, real *dz, const real *dy, const real *y, const real *x,
                             const real *factor, int ld, int R, int n);

#endif
