/* A short convolution over tokens, beside the identity: each column has taps of its own
 * (depthwise), centred, zeros beyond the ends (arXiv:2501.14850).
 *   y_n = x_n + sum_t w[:,t] x_(n + t - (taps - 1) / 2) */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "core/real.h"

/* y and x (N,d), apart: neighbours are read; of y rows n0 to n0 + n - 1 are written; wt (taps,d),
 * transposed; taps is odd. */
void conv_forward(real *y, const real *x, const real *wt, int taps, int n0, int n, int N, int d);

/* Without the identity, of the same rows: y_n += sum_t w[:,t] x_(n + sign (t -
 * half)), half = (taps - 1) / 2. With sign -1 that is the gradient of x from that of y. */
void conv_add(real *y, const real *x, const real *wt, int taps, int sign, int n0, int n, int N,
              int d);

/* dx and dy (N,d), apart; of dx rows n0 to n0 + n - 1 are written. */
void conv_backward_input(real *dx, const real *dy, const real *wt, int taps, int n0, int n, int N,
                         int d);

/* Adds to `columns` rows of dw (d,taps) from `from` on: dw[j,t] += sum_n dy[n,j] x[n + t - (taps -
 * 1) / 2, j]. */
void conv_backward_weight(real *dw, const real *dy, const real *x, int taps, int from, int columns,
                          int N, int d);

#endif
