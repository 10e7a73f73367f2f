/* What a run reports while it works: a progress line for people, and metrics.jsonl for programs.
 *
 * metrics.jsonl has a line every train.log_every updates:
 *   kind           "train"
 *   step, epoch    updates made; epochs, with their fraction
 *   accuracy, loss, grad_norm   means since the last such line: of samples (in masked training of
 *                  masked tokens), of these, and of updates that were made; null if none was
 *   bits           in masked training: loss / ln 2; in the lines below too
 *   lr             of this update
 *   samples_per_s, tokens_per_s
 *   gflops         useful ones, as model_flops counts them, times 3: forward and backward
 *   peak_share     gflops over the measured peak of the threads
 *   seconds        of training since the run began, earlier processes counted, evaluations not
 *   rss_mb         the most memory that was the process' own, as far as its reports saw
 *   mapped_mb      mapped files in memory, the data set among them
 * one a validation:
 *   kind "val", step, epoch, accuracy, loss, count (of examples), seconds (that it took)
 * two at the end of the run:
 *   kind "test", step and epoch (of these weights), which ("last" or "best"), accuracy, loss, count
 * before these, where train.patience ended it:
 *   kind "patience", step, epoch, seconds, stale (validations since the best)
 * one for each update that was not finite and that the run went on from, with train.nan:
 *   kind "skip", step (of the update that was left out), epoch, seconds, skipped (in all), in_a_row
 *   kind "rollback", step, epoch, seconds: the run goes back to there; from (the update that was
 *   not finite, or whose validation was not), rollbacks (in all), rate (factor on the learning
 *   rate from here on). What stands above of later steps is outdone
 * and of the process itself:
 *   kind "save", step, epoch, seconds: what a checkpoint stands for, just before it is written
 *   kind "resume", step, epoch, seconds: a process goes on from there, or begins anew with step 0:
 *   what stands above of later steps, and all tests, are outdone
 *   kind "change", step, epoch, what, was, now: behind "resume", a line of each part that is not
 *   what the checkpoint was made with; what: "data.train", "data.val", "data.test" (hashes, with
 *   --accept-data), "kernels", "processor" or "build" (train/identity.h)
 * The file is only ever appended to. A run that goes on from a checkpoint writes again what came
 * after it, and a finished run that is called again tests again: readers take the last line of each
 * kind and step (of tests: each `which`), and leave out lines that a crash tore.
 *
 * With train.tensorboard the same is in event files (io/events.h), as train/loss, train/accuracy,
 * train/lr, train/grad_norm, train/samples_per_s, val/accuracy, val/loss, test_last/accuracy ... */
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
    bool failing;       /* the last line could not be written */
} Meter;

/* Counts an update that was made, of `work`; the state's tally has it already. Draws the progress
 * line, and writes a line and starts a new tally where one is due. */
void meter_update(Meter *m, State *s, const Work *work, double lr, double norm);

/* Measures the peak, again if that is a while ago: the best counts, since other programs may have
 * had the processor. */
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
/* Whether the line was written. */
bool meter_test(Meter *m, const char *which, int64_t update, const Score *score, int count);

#endif
