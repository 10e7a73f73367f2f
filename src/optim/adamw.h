/* AdamW (Loshchilov, Hutter 2019, arXiv:1711.05101), and the norm of the gradients for clipping.
 * Both walk the flat vector of parameters in fixed chunks, so that the bits do not depend on the
 * number of threads. */
#ifndef OPTIM_ADAMW_H
#define OPTIM_ADAMW_H

#include "core/mem.h"
#include "model/params.h"

typedef struct AdamwConf {
    double beta1, beta2, eps, weight_decay;
} AdamwConf;

typedef struct Adamw {
    const Params *params;
    real *m, *v;       /* (total) first and second moments */
    double *per_chunk; /* partial sums of squares, or the first parameter that overflows */
} Adamw;
void adamw_layout(Adamw *o, Arena *a, const Params *params);

/* The L2 norm over all trained parameters, summed in double. Not finite if any gradient is not. */
double adamw_grad_norm(const Adamw *o, const real *grads);

/* The clipping factor: min(1, clip / (norm + 1e-6)); clip 0: 1. */
double clip_factor(double norm, double clip);

/* Update `step` (1, 2, ...) at learning rate lr, gradients multiplied by `factor`:
 *   p -= lr wd p (decayed parameters);  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *   p -= lr m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps) */
void adamw_update(const Adamw *o, const AdamwConf *conf, real *w, const real *grads, double lr,
                  double factor, int64_t step);

/* The first parameter of which that update would leave values or moments that are not finite; NULL:
 * none. Nothing is changed. Finite gradients have squares that are not. */
const Param *adamw_overflow(const Adamw *o, const AdamwConf *conf, const real *w, const real *grads,
                            double lr, double factor, int64_t step);

#endif
