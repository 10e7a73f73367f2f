#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "io/file.h"

/* Says who holds the lock, as far as the file tells. */
static void in_use(int fd, const char *what, Err *err) {
    char who[128] = "";
    ssize_t n = pread(fd, who, sizeof who - 1, 0);
    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    err_set(err, EX_CANTCREAT, "%s: is in use by %s; wait for it, or use another --out", what,
            *who ? who : "another process");
}

/* Tries for so long; false and errno. */
static bool lock_within(int fd, double seconds) {
    const double until = clock_seconds() + seconds;
    const struct timespec a_while = {.tv_nsec = 20000000};
    for (;;) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK || clock_seconds() >= until) return false;
        nanosleep(&a_while, NULL);
    }
}

int file_lock(const char *path, const char *what, double seconds, Err *err) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        file_fails(path, "be written", EX_CANTCREAT, err);
        return -1;
    }
    if (!lock_within(fd, seconds)) {
        if (errno == EWOULDBLOCK) {
            in_use(fd, what, err);
            close(fd);
            return -1;
        }
        log_warn("%s: no locks here (%s): make sure that no other process uses this directory",
                 what, strerror(errno));
    }
    char who[128] = "", host[64] = "?";
    gethostname(host, sizeof host - 1);
    int n = snprintf(who, sizeof who, "process %ld on %s\n", (long)getpid(), host);
    /* Only for people: nothing is lost if it cannot be written. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, who, (size_t)n, 0) != n) errno = 0;
    return fd;
}
