/* Tables for a terminal: no lines around cells, as many columns as there is room for, or those that
 * were chosen; the others are named below. */
#ifndef REPORT_TERMINAL_H
#define REPORT_TERMINAL_H

#include <stdio.h>

#include "report/table.h"

/* `letters`: of a line. */
void terminal_write(const Table *t, int letters, FILE *f);

/* Letters of a line, as COLUMNS or the terminal that standard output is says; 100 where neither
 * does; no fewer than 20. */
int terminal_letters(void);

#endif
