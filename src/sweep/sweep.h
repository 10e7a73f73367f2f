/* A sweep: the runs of a plan, one after the other, each in a process of its own, so that whatever
 * ends one of them ends it alone. */
#ifndef SWEEP_SWEEP_H
#define SWEEP_SWEEP_H

#include "sweep/plan.h"

typedef struct SweepRequest {
    PlanRequest plan;
    const char *command; /* that called this program: how to go on */
    int threads;         /* of a run; 0: as cast_train chooses */
    int only;            /* run 1, 2, ... alone; 0: all */
    int rank, ranks;   /* of several processes that mpirun has started, each takes runs by turns */
    bool dry_run;      /* print what is to be done, and touch nothing */
    const char *slurm; /* write a job script there, and run nothing; NULL: none */
    int nodes;         /* that it asks for, a run */
} SweepRequest;

/* *failed: how many runs failed, or cannot be run; where none is to be made, 0. False: EX_TEMPFAIL,
 * a signal came, and the same sweep goes on from there; EX_IOERR: its directory is gone; else
 * the sweep could not start. */
bool sweep_run(const SweepRequest *r, int *failed, Err *err);

#endif
