/* A run's directory:
 *
 *   config.json         the resolved config
 *   env.json            what computes, key by key in docs/files.md; in "earlier" what did in the
 *                       processes before, a list of such objects
 *   metrics.jsonl       a line a report (docs/metrics.md)
 *   events.out.tfevents.*   the same for TensorBoard, with train.tensorboard
 *   last.safetensors    the state to go on from (train/state.h)
 *   best.safetensors    the state that did best in validation
 *   rollback.safetensors   with train.nan=rollback: the state of the last validation
 *   at-<update>.safetensors   with train.keep: those of the last validations (train/kept.h)
 *   lock                held by the process at work (io/lock.h) */
#ifndef TRAIN_RUNDIR_H
#define TRAIN_RUNDIR_H

#include <cjson/cJSON.h>

#include "io/file.h"
#include "io/lock.h"
#include "train/kept.h"

/* last, best, rollback, those kept and the one that takes the oldest's place, and a temporary. */
enum { ROOM_FILES = 4 + KEPT_MOST + 1 };

typedef struct RunDir {
    char dir[FILE_PATH_MAX], last[FILE_PATH_MAX], best[FILE_PATH_MAX], rollback[FILE_PATH_MAX];
    char metrics[FILE_PATH_MAX], config[FILE_PATH_MAX], env[FILE_PATH_MAX];
    char spare[FILE_PATH_MAX]; /* that of a room, while it still has a name */
    DirLock lock;
    int room[ROOM_FILES], rooms; /* files without names, each with the room of a checkpoint */
    size_t checkpoint;           /* bytes of one, at most */
    bool goes_back;              /* rollback.safetensors is one of them */
    int kept;                    /* at-<update>.safetensors there will be, at most */
} RunDir;

/* Only names (EX_CANTCREAT if too long). */
bool rundir_name(RunDir *r, const char *dir, Err *err);

/* Whether the directory is missing, empty or a run's (EX_CANTCREAT): files of the user's have the
 * names of ours. A run's has an env.json, which is written first, or what is left of a start that
 * was ended before. Where it was lost, a checkpoint tells, unless there is a config.json, which may
 * be the user's, and no metrics. None of its files is a link, nor metrics a hard one. */
bool rundir_check(const RunDir *r, Err *err);

/* Makes the directory and locks it (EX_CANTCREAT, EX_IOERR). */
bool rundir_open(RunDir *r, Err *err);
void rundir_close(RunDir *r);

/* Whether there is room for all that a run holds at once: last, best, where it
 * goes back rollback, `kept` of the last validations, and a temporary, of at most `checkpoint`
 * bytes each, and so much of metrics; what is there counts. EX_CANTCREAT tells what is needed and
 * what is free. Nothing is written where the file system can allocate without
 * (posix_fallocate), and nothing stays, whatever ends the process.
 *
 * The room of the checkpoints that are still to come, and of a temporary, is taken from then on: so
 * a run can be saved on a disk that others have filled. That is no promise where the file system
 * cannot allocate, or does not give room back at once, or where others are faster than the save. */
bool rundir_take_room(RunDir *r, size_t checkpoint, size_t metrics, bool goes_back, int kept,
                      Err *err);
/* For a save that found none: gives up that of a checkpoint; false: there is none. */
bool rundir_give_room(RunDir *r);
/* After each save: takes, or gives up, what the next ones will need. False and errno. */
bool rundir_keep_room(RunDir *r);

/* Whether the directory that was opened is still there (EX_IOERR): what another has in its place is
 * not this run's. */
bool rundir_stands(const RunDir *r, Err *err);

/* Whether the directory's config.json, if there is one, is of the same run (EX_CONFIG; EX_NOINPUT).
 */
bool rundir_same_config(const RunDir *r, const cJSON *config, Err *err);

/* Writes env.json, by which the directory is known as a run's, then config.json. `fast`: as a smoke
 * run's. `origin`: of what the first weights were taken from (train/origin.h); NULL: nothing.
 * EX_CANTCREAT, EX_IOERR. */
bool rundir_describe(const RunDir *r, const cJSON *config, const char *command, bool fast,
                     const cJSON *origin, Err *err);
/* Puts `item`, which it takes over, into env.json under `name`, in the place of what is there. The
 * same, and EX_NOINPUT, EX_CONFIG: env.json cannot be read; EX_IOERR: it is not this run's. */
bool rundir_add(const RunDir *r, const char *name, cJSON *item, Err *err);

#endif
