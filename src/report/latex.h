/* Tables for LaTeX, with booktabs; the best of a task is bold. How wide one will be is found from
 * the widths of Computer Modern's letters at 10 points. */
#ifndef REPORT_LATEX_H
#define REPORT_LATEX_H

#include <stdio.h>

#include "report/table.h"

typedef struct LatexStyle {
    double width; /* millimetres that a page has room for; a warning says what to leave
                     out of a table that is wider */
    const char *caption, *label; /* these make a table environment; NULL: neither */
    bool across;                 /* as wide as a page of two columns (table*) */
} LatexStyle;
void latex_write(const Table *t, const LatexStyle *style, FILE *f);

#endif
