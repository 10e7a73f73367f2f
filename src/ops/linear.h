/* y = base + x W^T + b. W is (out,in) as PyTorch keeps it; forward reads the transposed copy wt
 * (in,out), which the registry of parameters keeps up to date, because that product runs faster
 * (see core/gemm.c). */
#ifndef OPS_LINEAR_H
#define OPS_LINEAR_H

#include <stdbool.h>

#include "core/real.h"

/*   y   (rows,out)  written, row stride ldy
 *   x   (rows,in)   row stride ldx
 *   wt  (in,out)
 *   b   (out)    NULL: none
 *   base (rows,out) row stride ldy, only with b; NULL: none. May not be y */
void linear_forward(real *y, int ldy, const real *x, int ldx, const real *wt, const real *b,
                    const real *base, int rows, int in, int out);

/* dx (rows,in) = dy W, or with `add` dx += dy W. */
void linear_backward_input(real *dx, int lddx, const real *dy, int lddy, const real *w, bool add,
                           int rows, int in, int out);

/* Adds into dw (out,in) and db (out): dW += dy^T x, db += sum over rows of dy. db may be NULL. */
void linear_backward_weight(real *dw, real *db, const real *dy, int lddy, const real *x, int ldx,
                            int rows, int in, int out);

/* Adds the sum over rows of dy into db (out). */
void linear_backward_bias(real *db, const real *dy, int lddy, int rows, int out);

/* t (cols,rows) = transpose of a (rows,cols). */
void transpose(real *t, int ldt, const real *a, int lda, int rows, int cols);

#endif
