/* The tests at a run's end: of its last weights, and of the best in validation. */
#ifndef TRAIN_FINAL_H
#define TRAIN_FINAL_H

#include "data/verify.h"
#include "train/keep.h"
#include "train/loader.h"
#include "train/run.h"

typedef struct FinalTest {
    const char *which; /* "last" or "best" */
    int64_t update;
    Score score;
    int seen;      /* examples */
    char *correct; /* which of them are right (docs/metrics.md); NULL: not told */
} FinalTest;

typedef struct Final {
    Keeper *keep;
    Meter *meter;
    Loader *loader;
    Verify *verify; /* of the loader's data */
    Engine *engine;
    FinalTest test[RUN_TESTS];
    int n;
} Final;

/* Bytes that `correct` takes in the lines of all tests. The loader must be open. */
size_t final_bytes(const Final *f);
/* Tests and tells, in that order. EX_TEMPFAIL: a signal came; EX_SOFTWARE: a number is not finite;
 * EX_DATAERR, EX_NOINPUT: the data, or the best weights, are not what they were. */
bool final_make(Final *f, Err *err);

#endif
