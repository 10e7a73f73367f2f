/* Ranks 1, 2, ... of a job: they have an engine as rank 0's, and do with it what it is asked for
 * there (model/crew.h). */
#ifndef MODEL_HELP_H
#define MODEL_HELP_H

/* For their main: until rank 0 calls help_end. */
void help_rank_0(void);
/* For main of rank 0, whatever came of it. */
void help_end(void);

#endif
