/* All threads that compute (core/team.h) live behind this file. (core/aside.h has one that waits
 * for the disk, core/ranks.h one that listens.)
 *
 * Work is dealt to lanes, and threads take lanes in order; a lane is computed by one thread from
 * start to end, with the help of threads that have none left where it shares out parts of its work.
 * What a lane computes never depends on the number of threads, so neither do the bits of the
 * result. */
#ifndef CORE_LANES_H
#define CORE_LANES_H

#include "core/mem.h"

/* Sets the number of threads; 0: OMP_NUM_THREADS, else the physical cores that this process may use
 * (affinity, a control group's quota, SLURM_CPUS_PER_TASK). Returns the number chosen. For main,
 * once.
 */
int lanes_open(int threads);
int lanes_threads(void);
/* The processors that this process may run on: more threads than these take turns. */
int lanes_processors(void);
/* After lanes_open: whether that many threads can be made, on stacks that suffice (EX_OSERR). Says
 * so where they are more than the processors. */
bool lanes_start(Err *err);

/* job(ctx, lane, thread) for lane = 0..lanes-1, on no more threads than lanes; thread is in
 * 0..lanes_threads()-1. */
typedef void LaneJob(void *ctx, int lane, int thread);
void lanes_run(int lanes, LaneJob *job, void *ctx);

/* The same on all threads, few as the lanes may be: who has none left helps, see lanes_share. */
void lanes_run_sharing(int lanes, LaneJob *job, void *ctx);

/* From inside a lane: job(ctx, part, thread) for part = 0..parts-1, in any order and at once, on
 * this thread and on those that help. What parts write is disjoint, and no part shares out parts of
 * its own. `finish` (NULL: none) comes for each part after its job, on the same
 * thread, in ascending order and one at a time: sums in it do not depend on who ran what. Returns
 * when all is done. */
typedef void PartJob(const void *ctx, int part, int thread);
void lanes_share(int parts, PartJob *job, PartJob *finish, const void *ctx);

/* What becomes of threads' time while it is measured (NULL: it is not, which costs nothing). */
typedef struct LanesMeter {
    double runs; /* seconds of all lanes_run and lanes_sum together */
    double busy; /* of these, what all threads together spent in jobs */
} LanesMeter;
void lanes_measure(LanesMeter *m);

/* Gradients: every lane adds into a buffer of its own, and buffers are summed pairwise in a tree
 * fixed by the number of lanes alone, each pair as soon as both are done. It begins as zeros. */
typedef struct LanePool {
    real *base;      /* (lanes, stride); pages are touched only when a buffer is needed */
    size_t stride;   /* reals of a buffer */
    int lanes;       /* most lanes at a time */
    const int *cuts; /* (ranks + 1) rank r has lanes cuts[r]..cuts[r+1]-1, rank 0 the first of all
                        (core/ranks.h); NULL: all are ours */
    int *free_list, nfree; /* buffers that no lane holds */
    int *home;             /* per buffer: the thread that touched it first, -1: none did yet */
    int *slot;             /* per node of the tree: its buffer, -1 until it is done */
    double seconds;        /* that the last lanes_sum took, without other ranks' sums */
    double sum_seconds;    /* the least that one of these took, a real; 0: there was none yet */
} LanePool;
void lanepool_layout(LanePool *p, Arena *a, int lanes, size_t reals);

/* Runs job for every lane, sharing, with a buffer whose elements from..to-1 are 0 at the start;
 * afterwards adds the sum over lanes of these elements to total[from..to-1]. Of several ranks each
 * does its lanes, what they have is added in the same tree, and rank 0 alone gets the total. */
typedef void LaneSumJob(void *ctx, int lane, int thread, real *sum);
void lanes_sum(LanePool *p, int lanes, LaneSumJob *job, void *ctx, real *total, size_t from,
               size_t to);

#endif
