/* Other processes of this program, and how processes end. */
#ifndef CORE_CHILD_H
#define CORE_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

/* Runs this program with argv, on its own where MPI runs this one, and reads what it prints: *n
 * bytes. SIGCHLD may not be ignored. EX_OSERR: it cannot be begun, prints more than `size`, or its
 * end cannot be waited for; else as child_ended. What it says of errors is on standard error. */
bool child_read(char *const *argv, char *text, size_t size, size_t *n, Err *err);

/* Whether a process ended with 0, by the status of waitpid; err: with what else, EX_SOFTWARE by a
 * signal. */
bool child_ended(int status, Err *err);

#endif
