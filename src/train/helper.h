/* Ranks 1, 2, ... of a job: they have an engine as rank 0's, and do with it what it is asked for
 * there (model/crew.h). */
#ifndef TRAIN_HELPER_H
#define TRAIN_HELPER_H

#include "core/err.h"

/* The rest of their main, with so many threads, until rank 0 calls helper_end; deaf to signals,
 * which rank 0 sees to. Returns the exit status. */
int helper_main(const char *program, int threads);
/* Their exit status where that cannot be. A wrong command line is left to rank 0, which has the
 * same one; a rank tells every other error itself. */
int helper_refuse(const char *program, const Err *err);
/* For main of rank 0, whatever came of it. */
void helper_end(void);

#endif
