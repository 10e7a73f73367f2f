/* Files of rows: a JSON object a line. */
#ifndef REPORT_ROWS_H
#define REPORT_ROWS_H

#include <cjson/cJSON.h>

#include "io/lines.h"

/* Takes a row, which becomes its own. False: it is none; `why` says what it lacks. */
typedef bool TakeRow(void *to, cJSON *row, const char **why);

/* Opens a file of rows; `expected` as below. EX_NOINPUT: no file, a directory. */
bool rows_open(Lines *l, const char *path, const char *expected, Err *err);

/* All rows of n files, one at least, of which `expected` says what they are: "points a file of rows
 * was expected, as '...' prints them". EX_NOINPUT: no file, a directory, no row in any; EX_DATAERR,
 * with the line, or an empty file. */
bool rows_read(char *const *paths, int n, const char *expected, TakeRow *take, void *to, Err *err);

/* Whether the row is of the same task as those before, where it names one: `task`, which is "" at
 * first. False: `why` says that it is not. */
enum { ROWS_TASK = 32 };
bool rows_of_one_task(char task[ROWS_TASK], const cJSON *row, const char **why);

/* Whether the row has these n values at `keys`, as far as it and those before it say: 0 in `was`
 * is not said, and becomes the row's. */
bool rows_alike(double *was, const char *const *keys, int n, const cJSON *row);

#endif
