/* SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask a run to save and stop. The handler only sets a flag,
 * which training looks at after every micro-batch, and evaluation after every batch. A second
 * signal has its usual effect at once, unless it comes with the first: timeout(1) and job systems
 * signal a program and then its process group. SIGUSR2 asks a run to save and to go on. */
#ifndef TRAIN_STOP_H
#define TRAIN_STOP_H

#include <stdbool.h>

/* At the start of the program: a reader of our output that goes away, or a limit on file sizes, is
 * an error of the write and not the end of the program. And the signals above end it also where it
 * is a container's first process, for which the kernel has no usual effect of them. */
void stop_at_start(void);

/* For a process that another ends: signals to all of a job are that one's to obey. */
void stop_ignore_signals(void);

/* From here on, SIGUSR2 is for stop_take_save; also in processes that are forked from here on. */
void stop_on_save_signal(void);
/* Whether it has come; since it was last taken. */
bool stop_save_asked(void);
bool stop_take_save(void);

/* From here on, signals set the flag. Those that were ignored when the program started (nohup, a
 * shell's background job) stay so. */
void stop_on_signals(void);

/* Before stop_on_signals: the flag becomes one with that of processes that are forked from here on:
 * a signal to any asks all. A process's second signal still is its own second. */
void stop_share(void);
/* In such a process, before anything else: signals have their usual effect again, until it calls
 * stop_on_signals. */
void stop_in_child(void);
/* Whether the process forked last looks at the flag by now. Before the fork, stop_no_child, which
 * also forgets a save that the process before was asked for. */
bool stop_child_listens(void);
void stop_no_child(void);

/* "SIGTERM" if that has come, else NULL. */
const char *stop_asked(void);

#endif
