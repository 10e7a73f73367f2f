/* The file or directory that was meant by a path where nothing is. */
#ifndef IO_MEANT_H
#define IO_MEANT_H

#include "io/file.h"

/* Adds to an error about the path, where nothing is there: the nearest name in the deepest
 * directory of it that is. Returns false. */
bool meant_add(const char *path, Err *err);

#endif
