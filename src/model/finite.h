/* Where numbers stop being finite, in words for messages: the first place in the order of
 * computation. What is infinite or not a number there makes all that comes after it so. */
#ifndef MODEL_FINITE_H
#define MODEL_FINITE_H

#include "model/engine.h"

/* How many of n values are not. */
size_t finite_count_bad(const real *x, size_t n);

/* Whether all parameters are, running statistics among them; else text says of the first:
 * "parameter 'blocks.1.fc1.weight': 3 of its 4096 values are not finite". */
bool finite_params(const Params *p, const real *w, char *text, size_t size);

/* The first of batch norm's running statistics that engine_commit would make not finite; NULL:
 * none. Finite activations have squares that are not. */
const Param *finite_statistics(const Engine *e);

/* Computes a sample again as engine_evaluate does, and names the first activation that is not:
 * "block 1, output of attention". */
void finite_activation(Engine *e, const Sample *s, char *text, size_t size);

#endif
