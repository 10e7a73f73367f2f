/* The state of a run, all that going on bit by bit needs, and its checkpoint: safetensors with
 * every parameter by its name, and
 *
 *   state.m.<parameter>, state.v.<parameter>   AdamW's moments of what trains
 *   state.ema.<parameter>   with train.ema: the averages of all parameters, with which is validated
 *   state.update       I64 [1]  updates made
 *   state.evaluated    I64 [1]  the last update whose validation is complete
 *   state.best_update  I64 [1]  the update of best.safetensors, 0: none
 *   state.best         F64 [2]  its accuracy and loss
 *   state.tally        F64 [5]  sums since the last line of metrics: Tally
 *   state.stale        I64 [1]  with train.patience: validations since the best; left out where 0
 *   state.guard        F64 [4]  what came of numbers that were not finite: Guard (train/guard.h).
 *                               Left out where nothing did, and in what 0.1.0 wrote
 *
 * and metadata: format, config (the resolved config as JSON), crc32, set (of data of one's own:
 * data/facts.h), and what it was made with (train/identity.h). There is no time and no number of
 * threads in it: runs of the same config, data and build have equal files. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include <cjson/cJSON.h>

#include "optim/adamw.h"
#include "train/guard.h"
#include "train/identity.h"
#include "train/score.h"

typedef struct Tally {
    double updates, answers, loss, correct, norm; /* norm: of gradients, summed over updates */
} Tally;

typedef struct State {
    const Params *params;
    real *w, *ema; /* (total) ema: averages of w; NULL without train.ema */
    Adamw adamw;
    int64_t update, evaluated, best_update, stale;
    Score best;
    Tally tally;
    Guard guard;
    Identity identity; /* of the process that made it */
    const char *facts; /* metadata "set", the Config's (data/facts.h), which loading leaves as it
                          is; NULL: none */
} State;

/* Of no updates yet, in a State of zeros; `averages`: with train.ema. */
void state_layout(State *s, Arena *a, const Params *params, bool averages);

/* The averages begin as a copy of the weights. */
void state_begin_averages(State *s);
/* The weights to evaluate with: the averages, where there are any. */
real *state_weights(const State *s);

/* Bytes of a checkpoint's tensors; and of the file, at most. */
size_t state_bytes(const Params *params, bool averages);
size_t state_file_bytes(const Params *params, bool averages, const char *facts);

/* The checkpoint, in the place of an older one; EX_CANTCREAT, EX_IOERR. */
bool state_save(const State *s, const cJSON *config, const char *path, Err *err);

/* Whether a file is a whole checkpoint of this version (EX_DATAERR). Reads every byte. */
bool state_check(const StFile *f, Err *err);

/* Reads the weights to evaluate with from another checkpoint of the run, into state_weights(s)
 * (EX_DATAERR). */
bool state_read_weights(const State *s, const StFile *f, Err *err);

/* The update that a checkpoint is of (EX_DATAERR). */
bool state_update(const StFile *f, int64_t *update, Err *err);

/* The config that it was saved under, to be deleted; NULL and EX_DATAERR: it has none. */
cJSON *state_config(const StFile *f, Err *err);

/* Whether state_load would take it, as far as that can be told before the state is written over:
 * the same errors. */
bool state_may_load(const State *s, const cJSON *config, const char *path, Err *err);
/* EX_NOINPUT; EX_CONFIG for one of a build with other numbers; EX_DATAERR for what is damaged, is
 * not a checkpoint, or belongs to another model or config; s is then undefined. */
bool state_load(State *s, const cJSON *config, const char *path, Err *err);

#endif
