/* What tells a row of JSON from others of its mechanism: the keys of config.model.attention. */
#ifndef REPORT_SETTINGS_H
#define REPORT_SETTINGS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "report/group.h"

/* These keys of a row; NULL: it has none. What a version before lacked is added to its config, so
 * that a key of today does not tell it from rows that have its default. */
const cJSON *settings_of(cJSON *row);

/* Whether both say the same, or neither anything. */
bool settings_same(const cJSON *a, const cJSON *b);

/* "clusters 25, rounds 1": the keys whose values are others in one of these n, which are those of
 * all rows of a mechanism and may be NULL. To be freed. */
char *settings_text(const cJSON *own, const cJSON *const *all, int n);

/* The same of a group of runs: those of its mechanism's keys that are not at their defaults, and
 * not among the keys of g, which tables have columns of. To be freed. */
char *settings_of_group(const Groups *g, const Group *group);

#endif
