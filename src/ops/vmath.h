/* The hot transcendental loops, of vec.h's exp, erf and erfc. Held to a few ULP by
 * tests/ops/test_vmath.c. NaN in gives NaN out, but of the largest of several, where it may be
 * passed over, and with it what came before it. */
#ifndef OPS_VMATH_H
#define OPS_VMATH_H

#include "core/real.h"

/* exp here is exact to 2 ULP from -87 to 88 (double: -708 to 709). Below it stays what it is there;
 * above it the result means nothing. */

/* y[i] = exp(x[i] - shift); returns the sum. y may be x. */
real vmath_exp_sum(real *y, const real *x, real shift, int n);
/* The largest of x[0..n-1], n > 0. */
real vmath_max(const real *x, int n);
/* A tile of rows ld apart; cols is a positive multiple of 16. */
typedef struct VmathTile {
    int rows, cols, ld;
} VmathTile;
/* The largest |x|. */
real vmath_tile_peak(const real *x, VmathTile t);
/* s becomes exp(s - shift), row by row, and sum (rows) the sums of rows. */
void vmath_exp_rows(real *s, real *sum, const real *shift, VmathTile t);
/* Attention's backward pass, p = exp(s - lse): s becomes a p, and dp becomes a p (dp - D). The
 * first is given D; the second computes D = sum_j p_j dp_j. D, lse, a (rows); without a it is 1. s
 * and dp do not overlap. */
void vmath_softmax_grad(real *s, real *dp, const real *D, const real *lse, const real *a,
                        VmathTile t);
void vmath_softmax_rows(real *s, real *dp, real *D, const real *lse, const real *a, VmathTile t);

/* y = x Phi(x), the exact GELU (Hendrycks, Gimpel 2016, arXiv:1606.08415). y may be x. */
void vmath_gelu(real *y, const real *x, int n);
/* y = x Phi(x), and dx = dy (Phi(x) + x phi(x)) in place of dy. y may be x. */
void vmath_gelu_grad(real *dy, real *y, const real *x, int n);

/* L(x) = (1 + erf((x - mu) / (sigma sqrt 2))) / 2, mu = sqrt(1/2), sigma = sqrt(1/(4 pi)): MEGA's
 * attention function (arXiv:2209.10655, eq. 16). y may be x. */
void vmath_laplace(real *y, const real *x, int n);
/* dx += dy L'(x). */
void vmath_laplace_grad(real *dx, const real *dy, const real *x, int n);
/* s becomes a L(s), dp becomes a L'(s) dp; returns sum_i L(s_i) dp_i. */
real vmath_laplace_row(real *s, real *dp, real a, int n);

/* sig = 1 / (1 + e^-x), up = scale * softplus1(x), down = scale * softplus1(-x), with
 * softplus1(x) = 1 + log(1 + e^x) = 1 + max(x, 0) + log(1 + e^-|x|). sig may be x. */
void vmath_softplus1(real *sig, real *up, real *down, const real *x, real scale, int n);

#endif
