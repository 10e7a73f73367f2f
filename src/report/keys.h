/* Keys of configs by the names that people give them. */
#ifndef REPORT_KEYS_H
#define REPORT_KEYS_H

#include "report/group.h"

/* The whole name of a key that tells runs apart, of that name or, alone, with that last part; valid
 * as long as g. NULL (EX_USAGE, of `option`): there is none, or there are several. */
const char *keys_find(const Groups *g, const char *name, const char *option, Err *err);

#endif
