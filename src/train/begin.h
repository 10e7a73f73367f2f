/* What a run needs to begin, looked at before anything is made or opened for it. */
#ifndef TRAIN_BEGIN_H
#define TRAIN_BEGIN_H

#include "train/config.h"

/* Memory for what an update touches whatever it reads: weights, moments and gradients (EX_OSERR).
 */
bool begin_memory(const Config *c, Err *err);

/* Data, which are there or can be made (EX_NOINPUT). */
bool begin_data(const Config *c, Err *err);

/* Both, examples for an update (EX_CONFIG; as far as the data are there), and the weights that
 * train.init names (origin_open). */
bool begin_check(const Config *c, Err *err);

/* The examples of the training file; 0: it is not there yet. */
int64_t begin_examples(const Config *c);

#endif
