/* What reads exported weights in Python: the same text for every model, which lies here as a file
 * and in the program as a copy. */
#ifndef EXPORT_READER_H
#define EXPORT_READER_H

#include "train/source.h"

typedef enum Reader { READER_NUMPY, READER_TORCH } Reader;

/* Whether they compute this model (EX_CONFIG). */
bool reader_fits(const Source *s, const StFile *f, Err *err);

/* EX_CANTCREAT, EX_IOERR. */
bool reader_write(const char *path, Reader which, Err *err);

#endif
