/* By how much the tests of two groups differ, and whether that is more than chance. In per cent. */
#ifndef REPORT_DIFFERENCE_H
#define REPORT_DIFFERENCE_H

#include "report/group.h"

/* Of the tests of a group's finished runs, with the weights best in validation. */
typedef struct Side {
    double accuracy;          /* the mean over seeds */
    double of_test, of_seeds; /* its variances; of_seeds of one run: 0, NaN in masked training */
    int seeds;                /* 0: no run is finished, and nothing else is known */
} Side;

typedef struct Difference {
    Side side[2];
    double mean, error; /* of the second to the first; its standard error */
    double from, to;    /* the interval of 95 % */
    double p;           /* of as large a one either way, where there is none */
    bool paired;        /* taken example by example */
    bool alone;         /* a seed each: of these two runs, not of their recipes */
    bool lent;          /* a side of one seed has the spread of the other's */
    bool apart;         /* of other tests: nothing is said, all of these are NaN */
} Difference;

Difference difference_of(const Group *a, const Group *b);

/* The standard error of a side by itself. */
double difference_error(const Side *s);

/* Of n values of p, NaN where there is none, what they are as one family (Holm 1979): the chance to
 * tell any apart of which none differ is no larger. */
void difference_holm(const double *p, double *holm, int n);

#endif
