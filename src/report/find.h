/* Runs named on a command line: run directories, and directories of them, one level or two. */
#ifndef REPORT_FIND_H
#define REPORT_FIND_H

#include "train/run.h"

typedef struct RunSet {
    Run *run;
    int n;
} RunSet;

/* Reads every run in and below `paths`, each once, by name. What is not a run, or cannot be read,
 * is told on standard error, a line each, and left out; lines of metrics that cannot be read are
 * counted there. EX_NOINPUT: no run is left. `curves` as for run_read. */
bool runs_read(RunSet *s, char *const *paths, int n, bool curves, Err *err);
void runs_free(RunSet *s);

/* The paths of the files in `dir` whose names begin with `start` and end in `end`, sorted; to be
 * freed with names_free. */
typedef struct Names {
    char **name;
    int n;
} Names;
void names_in(Names *names, const char *dir, const char *start, const char *end);
void names_free(Names *names);

#endif
