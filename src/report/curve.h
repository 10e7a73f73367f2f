/* Curves: a number over training, of runs and of groups of them; accuracy over the number of
 * clusters. Each writes a script into a Plot. */
#ifndef REPORT_CURVE_H
#define REPORT_CURVE_H

#include "report/group.h"
#include "report/plot.h"

typedef enum CurveAxis { CURVE_STEPS, CURVE_TIME, CURVE_TOKENS } CurveAxis;
typedef enum CurveBand { CURVE_RANGE, CURVE_SD } CurveBand; /* least to most; +- sd */

/* A point of a line: the mean over n runs, and the band. */
typedef struct CurvePoint {
    double x, y, low, high;
    int n;
} CurvePoint;
typedef struct Curve {
    CurvePoint *point;
    int n;
} Curve;
void curve_free(Curve *c);

enum { CURVE_POINTS = 400 }; /* the most that a line of training has */

/* `key`: RUN_LOSS or RUN_ACCURACY (then in per cent). Runs need their curves (run_read).
 *
 * Of training: each run is smoothed by a running mean over 2 % of its lines on either side (at its
 * end over those that there are, at its beginning over as few before as behind), then read at up to
 * CURVE_POINTS places, with straight lines between; a place counts the runs that reach it. Of
 * validation: a point a step at which any run was validated, as it is. */
void curve_train(Curve *c, const Group *g, int key, CurveAxis axis, CurveBand band);
void curve_validation(Curve *c, const Group *g, int key, CurveAxis axis, CurveBand band);

/* Training as lines, with a band where there are several runs, validation as points. EX_NOINPUT: no
 * run has a line yet. */
bool curve_plot(Plot *p, const Groups *g, int key, CurveAxis axis, CurveBand band, Err *err);

/* Test accuracy of best over model.attention.clusters, a line for what else differs. EX_NOINPUT:
 * fewer than two numbers of clusters have a finished run. Groups without one are told. */
bool curve_plot_clusters(Plot *p, const Groups *g, CurveBand band, Err *err);

#endif
