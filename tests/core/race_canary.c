/* A race planted on purpose, through the project's own threads: built with MODE=tsan only, where
 * the runner fails unless ThreadSanitizer reports it. */
#include <sched.h>
#include <stdio.h>

#include "core/lanes.h"

enum { THREADS = 2 };
static int arrived;
static volatile long total; /* volatile, so that the compiler keeps every access */

/* A lane waits for the other one, or on a busy machine a single thread might do both. Relaxed, so
 * that the meeting orders nothing. */
static void meet(void) {
    __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < THREADS) sched_yield();
}

static void add_unprotected(void *ctx, int lane, int thread) {
    (void)ctx, (void)thread;
    meet();
    for (int i = 0; i < 10000; i++) total += lane;
}

int main(void) {
    lanes_open(THREADS);
    lanes_run(THREADS, add_unprotected, NULL);
    printf("%ld\n", total);
    return 0;
}
