#define _GNU_SOURCE
#include "core/aside.h"

#include <pthread.h>
#include <time.h>

#include "core/log.h"
#include "core/mem.h"

struct Aside {
    void (*job)(void *ctx);
    void *ctx;
    pthread_t thread;
    bool threaded;
    _Atomic bool done;
};

static void *run_aside(void *aside) {
    Aside *a = aside;
    a->job(a->ctx);
    a->done = true;
    return NULL;
}

Aside *aside_start(void (*job)(void *ctx), void *ctx) {
    Aside *a = mem_alloc(1, sizeof *a);
    a->job = job;
    a->ctx = ctx;
    a->threaded = pthread_create(&a->thread, NULL, run_aside, a) == 0;
    if (!a->threaded) run_aside(a);
    return a;
}

bool aside_done(const Aside *a, double seconds) {
    const double until = clock_seconds() + seconds;
    const struct timespec a_while = {.tv_nsec = 1000000};
    while (!a->done && clock_seconds() < until) nanosleep(&a_while, NULL);
    return a->done;
}

void aside_end(Aside *a) {
    if (a && a->threaded) pthread_join(a->thread, NULL);
    mem_free(a);
}
