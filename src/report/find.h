/* Runs named on a command line: run directories, and directories of them, one level or two. */
#ifndef REPORT_FIND_H
#define REPORT_FIND_H

#include <sys/stat.h>

#include "train/run.h"

typedef struct RunSet {
    Run *run;
    struct stat *place; /* of each run's directory: one is the same under any name */
    int n;
} RunSet;

/* Reads every run in and below `paths`, each once, by name. What is not a run, or cannot be read,
 * is told on standard error, a line each, and left out; lines of metrics that cannot be read are
 * counted there. EX_NOINPUT: no run is left. `curves` as for run_read. */
bool runs_read(RunSet *s, char *const *paths, int n, bool curves, Err *err);
void runs_free(RunSet *s);

#endif
