/* Pictures drawn by gnuplot, a program (Debian: gnuplot-nox), from scripts that hold their data. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <stdio.h>

#include "core/err.h"

typedef struct Plot {
    FILE *f; /* where the script is written: `set` and `plot` commands, and data blocks */
    char *script;
    size_t size;
    int width, height; /* pixels */
} Plot;

/* Starts a script with what all plots share. */
void plot_open(Plot *p, int width, int height);
void plot_free(Plot *p);

/* The colour of line `i`, as gnuplot and SVG write it: readable on white and on black. */
const char *plot_colour(int i);

/* Whether the path ends in .svg or .png (EX_USAGE). */
bool plot_check_path(const char *path, Err *err);

/* Draws into the file, atomically; its end says what it is. `keep`: the script also, as
 * <path>.gnuplot, which `gnuplot SCRIPT` draws again. EX_UNAVAILABLE: there is no gnuplot;
 * EX_SOFTWARE: it refused the script; EX_CANTCREAT, EX_IOERR. */
bool plot_write(Plot *p, const char *path, bool keep, Err *err);

/* Draws as an <svg> element for a page that holds others: without background, its black the text's
 * colour around it, so that it can be read on either ground; ids begin with `prefix`. To be freed
 * with mem_free; NULL: as for plot_write. */
char *plot_svg(Plot *p, const char *prefix, Err *err);

#endif
