/* Experiments side by side: are the differences of their test accuracies more than chance? */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include "report/group.h"
#include "report/table.h"

/* A row for each task that both have: tests of the best weights, their standard errors and numbers
 * of seeds, and the difference, example by example where all runs tell of these. `names` of the two
 * head the columns. EX_USAGE: one has several configs of a task; EX_NOINPUT: no task has finished
 * runs of both. On error nothing is to be freed. */
bool compare_table(Table *t, const Groups *a, const Groups *b, char *const names[2], Err *err);

/* Each group beside that of the first run of its task. EX_NOINPUT: as above. */
bool compare_family(Table *t, const Groups *g, const RunSet *set, Err *err);

#endif
