/* Published accuracies on Long Range Arena, and ours beside them. */
#ifndef REPORT_PAPERS_H
#define REPORT_PAPERS_H

#include "report/group.h"
#include "report/table.h"

enum { PAPER_TASKS = 6 }; /* the last is Path-X */
extern const char *const paper_tasks[PAPER_TASKS];

typedef struct Paper {
    const char *model;
    double accuracy[PAPER_TASKS]; /* per cent; PAPER_NONE, PAPER_FAIL */
    const char *source;
} Paper;
#define PAPER_NONE (-1.0) /* the source has no figure */
#define PAPER_FAIL (-2.0) /* it has, as "FAIL" or "x": not better than chance, or out of memory */

/* Ends with a NULL model. */
extern const Paper papers[];

/* NaN where a figure that it is made of is missing. Of five: without Path-X. Of six: Path-X counts
 * as 50 where it failed or has no figure. NaN in `accuracy` is as PAPER_NONE. */
double papers_mean_of_five(const double accuracy[PAPER_TASKS]);
double papers_mean_of_six(const double accuracy[PAPER_TASKS]);

/* A row a model; then ours, of each attention mechanism a row for the weights best in validation
 * and one for the last, of each task the group that did best in validation: of those of several
 * seeds, if there is one. */
void papers_table(Table *t, const Groups *g);

#endif
