/* train.patience: a run ends after so many validations in a row without a new best, as if its last
 * update were made. */
#ifndef TRAIN_PATIENCE_H
#define TRAIN_PATIENCE_H

#include "train/config.h"
#include "train/state.h"

/* Whether what validates may end the run: where it is the test set, it may not (EX_CONFIG). */
bool patience_may_end(const Config *c, Err *err);

/* After a validation. */
void patience_count(const Config *c, State *s, bool best);
bool patience_is_out(const Config *c, const State *s);

#endif
