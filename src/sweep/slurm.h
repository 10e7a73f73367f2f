/* The job script of a sweep, for Slurm: an array job with a task a run, each of which calls this
 * program with --only; a task that is stopped is queued again. */
#ifndef SWEEP_SLURM_H
#define SWEEP_SLURM_H

#include "sweep/plan.h"

/* Into `path`. r: what the plan was made of; threads: of a run, 0: as cast_train chooses.
 * EX_CANTCREAT, EX_IOERR. */
bool slurm_write(const char *path, const Plan *p, const PlanRequest *r, int threads, Err *err);

#endif
