/* Locks of directories that one process works in. */
#ifndef IO_LOCK_H
#define IO_LOCK_H

#include "core/err.h"

/* Locks a file, which is made where it is missing and says who holds it, for as long as the
 * descriptor stays open, here or in a child. -1: another process has it, and kept it for `seconds`
 * (EX_CANTCREAT; the message names `what` the lock is for, a directory). Where the file system has
 * no locks that is told, and no error. */
int file_lock(const char *path, const char *what, double seconds, Err *err);

#endif
