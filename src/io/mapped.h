/* Mapped files that can no longer be read: where another process cuts one short, or its disk fails,
 * the next access is a bus error, whoever makes it. That ends the program with EX_DATAERR, and a
 * message that names the file. */
#ifndef IO_MAPPED_H
#define IO_MAPPED_H

#include <stddef.h>

/* From here on, and until then. Beyond MAPPED_MOST at a time a bus error is what it is by itself.
 */
enum { MAPPED_MOST = 16 };
void mapped_add(const void *start, size_t size, const char *path);
void mapped_remove(const void *start);

#endif
