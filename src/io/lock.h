/* Locks of directories that one process works in at a time, held until they are released or the
 * last process ends that has them: a child has those of its parent.
 *
 * It is the directory itself that is locked, and, for people and for version 0.1.0, which knew no
 * other lock, the file `lock` in it, which tells who works there. That may be deleted meanwhile. */
#ifndef IO_LOCK_H
#define IO_LOCK_H

#include "core/err.h"

typedef struct DirLock {
    int dir, file; /* descriptors; -1: none */
    bool passing;  /* the file goes with the lock */
} DirLock;
#define LOCK_NONE                                                                                  \
    { -1, -1, false }

/* Of a directory that is there; what another process has is waited for so many seconds. False:
 * EX_CANTCREAT, it is in use, or its `lock` is a link or no file of ours. Where the file system has
 * no locks that is told, and no error. */
bool lock_take(DirLock *l, const char *dir, double seconds, Err *err);
/* However long that takes, and with a file that is there only as long; nothing where this process
 * has the directory already, or the file system has no locks. */
void lock_wait(DirLock *l, const char *dir);
void lock_release(DirLock *l);

/* Whether `dir` still is the directory that was locked, as far as can be told. */
bool lock_stands(const DirLock *l, const char *dir);

#endif
