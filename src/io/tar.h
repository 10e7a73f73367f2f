/* Walks through the regular files of a tar archive (.tar or .tar.gz): ustar, pax and GNU long
 * names.
 *
 * Nothing is ever written to disk, so a name such as "../../etc/passwd" is only a string that
 * matches nothing. Directories, links and devices are passed over; sparse files are refused.
 * The archive ends with its first block of zeros, which must be there; what stands behind it is
 * passed over. Checked are header checksums, sizes (octal, base-256, pax) and the limits below.
 * Errors are as in io/gz.h and name the archive, the entry and the byte of the unpacked archive. */
#ifndef IO_TAR_H
#define IO_TAR_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

typedef struct TarLimits {
    uint64_t bytes; /* of the unpacked archive */
    int entries;    /* of any kind */
} TarLimits;

typedef struct TarEntry {
    const char *name;  /* as stored: any bytes but NUL; valid until the next tar_next */
    const char *title; /* "archive: name", for messages; valid likewise */
    uint64_t size;
} TarEntry;

typedef struct Tar Tar;

Tar *tar_open(const char *path, TarLimits limits, Err *err);
void tar_close(Tar *t);

/* The next regular file into *entry, whatever of the last one was read; its name is NULL at the
 * archive's end, which is reported only after the file was read to its last byte (so that gzip's
 * checksum has been compared). */
bool tar_next(Tar *t, TarEntry *entry, Err *err);

/* Reads the next `want` bytes of the current entry; *got is less only where it has no more. */
bool tar_read(Tar *t, void *out, size_t want, size_t *got, Err *err);

/* All of the current entry, of which nothing has been read, to be freed; NULL and err where it has
 * more than `most` bytes. */
unsigned char *tar_bytes(Tar *t, const TarEntry *entry, uint64_t most, Err *err);

/* Opens an archive and visits its regular files, until a visit fails. */
typedef bool TarVisit(void *ctx, Tar *t, const TarEntry *entry, Err *err);
bool tar_each(const char *path, TarLimits limits, TarVisit *visit, void *ctx, Err *err);

#endif
