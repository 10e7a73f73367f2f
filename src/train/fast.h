/* Smoke runs: does all of it work, from the data to the test? A few updates on a small set of their
 * own, in a directory of their own. Nothing goes on from one, and no report takes it for a result:
 * its env.json says "fast": true. */
#ifndef TRAIN_FAST_H
#define TRAIN_FAST_H

#include "train/config.h"

/* The config with what makes it short, which the overrides may change again; and a set for it,
 * which is generated where the task can be, else of random tokens. Task custom trains on its own
 * data, and any task on those that an override of data.dir names, which must be there (EX_NOINPUT).
 * Errors of config_load and task_generate. */
bool fast_load(Config *c, const char *path, char *const *overrides, int count, Err *err);

/* Whether the directory is of a smoke run. */
bool fast_is_run(const char *dir);

/* For a smoke run in `dir`: leaves nothing of an earlier one to go on from. EX_CANTCREAT: the run
 * there is not a smoke run, by what its env.json says, or is at work; EX_IOERR, EX_NOINPUT. */
bool fast_clear(const char *dir, Err *err);

#endif
