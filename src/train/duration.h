/* How long a run is. */
#ifndef TRAIN_DURATION_H
#define TRAIN_DURATION_H

#include "train/loader.h"
#include "train/rundir.h"

/* The updates of the whole training, the horizon of its schedule: train.steps; or with
 * train.petaflops as many as come next to it, one at least, of batches of examples of the mean
 * number of operations; else those of train.epochs. */
int64_t duration_updates(const Loader *f);

/* Refuses (EX_CONFIG) a run that had more updates than `horizon`, or more minutes than
 * train.minutes: it would pass for a shorter one. Minutes as far as metrics.jsonl tells them.
 * `made`: updates so far. */
bool duration_check(const RunDir *dir, const TrainConf *conf, int64_t made, int64_t horizon,
                    Err *err);

#endif
