/* Curves: a number over training, of groups of runs. */
#ifndef REPORT_CURVE_H
#define REPORT_CURVE_H

#include "report/figures.h"

typedef enum CurveAxis { CURVE_STEPS, CURVE_TIME, CURVE_TOKENS } CurveAxis;
typedef enum CurveBand { CURVE_RANGE, CURVE_SD } CurveBand; /* least to most; +- sd */

/* A point of a line: the mean over n runs, and the band. */
typedef struct CurvePoint {
    double x, y, low, high;
    int n;
} CurvePoint;
CurvePoint curve_point(double x, const Spread *s, CurveBand band);

typedef struct Curve {
    CurvePoint *point;
    int n;
} Curve;
void curve_free(Curve *c);

enum { CURVE_POINTS = 400 }; /* the most that a line of training has */

/* `key`: RUN_LOSS, RUN_BITS or RUN_ACCURACY (then in per cent). Runs need their curves (run_read).
 *
 * Of training: each run is smoothed by a running mean over 2 % of its lines on either side (at its
 * end over those that there are, at its beginning over as few before as behind), then read at up to
 * CURVE_POINTS places, with straight lines between; a place counts the runs that reach it, or all
 * but half a per cent of the way. Of validation: a point a step at which any run was validated, as
 * it is. */
void curve_train(Curve *c, const Group *g, int key, CurveAxis axis, CurveBand band);
void curve_validation(Curve *c, const Group *g, int key, CurveAxis axis, CurveBand band);

#endif
