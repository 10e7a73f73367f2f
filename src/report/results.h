/* The table of runs: a row a group. */
#ifndef REPORT_RESULTS_H
#define REPORT_RESULTS_H

#include "report/group.h"
#include "report/table.h"

void results_table(Table *t, const Groups *g);

#endif
