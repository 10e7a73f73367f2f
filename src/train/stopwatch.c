#include "train/stopwatch.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "core/log.h"

static volatile sig_atomic_t continued;

static void on_continue(int number) {
    (void)number;
    continued++;
}

void stopwatch_on_signals(void) {
    struct sigaction act = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGCONT, &act, NULL);
}

static double busy_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The count first here and last there: a process mostly stops as it comes back from the kernel,
 * which tells it the time. */
Stopwatch stopwatch_start(void) {
    const int before = continued;
    return (Stopwatch){clock_seconds(), busy_seconds(), before};
}

double stopwatch_seconds(const Stopwatch *w) {
    const double wall = clock_seconds() - w->wall, busy = busy_seconds() - w->busy;
    return continued == w->continued ? wall : busy;
}
