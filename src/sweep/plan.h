/* What a sweep is to do: every run of its grid checked, with its directory and how far it is.
 *
 * A sweep's directory has one directory a run (train/rundir.h), and
 *
 *   sweep.json   what all sweeps made here were: config: the file; base: the last one's resolved
 *                config without what is varied; keys: {"model.d": [64, 128]}; seeds: [1, 2]
 *   lock         held by the process at work
 *
 * Another sweep of the same base may be made into it, of more values, keys or seeds. A run is known
 * by its config, whatever its directory is called, so that none is made twice. */
#ifndef SWEEP_PLAN_H
#define SWEEP_PLAN_H

#include <cjson/cJSON.h>

#include "io/file.h"
#include "sweep/grid.h"

typedef enum PlanState {
    PLAN_NEW,
    PLAN_BEGUN,
    PLAN_DONE,
    PLAN_WRONG, /* cannot be run: why */
    PLAN_FAILED /* did not end well: why */
} PlanState;

typedef struct PlanRun {
    char name[GRID_NAME_SIZE]; /* of its directory, in the sweep's */
    PlanState state;
    char *why;
    double work;    /* about how much it takes, in all: useful operations */
    double made;    /* the share of it that was made before this sweep was called */
    double seconds; /* that it took so far */
} PlanRun;

/* seeds NULL: none. */
typedef struct PlanRequest {
    const char *config, *dir, *seeds;
    char *const *lists; /* (nlists) "key=v1,v2,..." */
    int nlists;
    bool elsewhere; /* runs are begun on other machines: what they need is not looked for here */
} PlanRequest;

typedef struct Plan {
    const char *config, *dir; /* the caller's */
    Grid grid;
    PlanRun *runs;  /* (grid.runs) */
    cJSON *record;  /* sweep.json to be */
    cJSON *was;     /* its "base" till now; NULL: nothing was swept here */
    bool recorded;  /* it is so already */
    bool elsewhere; /* as asked */
} Plan;

/* Reads and checks all, and writes nothing. What is wrong with all runs, or with a key or value on
 * its own, is an error (of config_load); a combination that does not go together, or a new run that
 * lacks what it needs (train/begin.h), is PLAN_WRONG. EX_CONFIG too where `dir` holds a sweep or a
 * run of another config, EX_CANTCREAT where it is a run's own, or holds what no sweep has,
 * EX_NOINPUT where it cannot be read, and EX_DATAERR where its sweep.json is none. On error nothing
 * is to be freed. */
bool plan_open(Plan *p, const PlanRequest *r, Err *err);
void plan_close(Plan *p);

/* Makes the directory and writes sweep.json (EX_CANTCREAT, EX_IOERR). */
bool plan_record(const Plan *p, Err *err);

/* The path of a run's directory; plan_open saw to it that it fits. */
void plan_run_dir(const Plan *p, int run, char dir[FILE_PATH_MAX]);
/* Notes how a run ended. */
void plan_failed(Plan *p, int run, PlanState state, const char *why);
int plan_count(const Plan *p, PlanState state);

#endif
