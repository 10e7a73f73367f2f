#define _GNU_SOURCE /* pthread_getattr_np, pthread_setattr_default_np */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <omp.h>

#include "core/stack.h"
#include "core/team.h"

enum { MOST = 24 };

/* What threads saw of themselves. */
typedef struct Seen {
    int runs[MOST], thread[MOST], size[MOST], products[MOST];
    size_t stack[MOST];
} Seen;

static void look(void *ctx, int thread) {
    Seen *s = ctx;
    pthread_attr_t a;
    s->runs[thread]++;
    s->thread[thread] = team_thread();
    s->size[thread] = team_size();
    s->products[thread] = omp_get_max_threads(); /* what OpenBLAS takes for a product */
    if (pthread_getattr_np(pthread_self(), &a) != 0) return;
    pthread_attr_getstacksize(&a, &s->stack[thread]);
    pthread_attr_destroy(&a);
}

/* Where the limit of main's stack is small, too. */
static void stacks_are_large_enough(void **state) {
    Seen s = {{0}};
    (void)state;
    team_run(3, look, &s);
    for (int i = 1; i < 3; i++) assert_in_range(s.stack[i], STACK_LEAST, SIZE_MAX);
}

/* Runs of any size behind each other, of threads that sleep in between or not. */
static void every_thread_once(void **state) {
    static const int sizes[] = {1, 2, MOST, 3, 1, 7, MOST, MOST, 2};
    static const struct timespec nap = {.tv_nsec = 3000000};
    (void)state;
    for (int round = 0; round < 300; round++) {
        const int n = sizes[round % (int)(sizeof sizes / sizeof *sizes)];
        Seen s = {{0}};
        if (round % 50 == 0) nanosleep(&nap, NULL);
        team_run(n, look, &s);
        assert_int_equal(team_thread(), 0);
        assert_int_equal(team_size(), 1);
        for (int i = 0; i < MOST; i++) {
            assert_int_equal(s.runs[i], i < n);
            if (i >= n) continue;
            assert_int_equal(s.thread[i], i);
            assert_int_equal(s.size[i], n);
            assert_int_equal(s.products[i], 1);
        }
    }
}

static void nothing(void *ctx, int thread) { (void)ctx, (void)thread; }

/* Seconds of all threads on processors. */
static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Who waits for long leaves the processors to others: in a loop a thread would have used the tenth
 * of a second. (Of more threads than processors none waits in a loop for long.) */
static void waiting_threads_sleep(void **state) {
    static const struct timespec nap = {.tv_nsec = 100000000};
    (void)state;
    team_run(2, nothing, NULL);
    const double before = used();
    nanosleep(&nap, NULL);
    assert_true(used() - before < 0.05);
}

/* The others are not in a child, which makes its own. */
static void a_forked_child_has_its_own(void **state) {
    int status = -1;
    Seen before = {{0}};
    (void)state;
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
    skip(); /* it takes no threads behind a fork of several */
#endif
#endif
    team_run(4, look, &before);
    const pid_t child = fork();
    if (child == 0) {
        Err err;
        int made;
        static const struct timespec nap = {.tv_nsec = 10000000};
        Seen s = {{0}};
        alarm(60);
        team_make(4, &made, &err);
        nanosleep(&nap, NULL); /* in which they could join a run of the parent's */
        team_run(4, look, &s);
        _exit(before.runs[1] == 1 ? s.runs[0] + s.runs[1] + s.runs[2] + s.runs[3] : 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_threads_sleep),
        cmocka_unit_test(stacks_are_large_enough),
        cmocka_unit_test(every_thread_once),
        cmocka_unit_test(a_forked_child_has_its_own),
    };
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 17);
    pthread_setattr_default_np(&small);
    pthread_attr_destroy(&small);
    team_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
