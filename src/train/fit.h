/* Whether trained weights fit a model, in which another attention may be swapped in.
 *
 * Weights are taken by name and shape. Mechanisms have the block's projections in common, so one
 * can be swapped for another on trained weights. Random draws come from the weights where name and
 * shape match, else from train.seed; where nothing of the attention was changed they must be there.
 * What a mechanism trains of its own it cannot lose, and weights without it cannot gain it, but for
 * parameters that are PARAM_APART (CAST's): these are left behind, or drawn, as are surrogates for
 * another number of clusters. A mechanism without one of the projections fits no other. */
#ifndef TRAIN_FIT_H
#define TRAIN_FIT_H

#include "train/config.h"
#include "train/source.h"

/* EX_DATAERR: the file is of another model; EX_CONFIG: what was changed does not go with it. */
bool fit_check(const Config *now, const Source *from, const StFile *f, Err *err);

/* The keys of section "model" that were changed, as config_differences lists them; of another
 * mechanism its name alone, since its keys are others. */
void fit_changes(const Config *now, const Source *from, char *list, size_t size);

/* The attention's parameters that were drawn, and those of the file that found no place, by their
 * names in a block: "surrogate, phi.weight". Empty: none. */
typedef struct FitSwap {
    char drawn[256], left[256];
} FitSwap;
void fit_swapped(FitSwap *s, const Config *now, const StFile *f);

#endif
