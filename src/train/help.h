/* Ranks 1, 2, ... of a job: they have an engine as rank 0's, and do with it what it is asked for
 * there (model/crew.h). */
#ifndef TRAIN_HELP_H
#define TRAIN_HELP_H

#include "core/err.h"

/* The rest of their main, with so many threads, until rank 0 calls help_end; deaf to signals, which
 * rank 0 sees to. Returns the exit status. */
int help_main(const char *program, int threads);
/* Their exit status where that cannot be. What is wrong with the command rank 0 says, which has the
 * same one, or mpirun's own words on a status of 64 have to do; of all else a rank tells itself. */
int help_refuse(const char *program, const Err *err);
/* For main of rank 0, whatever came of it. */
void help_end(void);

#endif
