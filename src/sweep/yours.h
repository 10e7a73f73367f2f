/* What of a job script is its user's: the lines between two that tell so, which are kept when the
 * script is written anew. */
#ifndef SWEEP_YOURS_H
#define SWEEP_YOURS_H

#include <stdio.h>

#include "core/err.h"

enum { YOURS_MOST = 1 << 16 /* bytes between the two */ };

/* Those of the script at `path` into *text, each with its end, to be freed with mem_free; none of
 * one that is missing or has no byte. EX_CANTCREAT: neither of the two lines is there, as in
 * scripts of 0.1.0, and what was changed is not known; EX_DATAERR: one is missing, or there again,
 * or more is between them. Errors of lines_open and lines_next. On error nothing is to be freed. */
bool yours_read(char **text, const char *path, Err *err);

/* Into a script, between the two. */
void yours_print(FILE *f, const char *text);

#endif
