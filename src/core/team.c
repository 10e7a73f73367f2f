/* OpenMP's functions appear in this file alone. */
#define _GNU_SOURCE
#include "core/team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "core/machine.h"
#include "core/stack.h"

/* Turns of a loop that the next part of a step is waited for in: 0.12 ms on a Zen 4, or next to
 * none where threads take turns on processors. */
enum { TURNS = 5000, TURNS_OF_MANY = 50 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    int made;          /* threads, with the program's first */
    _Atomic int awake; /* turns */
    TeamJob *job;
    void *ctx;
    /* Which run it is, and in the low bits of how many threads. Who is in it reads the rest, which
     * does not change before they are done; who is not reads this alone. */
    _Atomic uint64_t run;
    _Atomic int at_work; /* threads of the run, but for the first */
} team = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .begun = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .made = 1};
enum { THREAD_BITS = 16, MOST_THREADS = (1 << THREAD_BITS) - 1 };

static _Thread_local int this_thread;
static _Thread_local int of_threads = 1;

int team_thread(void) { return this_thread; }
int team_size(void) { return of_threads; }

static inline void spin_hint(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

void team_wait(int *turns) {
    enum { ALONE = 1000, YIELDING = ALONE + 200 };
    static const struct timespec nap = {.tv_nsec = 20000};
    ++*turns;
    if (*turns <= ALONE)
        spin_hint();
    else if (*turns <= YIELDING)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

/* ---- threads ---- */

/* In a child that was forked there are none but its own. */
static void forget(void) {
    static const pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    team.lock = lock, team.begun = team.done = cond;
    team.made = 1;
    team.run = 0; /* or new threads would join one of the parent's */
}

/* What threads have by themselves, which is the limit of main's (ulimit -s). */
static void raise_stacks(void) {
    pthread_attr_t a;
    size_t size = STACK_LEAST;
    if (pthread_getattr_default_np(&a) != 0) return;
    pthread_attr_getstacksize(&a, &size);
    if (size < STACK_LEAST && pthread_attr_setstacksize(&a, STACK_LEAST) == 0)
        pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
}

/* OpenMP binds a program's first thread at its start, and the threads that this one makes would be
 * bound with it. */
static void take_all_places(void) {
    cpu_set_t set;
    int ids[CPU_SETSIZE];
    if (omp_get_proc_bind() == omp_proc_bind_false) return;
    CPU_ZERO(&set);
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int n = omp_get_place_num_procs(place);
        if (n > CPU_SETSIZE) continue;
        omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < n; i++) CPU_SET((size_t)ids[i], &set);
    }
    if (CPU_COUNT(&set) > 0) sched_setaffinity(0, sizeof set, &set);
}

void team_open(void) {
    static bool open;
    if (open) return;
    open = true;
    omp_set_num_threads(1);
    raise_stacks();
    take_all_places();
}

/* The next run after `last`. */
static uint64_t next_run(uint64_t last) {
    for (int i = 0; i < team.awake && team.run == last; i++) spin_hint();
    if (team.run != last) return team.run;
    pthread_mutex_lock(&team.lock);
    while (team.run == last) pthread_cond_wait(&team.begun, &team.lock);
    pthread_mutex_unlock(&team.lock);
    return team.run;
}

static void work(int threads) {
    of_threads = threads;
    team.job(team.ctx, this_thread);
    of_threads = 1;
}

static _Noreturn void *serve(void *number) {
    uint64_t run = 0;
    this_thread = (int)(intptr_t)number;
    omp_set_num_threads(1);
    for (;;) {
        run = next_run(run);
        const int threads = (int)(run & MOST_THREADS);
        if (this_thread >= threads) continue;
        work(threads);
        if (--team.at_work > 0) continue;
        pthread_mutex_lock(&team.lock);
        pthread_cond_signal(&team.done);
        pthread_mutex_unlock(&team.lock);
    }
}

bool team_make(int threads, int *made, Err *err) {
    pthread_attr_t a;
    pthread_t thread;
    static bool forgets;
    int why = 0;
    if (!forgets) pthread_atfork(NULL, NULL, forget);
    forgets = true;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    while (!why && team.made < threads && team.made < MOST_THREADS) {
        why = pthread_create(&thread, &a, serve, (void *)(intptr_t)team.made);
        team.made += !why;
    }
    pthread_attr_destroy(&a);
    team.awake = team.made > machine_processors() ? TURNS_OF_MANY : TURNS;
    *made = team.made;
    return team.made >= threads ||
           err_set(err, EX_OSERR, "%d threads: no more than %d can be made: %s", threads, team.made,
                   err_words(why));
}

/* ---- work ---- */

static void begin_run(int threads, TeamJob *job, void *ctx) {
    team.job = job, team.ctx = ctx;
    team.at_work = threads - 1;
    pthread_mutex_lock(&team.lock);
    team.run = ((team.run >> THREAD_BITS) + 1) << THREAD_BITS | (uint64_t)threads;
    pthread_cond_broadcast(&team.begun);
    pthread_mutex_unlock(&team.lock);
}

static void end_run(void) {
    for (int i = 0; i < team.awake && team.at_work > 0; i++) spin_hint();
    if (team.at_work == 0) return;
    pthread_mutex_lock(&team.lock);
    while (team.at_work > 0) pthread_cond_wait(&team.done, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

void team_run(int threads, TeamJob *job, void *ctx) {
    Err err;
    int made;
    if (threads < 2) {
        job(ctx, 0);
        return;
    }
    REQUIRE(team.made >= threads || team_make(threads, &made, &err), "%s", err.text);
    begin_run(threads, job, ctx);
    work(threads);
    end_run();
}
