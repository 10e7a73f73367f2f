/* The job script of a sweep, for Slurm: an array job with a task a run, each of which calls this
 * program with --only, or on several nodes cast_train under mpirun; a task that is stopped is
 * queued again. */
#ifndef SWEEP_SLURM_H
#define SWEEP_SLURM_H

#include "sweep/plan.h"

typedef struct SlurmJob {
    int threads; /* of a run, or of each of its ranks; 0: as cast_train chooses */
    int nodes;   /* of a run, with a rank each */
} SlurmJob;

/* Into `path`, with the lines of the script there that are the user's own (sweep/yours.h). r: what
 * the plan was made of. EX_USAGE: "-"; EX_CANTCREAT, EX_IOERR, EX_OSERR; errors of yours_read. */
bool slurm_write(const char *path, const Plan *p, const PlanRequest *r, const SlurmJob *job,
                 Err *err);

/* Whether it would, as far as that hangs on what is there. */
bool slurm_may_write(const char *path, Err *err);

#endif
