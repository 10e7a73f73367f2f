/* The threads that compute. They are made once, and wait for the next work between the parts of a
 * step: at first in a loop, since it comes soon, then asleep. Threads that wait in a loop for long,
 * as OpenMP's may, take the processor from those that they wait for where there are more threads
 * than processors, of other programs too: two runs side by side had less than half of their speed.
 *
 * No pool of OpenMP's, then; but OpenBLAS may be a build that asks OpenMP, in each thread, how many
 * threads a product may take: one (omp_set_num_threads). */
#ifndef CORE_TEAM_H
#define CORE_TEAM_H

#include "core/err.h"

/* Before all else here and in lanes.h, from the program's first thread: its products take one
 * thread, threads have stacks that suffice, and all places are ours, where OMP_PROC_BIND has had
 * OpenMP bind this thread to the first. */
void team_open(void);

/* Makes threads 1 to threads-1, as far as they are not there; the caller of team_run is thread 0.
 * EX_OSERR: the system has no room for them; *made says how many there are, with the caller. */
bool team_make(int threads, int *made, Err *err);

/* job(ctx, thread) for thread = 0..threads-1 at once; returns when all are done. For the program's
 * first thread, and not from inside a job. */
typedef void TeamJob(void *ctx, int thread);
void team_run(int threads, TeamJob *job, void *ctx);

/* Inside a job: which thread this is, and of how many; outside 0 and 1. */
int team_thread(void);
int team_size(void);

/* For who looks again and again whether another thread has come so far; *turns begins as 0. Soon
 * others have the processor in between. */
void team_wait(int *turns);

#endif
