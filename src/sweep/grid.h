/* The grid of a sweep: keys with lists of values, and the cross product of these.
 *
 * Run 0, 1, ... : all combinations for the first seed, then for the next; among them the key that
 * was given last changes first. Of several mechanisms a key of model.attention goes to those that
 * have it, if one has: the others have one run where these have one a value. */
#ifndef SWEEP_GRID_H
#define SWEEP_GRID_H

#include "core/err.h"

#define SEED_KEY "train.seed"
enum { GRID_MOST_RUNS = 10000, GRID_NAME_SIZE = 256 };

typedef struct GridKey {
    char *key;
    int n;             /* values, each once */
    char **assignment; /* (n) "key=value", as given */
    char **text;       /* (n) the value in one form: 1e-3 and 0.001 are both 0.001 */
    bool listed;       /* given with several values, or by --seeds */
    bool named;        /* part of the runs' names */
} GridKey;

typedef struct Grid {
    GridKey *keys;
    int nkeys, runs;
    int *product; /* (runs) which of all combinations a run is, counted in this order */
    bool seeded;  /* the last key is train.seed, of --seeds */
} Grid;

/* `lists`: count strings "key=v1,v2,...", split at commas outside brackets, braces and quotes;
 * `seeds`: "1..5", "1,3,9" or both, NULL: none. EX_USAGE. On error nothing is to be freed. */
bool grid_open(Grid *g, char *const *lists, int count, const char *seeds, Err *err);
void grid_free(Grid *g);

/* Which value (0, 1, ...) of a key a run has; -1: none, its mechanism has no such key. */
int grid_value(const Grid *g, int run, int key);
/* The run's overrides, "key=value" each, into (nkeys) pointers; returns how many. */
int grid_overrides(const Grid *g, int run, char **overrides);
/* The same for all keys that are not listed; returns how many. */
int grid_plain(const Grid *g, char **overrides);

/* Lets names tell this key, if it is in the grid, though it has one value here. */
void grid_name_key(Grid *g, const char *key);
/* "clusters=16,seed=2": the keys that are named, each by the shortest end of it that is no other's.
 * Other characters than A-Z a-z 0-9 . _ + - become _; where that or a great length lost something,
 * '@' and a hash of the whole follow, so that no two runs have one name. "run" without keys. */
void grid_name(const Grid *g, int run, char name[GRID_NAME_SIZE]);

#endif
