/* A run's directory:
 *
 *   config.json         the resolved config
 *   env.json            what computes: version, compiler, flags, processor, BLAS, threads; and in
 *                       "earlier" what did in the processes before, a list of such objects
 *   metrics.jsonl       a line a report (train/meter.h)
 *   events.out.tfevents.*   the same for TensorBoard, with train.tensorboard
 *   last.safetensors    the state to go on from (train/state.h)
 *   best.safetensors    the state that did best in validation
 *   rollback.safetensors   with train.nan=rollback: the state of the last validation
 *   lock                held by the process at work (io/lock.h) */
#ifndef TRAIN_RUNDIR_H
#define TRAIN_RUNDIR_H

#include <cjson/cJSON.h>

#include "io/file.h"
#include "io/lock.h"

typedef struct RunDir {
    char dir[FILE_PATH_MAX], last[FILE_PATH_MAX], best[FILE_PATH_MAX], rollback[FILE_PATH_MAX];
    char metrics[FILE_PATH_MAX], config[FILE_PATH_MAX], env[FILE_PATH_MAX];
    DirLock lock;
} RunDir;

/* Only names (EX_CANTCREAT if too long). */
bool rundir_name(RunDir *r, const char *dir, Err *err);

/* Whether the directory is missing, empty or a run's (EX_CANTCREAT): files of the user's have the
 * names of ours. A run's has an env.json, which is written first, or what is left of a start that
 * was ended before; one that was copied without it has a checkpoint and no config.json. */
bool rundir_check(const RunDir *r, Err *err);

/* Makes the directory and locks it (EX_CANTCREAT). */
bool rundir_open(RunDir *r, Err *err);
void rundir_close(RunDir *r);

/* Whether a checkpoint of `bytes` can be written (EX_CANTCREAT): writes as many, and takes them
 * away again. */
bool rundir_try_room(const RunDir *r, size_t bytes, Err *err);

/* Whether the directory's config.json, if there is one, is of the same run (EX_CONFIG). */
bool rundir_same_config(const RunDir *r, const cJSON *config, Err *err);

/* Writes env.json, by which the directory is known as a run's, then config.json. */
bool rundir_describe(const RunDir *r, const cJSON *config, const char *command, Err *err);

#endif
