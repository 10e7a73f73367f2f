/* Reading at a place of a file: all that is asked for, or up to the file's end. */
#ifndef IO_READ_H
#define IO_READ_H

#include <sys/types.h>

/* As pread, but signals do not end it, and it is short at the end of the file only. -1 and
 * errno. */
ssize_t read_at(int fd, void *to, size_t n, off_t at);

#endif
