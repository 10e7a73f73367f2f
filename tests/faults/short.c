/* Preloaded: each read and write of a program of ours takes half of what it is asked to, rounded
 * up, as it may where a signal comes in between, or on a file system over a network. What stdio
 * reads and writes does not come here; that goes on by itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t half(size_t n) {
    const bool ours = strncmp(program_invocation_short_name, "cast_", 5) == 0;
    return ours ? n - n / 2 : n;
}

ssize_t read(int fd, void *to, size_t n) { return syscall(SYS_read, fd, to, half(n)); }
ssize_t write(int fd, const void *from, size_t n) { return syscall(SYS_write, fd, from, half(n)); }
ssize_t pread(int fd, void *to, size_t n, off_t at) {
    return syscall(SYS_pread64, fd, to, half(n), at);
}
ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    return syscall(SYS_pwrite64, fd, from, half(n), at);
}
