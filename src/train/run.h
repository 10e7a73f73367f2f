/* What a run directory tells (train/rundir.h), its metrics among it (docs/metrics.md). */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "io/file.h"

/* The numbers of a line of metrics.jsonl, by their keys there; NaN: the line has it not. */
enum {
    RUN_EPOCH,
    RUN_LOSS,
    RUN_BITS, /* of masked training */
    RUN_ACCURACY,
    RUN_SAMPLES_PER_S,
    RUN_TOKENS_PER_S,
    RUN_SECONDS,
    RUN_RSS_MB,
    RUN_COUNT,
    RUN_KEYS
};
typedef struct RunLine {
    int64_t step;
    double value[RUN_KEYS];
} RunLine;

typedef struct RunLines {
    RunLine *line; /* by rising step, of each the last that was written */
    int n;
} RunLines;

enum { RUN_LAST, RUN_BEST, RUN_TESTS };

/* So many examples of a test are told one by one. */
enum { RUN_MOST_ANSWERS = 200000 };

typedef struct Run {
    char dir[FILE_PATH_MAX];
    cJSON *config, *env;     /* env NULL: not there, or damaged */
    RunLines train, val;     /* val: by the examples that validate now (cast_train --accept-data) */
    RunLine test[RUN_TESTS]; /* of last.safetensors and best.safetensors */
    char *correct; /* which examples best.safetensors has right (run_answer); NULL: not told */
    bool tested[RUN_TESTS]; /* with a finite loss: 0.1.0 tested what was not a number too */
    RunLine mark;           /* the last "save", "resume" or "rollback"; step 0: none */
    bool saving, saved;     /* a "save" was read; and what tells that a checkpoint was written */
    int64_t patience;       /* the update at which train.patience ended it; 0: it did not */
    bool data_changed;      /* it went on with other data: cast_train --accept-data */
    int unread; /* lines that could not be read: a crash tore them, or they were edited */
} Run;

/* `curves`: all lines of training; else the last one before each line of another kind, which is
 * much faster. A run without metrics is one that has not begun. EX_NOINPUT: no such directory, or
 * not a run's; EX_DATAERR: its config.json is damaged (a damaged env.json is told, and as if it
 * were not there). On error nothing is to be freed. */
bool run_read(Run *r, const char *dir, bool curves, Err *err);
/* Whether the directory is a run's: it has a config.json. */
bool run_is_there(const char *dir);
/* The same; EX_NOINPUT, with those in it, if it holds runs. */
bool run_check_there(const char *dir, Err *err);
/* Whether it is none, and several are in it. */
bool run_are_in(const char *dir);
void run_free(Run *r);

/* A number of the config, "model.attention.clusters", or `other`. */
double run_number(const Run *r, const char *path, double other);

/* What env.json tells of train.init (train/origin.h), of the process that began the run; NULL:
 * nothing. */
const cJSON *run_init(const Run *r);

/* The best line of validation by train.best (score_beats) among those with a finite loss, as
 * training chooses best.safetensors; NULL: none. */
const RunLine *run_best(const Run *r);

/* How far training is: step, and of the values epoch and seconds. Step 0: nothing is reported. */
RunLine run_made(const Run *r);
/* The updates of the whole training; with train.minutes, at most. 0: not known yet, of a run in
 * epochs that has written nothing, or not told, of one in operations without its env.json. */
int64_t run_updates(const Run *r);
/* Whether it is trained to its end. */
bool run_trained(const Run *r);
/* Whether it came to its end, both final tests included. They are the last that a run writes: a
 * sweep that is killed after them never comes back to tidy up. */
bool run_done(const Run *r);
/* Whether best.safetensors has an example of the test right, of a run that tells. */
bool run_answer(const Run *r, int example);
/* Training samples in a second, over the whole run; NaN: not known. */
double run_samples_per_s(const Run *r);

/* Of a run that goes on: *seconds becomes the training time that the last line up to `update` of
 * kind "train" or "save" in this metrics.jsonl tells, and *told its update; 0 without one or
 * without a file. */
bool run_seconds(const char *metrics, int64_t update, double *seconds, int64_t *told, Err *err);
/* The same up to the update that it goes on from, of which a "save" tells: says so where lines are
 * lost. */
bool run_seconds_made(const char *metrics, int64_t update, double *seconds, Err *err);

#endif
