/* What a run prints before it starts. */
#ifndef TRAIN_BANNER_H
#define TRAIN_BANNER_H

#include "train/loader.h"

/* Every parameter: name, shape, count, whether it is trained and decayed; blocks, which are alike,
 * once. */
void banner_parameters(const Config *c);
void banner_model(const Config *c);
/* Splits, lengths, useful operations; updates. */
void banner_data(const Loader *f, int64_t horizon);
void banner_machine(double peak);
/* Of a job of several ranks. */
void banner_ranks(const TrainConf *c);
/* Bytes that were planned, and about how many of them a run touches. */
void banner_memory(const Config *c, size_t planned);

#endif
