/* With train.keep: checkpoints of a run's last validations, at-<update>.safetensors in its
 * directory, ten digits, so that they sort by update. */
#ifndef TRAIN_KEPT_H
#define TRAIN_KEPT_H

#include <stdint.h>

#include "io/file.h"

enum { KEPT_MOST = 50 };

/* EX_CANTCREAT if it is too long. */
bool kept_path(char path[FILE_PATH_MAX], const char *dir, int64_t update, Err *err);

/* Paths by rising update, to be freed; none where the directory cannot be read (EX_NOINPUT). */
bool kept_list(FileList *paths, const char *dir, Err *err);
int kept_count(const char *dir);

/* Removes those of later updates than `update`, which are of a way that the run has left, and of
 * the others all but the last `keep`. EX_NOINPUT, EX_CANTCREAT, EX_IOERR. */
bool kept_prune(const char *dir, int keep, int64_t update, Err *err);

/* Takes away temporaries of a process that died. */
void kept_tidy(const char *dir);

#endif
