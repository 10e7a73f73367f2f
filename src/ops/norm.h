/* The three norms. Rows are tokens; callers may pass any range of rows.
 * Forward overwrites y; backward adds. y and x may be the same buffer in the forward pass. Layer
 * and scale norm make NaN of a row whose squares overflow; batch norm's caller asks for it
 * (model/finite.h). */
#ifndef OPS_NORM_H
#define OPS_NORM_H

#include "core/real.h"

/* y = g (x - mean) rstd + b, row by row; eps is added to the variance.
 *
 *   y           (R,d)  written
 *   mean, rstd  (R)    written, and kept by the caller for backward
 *   x           (R,d)
 *   g, b        (d)
 * Ba, Kiros, Hinton 2016, arXiv:1607.06450. */
void layernorm_forward(real *y, real *mean, real *rstd, const real *x, const real *g, const real *b,
                       real eps, int R, int d);

/* y once more, from the mean and rstd that forward left: for the backward pass, which does not
 * store y. */
void layernorm_again(real *y, const real *mean, const real *rstd, const real *x, const real *g,
                     const real *b, int R, int d);

/* Adds into dx (R,d), dg (d) and db (d). dx must not alias dy. */
void layernorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x,
                        const real *mean, const real *rstd, const real *g, int R, int d);

/* y = g x / max(|x|, eps), one scalar g (Nguyen, Salazar 2019, arXiv:1910.05895).
 *   inv  (R)  written: 1 / max(|x|, eps) */
void scalenorm_forward(real *y, real *inv, const real *x, real g, real eps, int R, int d);

/* Adds into dx (R,d) and dg (1). Where |x| < eps the norm is constant: dx += g dy / eps. */
void scalenorm_backward(real *dx, real *dg, const real *dy, const real *x, const real *inv, real g,
                        real eps, int R, int d);

/* Batch norm (Ioffe, Szegedy 2015, arXiv:1502.03167) couples all tokens of a batch, so it comes in
 * parts that are called for each sequence, with sums over the batch between them.
 *
 * One sequence's own: mean (d) of the rows of x, squares (d): the sum of (x - that mean)^2. The sum
 * of squares around another mean m is R (mean - m)^2 more. R > 0. */
void batchnorm_moments(real *mean, real *squares, const real *x, int R, int d);

/* y = g (x - mean) rstd + b, per feature. mean, rstd, g, b (d). */
void batchnorm_apply(real *y, const real *x, const real *mean, const real *rstd, const real *g,
                     const real *b, int R, int d);

/* dx += g rstd dy, dg += sum over rows of dy xhat, db += sum over rows of dy; and when dg and db
 * are sums over the whole batch, what all rows share of them: dx -= g rstd (db + xhat dg) /
 * population. For a population of one rstd should be 0: these would cancel but for rounding. dx
 * must not alias dy. */
void batchnorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x,
                        const real *mean, const real *rstd, const real *g, int R, int d);
void batchnorm_finish(real *dx, const real *x, const real *mean, const real *rstd, const real *g,
                      const real *dg, const real *db, double population, int R, int d);

#endif
