/* How long something takes, without the time in which the process was stopped (SIGSTOP, Ctrl-Z): a
 * run that makes room for others has not trained meanwhile. */
#ifndef TRAIN_STOPWATCH_H
#define TRAIN_STOPWATCH_H

typedef struct Stopwatch {
    double wall, busy; /* by the clock, and the processor's time of this thread; seconds */
    int continued;     /* SIGCONTs until then */
} Stopwatch;

/* From here on, a process that goes on is noticed. */
void stopwatch_on_signals(void);

Stopwatch stopwatch_start(void);

/* By the clock; where the process was stopped since, the processor's time that this thread had,
 * which works or spins for all but little of an update. */
double stopwatch_seconds(const Stopwatch *w);

#endif
