/* Learning rate over updates s = 1, 2, ... Adding a schedule is a row in schedule.c. */
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* NULL: the table has no such row. */
const char *schedule_name(int schedule);

/* Whether it is laid out over all updates, up to the horizon. */
bool schedule_ends(int schedule);

/* The factor on the base rate: warm-up min(1, s/w) times
 *   constant: 1
 *   linear, cosine: from 1 to 0 between w and the horizon
 *   rsqrt: sqrt(w / max(s, w)), w at least 1 */
double schedule_factor(int schedule, int64_t s, int64_t warmup, int64_t horizon);

#endif
