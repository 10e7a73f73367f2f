/* Speed over cores, as `cast_bench CONFIG --scaling --json` prints it: an object a line. Rows with
 * `hosts` are scripts/scaling.py's, which are predicted. */
#ifndef REPORT_CORES_H
#define REPORT_CORES_H

#include "report/plot.h"
#include "report/table.h"

enum {
    CORES_HOSTS,
    CORES_RANKS,
    CORES_THREADS, /* of a rank */
    CORES_SAMPLES, /* a second */
    CORES_FASTER,
    CORES_EFFICIENCY, /* this and what follows: shares of all threads' time */
    CORES_WAITING,
    CORES_SERIAL,
    CORES_EXCHANGE,
    CORES_SLOWER,
    CORES_VALUES
};
enum { CORES_SETTINGS = 3 };
typedef struct CoresRow {
    char *line; /* what it belongs to: "text", "text, ranks", "text, predicted"; of several
                   mechanisms "text, full" */
    char *mechanism;
    double value[CORES_VALUES];     /* NaN: not said */
    double setting[CORES_SETTINGS]; /* batch, length, threads of the base; 0: not said */
} CoresRow;

typedef struct Cores {
    CoresRow *row; /* as they come */
    int n;
} Cores;

/* EX_NOINPUT, or EX_DATAERR with the line. */
bool cores_read(Cores *s, char *const *paths, int n, Err *err);
void cores_free(Cores *s);

void cores_table(Table *t, const Cores *s);
/* Efficiency over cores. */
void cores_plot(Plot *p, PlotSize size, const Cores *s);

#endif
