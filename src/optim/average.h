/* The exponential moving average of weights over updates (Polyak, Juditsky 1992), which often does
 * better in evaluation than the weights themselves. */
#ifndef OPTIM_AVERAGE_H
#define OPTIM_AVERAGE_H

#include "model/params.h"

/* Of update t = 1, 2, ...: min(decay, (1 + t) / (10 + t)). The average begins as a copy of the
 * initial weights, which the lower decays of the first updates let it forget (as TensorFlow's
 * ExponentialMovingAverage with num_updates). */
double average_decay(double decay, int64_t t);

/* average (total) = decay average + (1 - decay) w, in double, of all that updates change: what is
 * trained, and running statistics. The bits do not depend on the number of threads. What is finite
 * stays so. */
void average_update(const Params *p, real *average, const real *w, double decay);

#endif
