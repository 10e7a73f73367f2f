/* What programs read: one line of JSON a report, appended to metrics.jsonl.
 *
 *     metrics_begin(&m);
 *     metrics_int(&m, "step", step);
 *     metrics_real(&m, "loss", loss);
 *     if (!metrics_end(&m, err)) ...
 *
 * A line is written by a single write, so that a reader sees whole lines only. One that the disk
 * refuses is kept, and written with the next. */
#ifndef IO_METRICS_H
#define IO_METRICS_H

#include <stdio.h>

#include "core/err.h"

typedef struct Metrics {
    int fd; /* -1: closed, which metrics_close takes too */
    char *path;
    FILE *line; /* the line being built, in `text` */
    char *text;
    size_t size;
    char *waiting; /* lines that the disk refused, and the one that ended last */
    size_t nwaiting, cap;
} Metrics;

/* Creates the file (EX_CANTCREAT), or appends: a last line torn by a crash is first ended
 * (EX_IOERR). Follows no link. */
bool metrics_open(Metrics *m, const char *path, Err *err);
void metrics_close(Metrics *m);

/* Keys are added in order, each once. NaN and infinities are written as null, other numbers with as
 * many digits as `real` has. */
void metrics_begin(Metrics *m);
void metrics_int(Metrics *m, const char *key, long long value);
void metrics_real(Metrics *m, const char *key, double value);
void metrics_text(Metrics *m, const char *key, const char *value);
/* Writes the line, behind those that were refused (EX_IOERR: of them as many as there is room for,
 * and none in part). */
bool metrics_end(Metrics *m, Err *err);
/* Tries again what was refused. */
bool metrics_flush(Metrics *m, Err *err);
/* Before a checkpoint is written: lines up to here outlast a loss of power where it does. */
void metrics_sync(const Metrics *m);

#endif
