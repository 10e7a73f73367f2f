/* Runs that differ in nothing but their seed, together; and what tells such groups apart. Where a
 * run begins with the weights of another (train.init), that one's seed may differ as well. */
#ifndef REPORT_GROUP_H
#define REPORT_GROUP_H

#include "report/find.h"

typedef struct Group {
    char *task; /* "listops"; of masked training "listops, masked": no result of the task */
    bool masked;
    const char *type; /* of its attention; NULL: its config has none */
    const Run **run;
    int n;
    cJSON *values; /* flat: "model.attention.clusters" has the text 16 */
} Group;

typedef struct Groups {
    Group *group; /* by task, then by what differs */
    int n;
    char **key; /* those that tell groups of one task apart, in the order of configs */
    int nkeys;
    bool each, tasks; /* tasks: there are several */
} Groups;

/* `each`: a group a run, whatever their configs. The runs stay the caller's. */
void groups_make(Groups *g, const RunSet *set, bool each);
void groups_free(Groups *g);

/* Whether the run is one of the group's. */
bool group_has(const Group *g, const Run *r);
/* NULL: the group has no such key. */
const char *group_value(const Group *g, const char *key);
/* "clusters": a key's last part where that says enough among g's keys ("attention" for
 * "model.attention.type"), else all of it. */
const char *group_key_title(const Groups *g, const char *key);
/* "listops, clusters 16, mechanism sa", without `but` (NULL: with all); to be freed. */
char *group_label(const Groups *g, const Group *group, const char *but);

/* What the directories of its runs are called; with g->each all of the path. To be freed. */
char *group_name(const Groups *g, const Group *group);
/* Whether names say something beside keys: those of a sweep's runs, "clusters=16", do not. */
bool groups_need_names(const Groups *g);

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
