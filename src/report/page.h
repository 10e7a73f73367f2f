/* One HTML page that needs nothing but itself: tables, curves, pictures, configs, environments. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/curve.h"
#include "report/table.h"

enum { PAGE_TABLES = 2 };

typedef struct Page {
    const Groups *groups; /* of runs read with their curves */
    const Table *table[PAGE_TABLES];
    const char *heading[PAGE_TABLES]; /* NULL: no such table */
    char *const *paths; /* as they were asked for; viz*.png, viz*.html in them and in the runs */
    int npaths;
    CurveAxis axis;
    CurveBand band;
} Page;

/* Atomically. Without gnuplot the page has no curves, and says so, as does standard error.
 * EX_CANTCREAT, EX_IOERR. */
bool page_write(const Page *p, const char *path, Err *err);

#endif
