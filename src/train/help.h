/* Ranks 1, 2, ... of a job: they have an engine as rank 0's, and do with it what it is asked for
 * there (model/crew.h). */
#ifndef TRAIN_HELP_H
#define TRAIN_HELP_H

/* The rest of their main, with so many threads, until rank 0 calls help_end; deaf to signals, which
 * rank 0 sees to. Returns the exit status. */
int help_main(const char *program, int threads);
/* For main of rank 0, whatever came of it. */
void help_end(void);

#endif
