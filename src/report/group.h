/* Runs that differ in nothing but their seed, together; and what tells such groups apart. Where a
 * run begins with the weights of another (train.init), that one's seed may differ as well, and the
 * same data, by their hashes, may lie anywhere (data.dir). */
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

/* A config as a group's values; `all`: with keys that do not tell groups apart, as train.seed. To
 * be deleted. */
cJSON *group_flat(const cJSON *config, bool all);

/* Whether the run is one of the group's. */
bool group_has(const Group *g, const Run *r);
/* NULL: the group has no such key. */
const char *group_value(const Group *g, const char *key);
/* Whether its runs have values of their own, of which that is the first's: of train.init, and of
 * data.dir. */
bool group_value_varies(const Group *g, const char *key);
/* "clusters": a key's last part where that says enough among g's keys ("attention" for
 * "model.attention.type"), else all of it. */
const char *group_key_title(const Groups *g, const char *key);
/* "listops, clusters 16, mechanism sa", without `but` (NULL: with all); to be freed. */
char *group_label(const Groups *g, const Group *group, const char *but);

/* What the directories of its runs are called; with g->each all of the path. To be freed. */
char *group_name(const Groups *g, const Group *group);
/* Whether names say something beside keys: those of a sweep's runs, "clusters=16", do not. */
bool groups_need_names(const Groups *g);

#endif
