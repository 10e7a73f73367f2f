/* What a run that goes on reads from metrics.jsonl, which is only ever appended to. */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include <stdint.h>

#include "core/err.h"

/* *seconds becomes the training time that the last line up to `update` of kind "train" or "save"
 * tells, 0 without one. Lines of later updates, which an earlier process wrote after its last
 * checkpoint, stay: a line of kind "resume" undoes them for readers (meter.h). A missing file is an
 * empty one. */
bool history_seconds(const char *path, int64_t update, double *seconds, Err *err);

#endif
