/* A training run: from a config to a run directory (train/rundir.h), whatever happens on the way.
 *
 * An update is all or nothing. Its gradients are summed over micro-batches; a signal or a number
 * that is not finite, or would not be after it, drops it whole, before weights, moments or running
 * statistics are touched. So the state that is saved is always one between updates, and a run that
 * goes on computes what an uninterrupted one would have, bit by bit, at any number of threads. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "train/config.h"
#include "train/meter.h"

typedef struct TrainRequest {
    const char *dir;         /* the run's */
    const char *command;     /* that trains the run, kept in env.json: without --stop-at */
    int stop_at;             /* the update after which to stop; 0: the horizon */
    bool dry_run;            /* print what the start prints, and touch nothing */
    bool json;               /* of a dry run: that as JSON, on standard output */
    bool brief;              /* without the tables of parameters and of the machine */
    bool fast;               /* a smoke run (train/fast.h) */
    bool no_test;            /* the run ends without its test */
    bool accept_data;        /* go on with other data than the run began with */
    const MeterAmong *among; /* NULL: a run alone */
} TrainRequest;

typedef enum TrainEnd { TRAIN_DONE, TRAIN_STOPPED } TrainEnd; /* at the horizon, or at stop_at */

/* Goes on by itself where the directory holds a checkpoint of the same config: with the data that
 * this was made with (EX_CONFIG), which are not made anew (EX_NOINPUT), and with a warning where
 * kernels, processor or build are others. EX_DATAERR: data are damaged; nothing that was trained on
 * them is saved. EX_TEMPFAIL: a signal came, the state is saved; EX_SOFTWARE: an update would not
 * be finite, the state before it is saved, or a validation or test is not, and the state at hand
 * is; EX_IOERR: the state, the best one or the results of the test could not be saved, or the
 * run's directory is gone; EX_CANTCREAT, EX_CONFIG, EX_DATAERR, EX_IOERR, EX_NOINPUT, EX_OSERR: it
 * could not start; EX_DATAERR, EX_NOINPUT: or the best weights, or those to go back to, cannot be
 * read. */
bool train_run(const Config *c, const TrainRequest *r, TrainEnd *end, Err *err);

#endif
