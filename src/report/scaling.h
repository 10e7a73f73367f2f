/* Speed and memory over length, as `cast_bench CONFIG --lengths ... --mechanisms ... --json` prints
 * them: an object a line, or a CSV with the same names in its first line. A line of a table or plot
 * is a mechanism with its settings, as the rows' configs say them: those that have none, and those
 * whose mechanism is a name that is not their config's, are told apart by that alone. */
#ifndef REPORT_SCALING_H
#define REPORT_SCALING_H

#include <cjson/cJSON.h>

#include "report/plot.h"
#include "report/rows.h"
#include "report/table.h"

enum {
    SCALING_TOKENS,
    SCALING_SAMPLES,    /* a second */
    SCALING_TOKEN_RATE, /* likewise */
    SCALING_GFLOPS,
    SCALING_PEAK_SHARE,
    SCALING_MEMORY, /* MB */
    SCALING_VALUES
};
enum { SCALING_SETTINGS = 2 };
typedef struct ScalingRow {
    char *mechanism;
    cJSON *attention;             /* its keys; NULL: not said */
    char *name;                   /* "cast, clusters 20", where there are others of the mechanism */
    int line;                     /* 0, 1, ... : of which name, in the order of their first rows */
    double value[SCALING_VALUES]; /* NaN: not said */
} ScalingRow;

typedef struct Scaling {
    ScalingRow *row; /* by line, then tokens */
    int n;
    /* Of all rows that name one. */
    char task[ROWS_TASK];
    double setting[SCALING_SETTINGS]; /* threads and batch; 0: not said */
    char *cpu;                        /* NULL: not said */
    cJSON *model;                     /* likewise */
} Scaling;

/* EX_NOINPUT, or EX_DATAERR with the line. */
bool scaling_read(Scaling *s, char *const *paths, int n, Err *err);
void scaling_free(Scaling *s);

void scaling_table(Table *t, const Scaling *s);
/* The exponents of growth of each line's time and memory a sample: slopes of their logarithms over
 * that of the length, by least squares over the longer half of its lengths, with standard errors
 * where there are three or more. */
void scaling_growth(Table *t, const Scaling *s);
void scaling_plot(Plot *p, PlotSize size, const Scaling *s);

#endif
