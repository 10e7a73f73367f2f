/* The norms of the model on rows of a document, whichever kind the config asks for. */
#ifndef MODEL_NORMALIZE_H
#define MODEL_NORMALIZE_H

#include "model/doc.h"

#define BATCH_EPS 1e-5
#define BATCH_MOMENTUM 0.1

/* y (n,d) = norm `index` of x (n,d), rows r0.. of the document; and the same y in the backward
 * pass, which does not store it. */
typedef void NormRows(const Pass *p, const Doc *doc, int index, real *y, const real *x, int r0,
                      int n);
NormRows norm_forward, norm_again;

/* dx += the gradient through the norm, and the gradients of its parameters to dw. With batch norm
 * dx is whole after norm_finish, when these are there for the whole batch. */
void norm_backward(const Pass *p, const Doc *doc, int index, real *dx, const real *dy,
                   const real *x, int r0, int n, real *dw);
void norm_finish(const Pass *p, int index, real *dx, const real *x, int n);

#endif
