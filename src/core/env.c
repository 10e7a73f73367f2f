#include "core/env.h"

#include <stdlib.h>

int env_positive(const char *name) {
    const char *s = getenv(name);
    char *end;
    const long v = s ? strtol(s, &end, 10) : 0;
    return s && end != s && (*end == 0 || *end == ',') && v > 0 && v < 65536 ? (int)v : 0;
}
