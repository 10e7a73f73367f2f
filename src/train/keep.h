/* What a run keeps of its state on the disk (train/rundir.h): the last, the best, and with
 * train.nan=rollback that of the last validation. What cannot be written ends no run: it is told,
 * and tried again. */
#ifndef TRAIN_KEEP_H
#define TRAIN_KEEP_H

#include "train/meter.h"
#include "train/rundir.h"
#include "train/state.h"

typedef struct Keeper {
    const Config *c;
    const RunDir *dir;
    Meter *meter;
    State *state; /* the run's */
    bool saved;   /* it is in last.safetensors */
    double next;  /* when it is to be saved, by clock_seconds */
} Keeper;

/* Sets when the first save by the clock is due. */
void keep_begin(Keeper *k);

void keep_last(Keeper *k);
/* Unless it is saved already; EX_IOERR: it is lost. */
bool keep_last_at_end(Keeper *k, Err *err);

/* Of the state that was just validated: writes it as the best, and names it so. */
bool keep_best(Keeper *k, const Score *score);

/* With train.nan=rollback: sees to it at the start that there is a state to go back to (EX_IOERR,
 * EX_CANTCREAT), and keeps the one that was just validated. */
bool keep_prepare_rollback(const Keeper *k, bool goes_on, Err *err);
void keep_for_rollback(const Keeper *k);
/* The state becomes that one, but for what is counted of rollbacks; it is saved at once, because a
 * process that was killed would go back from where it was before, and perhaps to a later
 * validation. False: it cannot be read, and the state is undefined. `from` is told. */
bool keep_roll_back(Keeper *k, int64_t from, Err *err);

#endif
