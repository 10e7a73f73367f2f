/* Pictures drawn by gnuplot, a program (Debian: gnuplot-nox), from scripts that hold their data. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <stdio.h>

#include "core/err.h"
#include "report/legend.h"

/* What is asked for, in millimetres; 0: not asked. A plot of a given size is for print: its letters
 * have 8 points, and a PNG 300 pixels an inch. */
typedef struct PlotSize {
    double width, height;
} PlotSize;

typedef struct Plot {
    FILE *f; /* where the script is written: `set` and `plot` commands, and data blocks */
    char *script;
    size_t size;
    int width;      /* pixels, where letters are 14 high */
    PlotSize drawn; /* millimetres */
    bool print;     /* a size was asked for */
} Plot;

/* Starts a script with what all plots share: 800 pixels wide, 440 high and what the legend takes;
 * both give way to a size that was asked for. */
void plot_open(Plot *p, PlotSize size, const Legend *legend);
/* The same for so many panels, each with the legend: beside each other where there is room, else
 * below. Data blocks and what all panels share may follow; the first `plot` begins the first panel.
 */
void plot_panels(Plot *p, PlotSize size, int panels, const Legend *legend);
void plot_panels_end(Plot *p, int panels);
void plot_free(Plot *p);

/* The colour of line `i`, as gnuplot and SVG write it: readable on white and on black. */
const char *plot_colour(int i);

/* How line `i` is drawn, " lw ... lc ... dt ...", and its points, " pt ...": without colours they
 * still differ. Later lines are thinner and broken, so that they hide none. */
void plot_line_style(FILE *f, int i);
void plot_point_style(FILE *f, int i);
/* Both, and its name in the legend: the end of a line with points in a `plot` command. */
void plot_line_end(FILE *f, int i, const char *name);

/* Whether the path ends in .svg, .png or .pdf (EX_USAGE). */
bool plot_check_path(const char *path, Err *err);

/* Draws into the file, atomically; its end says what it is. `keep`: the script also, as
 * <path>.gnuplot, which `gnuplot SCRIPT` draws again. EX_UNAVAILABLE: there is no gnuplot,
 * or it refused the script; EX_CANTCREAT, EX_IOERR, EX_OSERR. */
bool plot_write(Plot *p, const char *path, bool keep, Err *err);

/* Draws as an <svg> element for a page that holds others: without background, its black the text's
 * colour around it, so that it can be read on either ground; ids begin with `prefix`. To be freed
 * with mem_free; NULL: as for plot_write. */
char *plot_svg(Plot *p, const char *prefix, Err *err);

#endif
