/* The bytes of a file, gunzipped on the way where it is gzip (RFC 1952, every member), as they are
 * otherwise.
 *
 * Meant for archives from elsewhere: memory is constant, and output is bounded by `cap` bytes and
 * beyond the first MiB by GZ_RATIO bytes for every byte read, so that a small file cannot unfold
 * without end. Zeros behind the last member are padding; anything else there is an error. Errors
 * are EX_DATAERR (EX_NOINPUT where the file itself cannot be read) and name the file and, but for
 * bounds, the byte. */
#ifndef IO_GZ_H
#define IO_GZ_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Deflate's own limit is 1032; text, grey images and archives of PNGs stay below 20. */
enum { GZ_RATIO = 200 };

typedef struct Gz Gz;

/* NULL and err when `path` is not a regular file that can be read. */
Gz *gz_open(const char *path, uint64_t cap, Err *err);
void gz_close(Gz *g);

/* Fills out with `want` bytes; *got is less only at the end of the data. */
bool gz_read(Gz *g, void *out, size_t want, size_t *got, Err *err);

#endif
