#include "io/read.h"

#include <errno.h>
#include <unistd.h>

ssize_t read_at(int fd, void *to, size_t n, off_t at) {
    char *bytes = to;
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(fd, bytes + done, n - done, at + (off_t)done);
        if (got > 0) done += (size_t)got;
        if (got == 0) break;
        if (got < 0 && errno != EINTR) return -1;
    }
    return (ssize_t)done;
}
