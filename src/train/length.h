/* How long a run that goes on may be. */
#ifndef TRAIN_LENGTH_H
#define TRAIN_LENGTH_H

#include "train/config.h"
#include "train/rundir.h"

/* A run that had more than it is asked for now would pass for one that had less (EX_CONFIG). Of
 * times as far as lines of metrics tell them. `made`: updates so far, of `horizon`. */
bool length_check(const RunDir *dir, const TrainConf *conf, int64_t made, int64_t horizon,
                  Err *err);

#endif
