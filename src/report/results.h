/* The table of runs: a row a group. */
#ifndef REPORT_RESULTS_H
#define REPORT_RESULTS_H

#include "report/group.h"
#include "report/table.h"

/* `all_keys`: behind its own columns a hidden one for every other key of the configs, called by its
 * last part where nothing else is, for table_select and table_sort to choose from. */
void results_table(Table *t, const Groups *g, bool all_keys);

/* Adds what there is to say below the columns that are left in it. */
void results_notes(Table *t, const Groups *g);

#endif
