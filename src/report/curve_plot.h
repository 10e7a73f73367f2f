/* Plots of curves, and of accuracy over a key of configs. Each writes a Plot's script. */
#ifndef REPORT_CURVE_PLOT_H
#define REPORT_CURVE_PLOT_H

#include "report/curve.h"
#include "report/plot.h"

/* What is drawn for a key: for RUN_LOSS, where all runs are masked training, RUN_BITS. */
int curve_plot_key(const Groups *g, int key);

/* Training as lines, with a band where there are several runs, validation as points. EX_NOINPUT: no
 * run has a line yet. */
bool curve_plot(Plot *p, PlotSize size, const Groups *g, int key, CurveAxis axis, CurveBand band,
                Err *err);

/* Test accuracy of best over a key of configs ("model.attention.clusters"), a line for what else
 * differs; over a logarithm where values are far apart. Groups without a number there are left out.
 * EX_NOINPUT: fewer than two numbers have a finished run; one without is told. */
bool curve_plot_over(Plot *p, PlotSize size, const Groups *g, const char *key, CurveBand band,
                     Err *err);

#endif
