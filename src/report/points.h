/* What attentions come to at what cost: rows of JSON, an object a line, as these print them in one
 * line each
 *   cast_bench CONFIG --approximation --json, cast_eval RUN ... --approximation --json,
 *   cast_eval RUN ... --json
 * or others with the same names: `mechanism`, unless config.model.attention.type says it; where to
 * find it, `seconds` of a sample or `flops_share` of exact attention's; what it comes to, `error`,
 * `kept` or `accuracy` (with its standard error `accuracy_error`, or `count` of examples), as
 * shares; and `seeds`. A row's setting is what tells it from others of its mechanism: the keys of
 * config.model.attention that differ between them.
 *
 * Rows of one config, but for its seed, that say by `crc32` that their weights are not the same are
 * one point, which has their means. Full attention's accuracy is that of the same weights; where it
 * is known of no other's, all were trained apart, and it is full attention's own. */
#ifndef REPORT_POINTS_H
#define REPORT_POINTS_H

#include <cjson/cJSON.h>

#include "report/plot.h"
#include "report/rows.h"
#include "report/table.h"

typedef enum PointValue {
    POINT_SECONDS, /* of a sample; what follows is in per cent */
    POINT_FLOPS,
    POINT_ERROR,
    POINT_KEPT,
    POINT_ACCURACY,
    POINT_ACCURACY_ERROR,
    POINT_SEEDS, /* their number */
    POINT_VALUES
} PointValue;

typedef struct Point {
    const char *mechanism;
    const cJSON *attention;     /* its keys; NULL: not said */
    char *setting;              /* "clusters 25, rounds 1" */
    int line;                   /* 0, 1, ... : which mechanism, in the order of their first rows */
    double value[POINT_VALUES]; /* NaN: not said */
    double above, above_error;  /* full attention's accuracy; NaN: not known */
    int weights;                /* that these are means over */
    const char *crc32, *which;  /* the weights of its row, as far as it says */
    cJSON *recipe;              /* its config, flat, without what seeds may differ in */
} Point;

typedef struct Points {
    cJSON **json; /* (rows) what they were read from */
    Point *point; /* (n) by line, then cost */
    int rows, n;
    char task[ROWS_TASK];   /* of all rows that name one */
    const char *split;      /* and the examples of all that have an accuracy, where they say it */
    double count;           /* 0: none does */
    bool has[POINT_VALUES]; /* any of them */
    bool several, apart;    /* weights: of any point; of each mechanism its own */
} Points;

/* EX_NOINPUT, or EX_DATAERR with the line. */
bool points_read(Points *s, char *const *paths, int n, Err *err);
void points_free(Points *s);

void points_table(Table *t, const Points *s);
/* EX_USAGE: no row has a cost. */
bool points_plot(Plot *p, PlotSize size, const Points *s, Err *err);

#endif
