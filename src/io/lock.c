#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "io/file.h"
#include "io/read.h"

/* What `lock` begins with. */
#define WHO "process "
/* The file of those who wait for a directory to be prepared: hidden, as there is no run in it. */
#define PASSING ".lock"

/* The directories that this process has locked, or its parent had: where one is prepared that is
 * locked as a run's already, it would wait for itself. */
enum { HELD_MOST = 8 };
static struct {
    dev_t dev;
    ino_t ino;
} held[HELD_MOST];
static int nheld;

static int find_held(const struct stat *st) {
    int i = 0;
    while (i < nheld && !(held[i].dev == st->st_dev && held[i].ino == st->st_ino)) i++;
    return i;
}

static void note_held(int fd) {
    struct stat st;
    REQUIRE(nheld < HELD_MOST, "more than %d directories are locked", HELD_MOST);
    if (fstat(fd, &st) != 0) return;
    held[nheld].dev = st.st_dev;
    held[nheld++].ino = st.st_ino;
}

static void forget_held(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) return;
    const int i = find_held(&st);
    if (i < nheld) held[i] = held[--nheld];
}

static void close_both(DirLock *l) {
    if (l->passing) unlinkat(l->dir, PASSING, 0);
    if (l->dir >= 0) close(l->dir);
    if (l->file >= 0) close(l->file);
    *l = (DirLock)LOCK_NONE;
}

static int open_dir(const char *dir) { return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

static int open_in(int dir, const char *name, int flags) {
    return openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
}

/* Says who holds the lock, as far as the file tells. */
static bool in_use(int at, const char *dir, Err *err) {
    char who[128] = "";
    const int fd = open_in(at, "lock", O_RDONLY);
    const ssize_t n = fd < 0 ? 0 : read_at(fd, who, sizeof who - 1, 0);
    if (fd >= 0) close(fd);
    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    return err_set(err, EX_CANTCREAT, "%s: is in use by %s; wait for it, or use another --out", dir,
                   *who ? who : "another process");
}

/* Tries until then; false and errno. */
static bool lock_until(int fd, double until) {
    const struct timespec a_while = {.tv_nsec = 20000000};
    for (;;) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK || clock_seconds() >= until) return false;
        nanosleep(&a_while, NULL);
    }
}

/* Whether what the name `lock` leads to is ours to write: a file, empty or one that we wrote. */
static bool open_file(DirLock *l, const char *dir, Err *err) {
    char start[sizeof WHO - 1];
    struct stat st;
    l->file = open_in(l->dir, "lock", O_RDWR | O_CREAT);
    if (l->file < 0)
        return err_set(err, EX_CANTCREAT, "%s/lock: cannot be written: %s", dir,
                       errno == ELOOP ? "it is a link, which is not followed" : strerror(errno));
    if (fstat(l->file, &st) == 0 && S_ISREG(st.st_mode) &&
        (st.st_size == 0 || (read_at(l->file, start, sizeof start, 0) == sizeof start &&
                             !memcmp(start, WHO, sizeof start))))
        return true;
    return err_set(err, EX_CANTCREAT,
                   "%s/lock: is there and is no lock of these programs: move it away, or use "
                   "another --out",
                   dir);
}

static bool take_file(DirLock *l, const char *dir, double until, Err *err) {
    if (!open_file(l, dir, err)) return false;
    if (!lock_until(l->file, until)) {
        if (errno == EWOULDBLOCK) return in_use(l->dir, dir, err);
        log_warn("%s: no locks here (%s): make sure that no other process uses this directory", dir,
                 strerror(errno));
    }
    char who[128] = "", host[64] = "?";
    gethostname(host, sizeof host - 1);
    const int n = snprintf(who, sizeof who, WHO "%ld on %s\n", (long)getpid(), host);
    /* Only for people: nothing is lost if it cannot be written. */
    if (ftruncate(l->file, 0) != 0 || pwrite(l->file, who, (size_t)n, 0) != n) errno = 0;
    return true;
}

bool lock_take(DirLock *l, const char *dir, double seconds, Err *err) {
    const double until = clock_seconds() + seconds;
    *l = (DirLock)LOCK_NONE;
    l->dir = open_dir(dir);
    if (l->dir < 0) return file_fails(dir, "be locked", EX_CANTCREAT, err);
    /* File systems that lock files alone are no reason to stop: there is the file. */
    const bool taken = !lock_until(l->dir, until) && errno == EWOULDBLOCK
                           ? in_use(l->dir, dir, err)
                           : take_file(l, dir, until, err);
    if (taken)
        note_held(l->dir);
    else
        close_both(l);
    return taken;
}

/* False where there are no locks. */
static bool wait_for(int fd, const char *dir) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    log_info("%s: another process is at work on it, waiting", dir);
    return flock(fd, LOCK_EX) == 0;
}

/* Whether the file that is locked still has its name: another may have released it meanwhile. */
static bool has_name(const DirLock *l) {
    struct stat ours, there;
    return fstat(l->file, &ours) == 0 && ours.st_nlink > 0 &&
           fstatat(l->dir, PASSING, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* NFS locks directories on each host by itself, and files among all. */
static void wait_for_file(DirLock *l, const char *dir) {
    enum { TRIES = 1000 }; /* each begins when another process has ended its work */
    for (int i = 0; i < TRIES; i++) {
        l->file = open_in(l->dir, PASSING, O_RDWR | O_CREAT);
        if (l->file < 0) return; /* nothing can be made here, either */
        const bool locked = wait_for(l->file, dir);
        l->passing = locked && has_name(l);
        if (l->passing) return;
        close(l->file);
        l->file = -1;
        if (!locked) return; /* there are no locks */
    }
}

void lock_wait(DirLock *l, const char *dir) {
    struct stat st;
    *l = (DirLock)LOCK_NONE;
    if (stat(dir, &st) != 0 || find_held(&st) < nheld || (l->dir = open_dir(dir)) < 0) return;
    if (wait_for(l->dir, dir)) {
        note_held(l->dir);
        wait_for_file(l, dir);
    } else {
        close_both(l);
    }
}

void lock_release(DirLock *l) {
    if (l->dir >= 0) forget_held(l->dir);
    close_both(l);
}

bool lock_stands(const DirLock *l, const char *dir) {
    struct stat ours, there;
    if (stat(dir, &there) != 0) return !err_absent(errno);
    return fstat(l->dir, &ours) != 0 ||
           (ours.st_dev == there.st_dev && ours.st_ino == there.st_ino);
}
