/* What a run keeps of its state on the disk (train/rundir.h): the last, the best, with
 * train.nan=rollback that of the last validation, and with train.keep those of the last few. What
 * cannot be written ends no run: it is told, and tried again whenever the last is saved; what never
 * could be, lines of metrics among it, is an error at the end. */
#ifndef TRAIN_KEEP_H
#define TRAIN_KEEP_H

#include "train/meter.h"
#include "train/rundir.h"
#include "train/state.h"

typedef struct Keeper {
    const Config *c;
    RunDir *dir;
    Meter *meter;
    State *state; /* the run's */
    bool saved;   /* it is in last.safetensors */
    bool gone;    /* the run's directory: nothing can be saved any more */
    double next;  /* when it is to be saved, by clock_seconds */
    State best;   /* a copy of its own: the best that could not be written yet, or that is tested */
    bool best_waits; /* to be written */
} Keeper;

/* Memory of the best, touched only when it is needed. */
void keep_layout(Keeper *k, Arena *a, const Params *params, bool averages);

/* Sets when the first save by the clock is due. */
void keep_begin(Keeper *k);

/* False: the directory is gone, and there is no use in going on (EX_IOERR). */
bool keep_last(Keeper *k, Err *err);
/* Tries all again that is not saved; EX_IOERR: it is lost. */
bool keep_at_end(Keeper *k, Err *err);

/* The state that was just validated is the best so far: writes it, and then names it so. What
 * waited to be written is none any more. */
void keep_best(Keeper *k, const Score *score);
/* Other examples validate from here on, the update at hand too if it is one to validate. */
void keep_forget_best(Keeper *k);
/* The update of the best so far, 0 for none. */
int64_t keep_best_so_far(const Keeper *k);

/* Whether it beats that, by train.best. */
bool keep_would_be_best(const Keeper *k, const Score *score);

/* With train.keep: keeps the state that was just validated and, once it is written, removes the
 * oldest beyond train.keep. A failure is told. Call it before keep_last: a state that
 * last.safetensors counts as validated is then always among those kept. */
void keep_validated(Keeper *k);
#define KEEP_ANEW "To start anew, remove the run's directory, or use another --out"
/* Adds to the error of a last.safetensors that is damaged what can be done: the latest whole
 * checkpoint in its place. Returns false. */
bool keep_explain(const Keeper *k, Err *err);
/* Whether a whole checkpoint other than last.safetensors is there, of update 1 or later. */
bool keep_has_left(const Keeper *k);
/* Whether a run without last.safetensors may begin anew. Not where it had one (EX_CANTCREAT), and
 * would write over what is left of it:
 *   - metrics tell of a checkpoint that was written. Of a save that is their last line, and the
 *     first, that is not known: a process may have been killed before it wrote;
 *   - two of train.keep are there, or one is that is later than the first validation, by the
 *     interval of its config or of this one.
 * `an_epoch`: updates of an epoch; 0: not known, and metrics alone are asked. */
bool keep_may_begin(const Keeper *k, int64_t an_epoch, Err *err);
/* With train.keep: removes those of updates that the run, where it goes on from, is still to make,
 * and the oldest beyond as many. */
void keep_forget_later(Keeper *k);

/* With train.nan=rollback: sees to it at the start that there is a state to go back to (EX_IOERR,
 * EX_CANTCREAT), and keeps the one that was just validated. */
bool keep_prepare_rollback(Keeper *k, bool goes_on, Err *err);
void keep_for_rollback(Keeper *k);
/* Whether that is there, whole, and of this run's config. */
bool keep_may_roll_back(const Keeper *k, Err *err);
/* The state becomes that one, but for what is counted of rollbacks; it is saved at once, because a
 * process that was killed would go back from where it was before, and perhaps to a later
 * validation. False: it cannot be read, and the state is undefined. `from` is told. */
bool keep_roll_back(Keeper *k, int64_t from, Err *err);

#endif
