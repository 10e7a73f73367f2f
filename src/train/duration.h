/* How long a run that goes on may be. */
#ifndef TRAIN_DURATION_H
#define TRAIN_DURATION_H

#include "train/config.h"
#include "train/rundir.h"

/* Refuses (EX_CONFIG) a run that had more updates than `horizon`, or more minutes than
 * train.minutes: it would pass for a shorter one. Minutes as far as metrics.jsonl tells them.
 * `made`: updates so far. */
bool duration_check(const RunDir *dir, const TrainConf *conf, int64_t made, int64_t horizon,
                    Err *err);

#endif
