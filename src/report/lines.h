/* The lines of runs' metrics that count (docs/metrics.md), as a table: for other programs. */
#ifndef REPORT_LINES_H
#define REPORT_LINES_H

#include "report/find.h"
#include "report/table.h"

/* Of each run those of training, of validation and of its tests, by rising step: what was done
 * again stands there once. Runs need their curves (run_read). Accuracies in per cent. */
void lines_table(Table *t, const RunSet *set);

#endif
