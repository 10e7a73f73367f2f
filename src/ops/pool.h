/* From a sequence to one vector: z (d) from x (N,d). */
#ifndef OPS_POOL_H
#define OPS_POOL_H

#include "core/real.h"

typedef enum Pooling { POOL_MEAN, POOL_CLS } Pooling;
#define POOLING_CHOICES "mean cls"

/* mean: the mean of all rows; cls: the first row. */
void pool_forward(real *z, const real *x, Pooling how, int N, int d);

/* Rows r0..r0+R-1 of dx, a range that starts at dx: dx += the gradient of these rows. */
void pool_backward(real *dx, const real *dz, Pooling how, int r0, int R, int N, int d);

/* The features of a pair of documents: y (4d) = [a, b, a*b, a-b]. */
void pair_forward(real *y, const real *a, const real *b, int d);
/* Adds to da and db (d) the gradients that dy (4d) sends back. */
void pair_backward(real *da, real *db, const real *dy, const real *a, const real *b, int d);

#endif
