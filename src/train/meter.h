/* What a run reports while it works: a progress line for people, and for programs metrics.jsonl,
 * which docs/metrics.md describes line by line, and TensorBoard's event files (io/events.h).
 * Readers take the last line of each kind and step, leave out what a line of kind "resume" or
 * "rollback" undoes, and lines that a crash tore. What changed is told in the words of
 * train/identity.h.
 */
#ifndef TRAIN_METER_H
#define TRAIN_METER_H

#include "io/events.h"
#include "io/metrics.h"
#include "train/config.h"
#include "train/state.h"

typedef struct Work {
    double seconds, samples, tokens, flops; /* flops: of forward and backward */
} Work;

/* A run among several that are made one after the other: its place heads the progress line. */
typedef struct MeterAmong {
    int number, count;         /* "run 3 of 10" */
    double before, own, after; /* work of the runs before, of this one, of those after: any unit */
} MeterAmong;

typedef struct Meter {
    Metrics file;
    Events events; /* closed without train.tensorboard */
    const TrainConf *conf;
    const MeterAmong *among;         /* NULL: a run alone */
    int64_t horizon, end, per_epoch; /* end: the last update that this process will make */
    int64_t every;                   /* updates between validations */
    double validation, tests;        /* samples of a validation, and of all tests at the end */
    double peak;                     /* GFLOP/s */
    double peak_measured;            /* when */
    int peaks;                       /* how often */
    double seconds;                  /* of training in all */
    double most_own;                 /* bytes: the most memory of our own seen */
    Work now, before;                /* since the last report, and of the one before */
    Tally tally_before;
    double shown, kept; /* when the progress line was last drawn, and last kept in a log */
    bool failing, events_failing; /* the last line could not be written */
} Meter;

/* Counts an update, of `work`, that was made, which the state's tally has already, or left out.
 * Draws the progress line, and writes a line and starts a new tally where one is due. */
void meter_update(Meter *m, State *s, const Work *work, double lr, double norm);

/* Measures the peak, again if that is a while ago: the best counts. */
void meter_peak(Meter *m);

/* Whether training has had the minutes that the config gives it. */
bool meter_time_is_up(const Meter *m);

/* A line of kind "save" or "resume". */
void meter_mark(Meter *m, const char *kind, int64_t update);
/* A line of kind "patience": the run ends. */
void meter_patience(Meter *m, const State *s);
/* A line of kind "skip", or "rollback", of the state as it is then. */
void meter_skip(Meter *m, const State *s);
void meter_rollback(Meter *m, const State *s, int64_t from);
/* Lines of kind "change". */
void meter_changes(Meter *m, int64_t update, const Identity *was, const Identity *now);
void meter_validation(Meter *m, int64_t update, const Score *score, int count, double seconds);
void meter_test(Meter *m, const char *which, int64_t update, const Score *score, int count,
                const char *correct);

#endif
