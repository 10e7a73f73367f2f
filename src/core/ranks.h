/* The processes of a job: one; or under mpirun, in a build with MPI=1, several ranks. Rank 0 is the
 * program, and alone reads, prints and writes; the others help it (model/crew.h). All of MPI lives
 * behind this file, and moves bytes: no sum is left to it, whose order is its own.
 *
 * Whoever fails to come through ends the job with a message, as does a rank, and so its host, that
 * says nothing for RANKS_SILENCE seconds (CAST_SILENCE in rank 0's environment: other seconds):
 * every rank has a thread that says every second that it is there. Seconds in which the listener
 * was stopped, as the whole job may be for a while, do not count. */
#ifndef CORE_RANKS_H
#define CORE_RANKS_H

#include <stddef.h>

#include "core/err.h"

enum { RANKS_SILENCE = 30, RANKS_HOST = 64 };

/* For main, once, before the others. `processors`: that this process may run on, which is held
 * against what its host has. Started by mpirun as several processes without MPI in the
 * build is an error (EX_USAGE): each would be a program of its own. EX_CONFIG, of rank 0: another
 * rank is of another version or build, which would give other bits. EX_UNAVAILABLE: this MPI will
 * not do, or the environment is another job's; EX_OSERR: there is no thread. */
bool ranks_open(int processors, Err *err);
/* For main, last: waits for the other ranks'. */
void ranks_close(void);

/* Until ranks_open: one, and this is it. */
int ranks_count(void);
/* For rank 0, while the others wait for its orders: for now it counts as all there are. What one
 * rank does can so be measured beside what all do. */
void ranks_alone(bool alone);
int ranks_me(void);
/* All ranks, of so many threads each, have so many times the processors that one of them has: as
 * many times as there are ranks, unless those of a host, taken to be as this one, have more threads
 * than it has processors. */
double ranks_times(int threads);
/* For rank 0, once: warns where they have. */
void ranks_warn(int threads);
/* Before ranks_open, and without MPI, as mpirun tells it: how many processes it has started, 0
 * where it is not there, and which of them this is. */
int ranks_started(void);
int ranks_will_be(void);
/* For a process that a rank has forked, and that is none: takes what mpirun said out of its
 * environment. */
void ranks_leave(void);
/* Whether no earlier rank runs on this one's host. */
bool ranks_first_here(void);
/* Where a rank runs, as the host calls itself. */
const char *ranks_host(int rank);

/* From rank 0 to all others, of the same size on every rank. */
void ranks_broadcast(void *data, size_t bytes);
/* The same of a few bytes that may take long to come: a rank that waits leaves its processor. */
void ranks_order(void *data, size_t bytes);
/* To and from one other; what is sent first is received first. */
void ranks_send(int to, const void *data, size_t bytes);
void ranks_receive(int from, void *data, size_t bytes);

/* What was broadcast, sent and received here so far: bytes, and seconds in these functions, which
 * wait for the others too. */
typedef struct RanksMeter {
    double bytes, seconds;
} RanksMeter;
RanksMeter ranks_meter(void);

#endif
