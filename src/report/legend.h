/* The names above a plot, in as many columns as there is room for. */
#ifndef REPORT_LEGEND_H
#define REPORT_LEGEND_H

#include <stdio.h>

/* How many names, and letters of the longest; {0}: none. */
typedef struct Legend {
    int names, longest;
} Legend;

void legend_add(Legend *l, const char *name);

/* How it is set. */
typedef struct LegendFit {
    int columns;   /* 0: it is left out */
    double scale;  /* of its letters */
    double height; /* pixels that it takes, of which other letters are 14 high */
} LegendFit;

/* For a plot of so many pixels. Letters become smaller, down to half, where the longest name is
 * wider than the plot, or the names together are higher than half of it. */
LegendFit legend_fit(const Legend *l, double width, double height);
/* gnuplot's `set key`; the script has `letters`, the size of all others. A legend that had to be
 * left out is told. */
void legend_print(FILE *f, const Legend *l, const LegendFit *fit);

#endif
