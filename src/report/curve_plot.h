/* Plots of curves, and of accuracy over the number of clusters. Each writes a Plot's script.
 * The loss of masked training, where all runs are such, is drawn in bits a token. */
#ifndef REPORT_CURVE_PLOT_H
#define REPORT_CURVE_PLOT_H

#include "report/curve.h"
#include "report/plot.h"

/* Training as lines, with a band where there are several runs, validation as points. EX_NOINPUT: no
 * run has a line yet. */
bool curve_plot(Plot *p, PlotSize size, const Groups *g, int key, CurveAxis axis, CurveBand band,
                Err *err);

/* Test accuracy of best over model.attention.clusters, a line for what else differs. EX_NOINPUT:
 * fewer than two numbers of clusters have a finished run. Groups without one are told. */
bool curve_plot_clusters(Plot *p, PlotSize size, const Groups *g, CurveBand band, Err *err);

#endif
