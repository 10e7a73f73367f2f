#include "core/commit.h"

#ifndef CAST_COMMIT
#define CAST_COMMIT ""
#endif

const char *commit_here(void) { return CAST_COMMIT; }
