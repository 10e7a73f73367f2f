#include "train/stopwatch.h"

#include <signal.h>
#include <stddef.h>

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

/* The count first here and last there: a process mostly stops as it comes back from the kernel,
 * which tells it the time. */
Stopwatch stopwatch_start(void) {
    const int before = continued;
    return (Stopwatch){clock_seconds(), clock_own_seconds(), before};
}

double stopwatch_seconds(const Stopwatch *w) {
    const double wall = clock_seconds() - w->wall, busy = clock_own_seconds() - w->busy;
    return continued == w->continued ? wall : busy;
}
