/* A group's runs in figures: means over seeds, and how far these are apart. */
#ifndef REPORT_FIGURES_H
#define REPORT_FIGURES_H

#include "report/group.h"

/* Of the values that are numbers. sd: of the sample; NaN of fewer than two, the others of none. */
typedef struct Spread {
    double mean, sd, least, most;
    int n;
} Spread;
Spread spread_of(const double *x, int n);

/* A group's runs in one row. Accuracies in per cent. */
typedef struct Result {
    int runs, finished;
    Spread best, last; /* test of the finished */
    Spread validation; /* the finished runs' best */
    Spread so_far;     /* the best validation of the others */
    Spread bits; /* of masked training, a token: tests of the best; of none done, validations */
    Spread samples_per_s, memory_mb, epochs, hours;
    double parameters, gflop; /* trained; forward and backward of a sample at full length */
    double test_examples;     /* NaN: none was tested */
} Result;
/* A config that the model cannot be made of is told on standard error; parameters and gflop are
 * then NaN. `model`: these are wanted. */
void group_result(Result *r, const Group *g, bool model);

#endif
