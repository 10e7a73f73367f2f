#define _XOPEN_SOURCE 700 /* realpath */
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/mapped.h"
#include "io/text.h"

#define TEMP_MARK ".tmp."

/* The directory of `path` into dir; returns the last component. */
static const char *split(const char *path, char dir[FILE_PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t n = slash && slash > path ? (size_t)(slash - path) : 1;
    memcpy(dir, slash ? path : ".", n);
    dir[n] = '\0';
    return slash ? slash + 1 : path;
}

bool atomic_is_temp(const char *name, const char *base) {
    size_t n = strlen(base), mark = strlen(TEMP_MARK);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, TEMP_MARK, mark) != 0) return false;
    const char *pid = name + n + mark;
    return *pid && pid[strspn(pid, "0123456789")] == '\0';
}

/* Whether the name is that of the open file, and not of one that has been made since. */
static bool is_still(int dir, const char *name, int fd) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A writer holds a lock on its temporary until it has its name, so one that can be locked (which
 * NFS asks to be open for writing) was left by a process that died. Without this every crash during
 * a save would leave a checkpoint's worth of garbage. */
void atomic_tidy(const char *path) {
    char dir[FILE_PATH_MAX];
    const char *base = split(path, dir);
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        if (!atomic_is_temp(e->d_name, base)) continue;
        int fd = openat(dirfd(d), e->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == EACCES) /* another user's */
            fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_still(dirfd(d), e->d_name, fd))
            unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    closedir(d);
}

bool file_fails(const char *path, const char *what, int code, Err *err) {
    const int why = errno;
    return err_set(err, err_status(why, code), "%s: cannot %s: %s", path, what, err_words(why));
}

static bool cannot_create(const char *path, Err *err) {
    return file_fails(path, "be created", EX_CANTCREAT, err);
}

/* Whether what the program prints goes there: as it holds the file open, it would go on writing to
 * what a rename has put out of sight. */
static bool is_printed_to(const struct stat *st) {
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &own) == 0 && own.st_dev == st->st_dev && own.st_ino == st->st_ino)
            return true;
    return false;
}

/* What a rename may replace: nothing yet, or a regular file; where `path` is a link, what it leads
 * to. A device or a pipe would be lost. */
static bool find_target(char target[FILE_PATH_MAX], const char *path, Err *err) {
    struct stat st;
    const size_t n = strlen(path);
    if (n == 0 || n >= FILE_PATH_MAX)
        return err_set(err, EX_CANTCREAT, "'%.200s': a file's path has 1 to %d bytes", path,
                       FILE_PATH_MAX - 1);
    memcpy(target, path, n + 1);
    /* Opening the temporary tells what else is amiss. */
    if (lstat(path, &st) != 0) return err_absent(errno) || cannot_create(path, err);
    const bool is_link = S_ISLNK(st.st_mode);
    if (is_link && stat(path, &st) != 0)
        return err_set(err, EX_CANTCREAT, "%s: is a link that leads nowhere: %s", path,
                       strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, EX_CANTCREAT, "%s: is a %s; a file was to be written", path,
                       S_ISDIR(st.st_mode) ? "directory" : "pipe or device");
    if (is_printed_to(&st))
        return err_set(err, EX_CANTCREAT,
                       "%s: is where this program's messages go; it needs a file of its own", path);
    return !is_link || realpath(path, target) || cannot_create(path, err);
}

/* Whether the file system has no locks: no error but one would be that another holds it. */
static bool has_no_locks(const char *path) {
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const bool none = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno != EWOULDBLOCK;
    close(fd);
    return none;
}

/* -1 and errno. Another process may tidy up before it is locked, or be just about to; then it is
 * made again. Where the file system has no locks leftovers stay, but for one of a process that had
 * this one's number, as in containers each has. */
static int open_temp(const char *path) {
    struct stat st;
    for (;;) {
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) {
            if (has_no_locks(path) && unlink(path) == 0) continue;
            errno = EEXIST;
        }
        if (fd < 0) return fd;
        flock(fd, LOCK_EX);
        if (fstat(fd, &st) != 0 || st.st_nlink > 0) return fd;
        close(fd);
    }
}

bool atomic_open(AtomicFile *a, const char *path, FileKind kind, Err *err) {
    a->f = NULL;
    a->why = 0;
    a->unsynced = false;
    a->check = NULL;
    if (!strcmp(path, "-"))
        return err_set(err, EX_USAGE, "'-' is not standard output here: name a file");
    if (!find_target(a->path, path, err) || !kind_may_replace(a->path, kind, err)) return false;
    snprintf(a->temp, sizeof a->temp, "%s" TEMP_MARK "%ld", a->path, (long)getpid());
    atomic_tidy(a->path);
    const int fd = open_temp(a->temp);
    if (fd < 0) return cannot_create(a->path, err);
    a->f = fdopen(fd, "wb");
    if (a->f) return true;
    cannot_create(a->path, err);
    close(fd);
    unlink(a->temp);
    return false;
}

void atomic_abandon(AtomicFile *a) {
    if (!a->f) return;
    unlink(a->temp); /* while it is locked */
    fclose(a->f);
    a->f = NULL;
}

void atomic_write(AtomicFile *a, const void *data, size_t size) {
    if (size == 0 || a->why) return;
    errno = 0;
    if (fwrite(data, 1, size, a->f) != size) a->why = errno ? errno : EIO;
}

/* 0, or the errno of the first failure: a byte may not have reached the disk. */
static int flush(AtomicFile *a) {
    int why = a->why;
    struct stat st;
    bool failed = ferror(a->f); /* outside atomic_write, so that the errno is lost */
    if (fflush(a->f) != 0 && !why) why = errno;
    if (failed && !why) why = EIO;
    /* A file system that claims more than it wrote. */
    if (!why && (fstat(fileno(a->f), &st) != 0 || st.st_size != ftello(a->f))) why = EIO;
    if (!why && !a->unsynced && fsync(fileno(a->f)) != 0) why = errno;
    return why;
}

/* One that may be written but not read cannot be. */
static bool sync_dir(const char *path) {
    char dir[FILE_PATH_MAX];
    split(path, dir);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES;
    bool ok = fsync(fd) == 0 || errno == EINVAL; /* EINVAL: directories here need no fsync */
    int why = errno;
    close(fd);
    errno = why;
    return ok;
}

static bool write_failed(const char *path, int why, Err *err) {
    char dir[FILE_PATH_MAX], bytes[32] = "?";
    struct statvfs fs;
    split(path, dir);
    if (statvfs(dir, &fs) == 0)
        format_bytes(bytes, sizeof bytes, (double)fs.f_bavail * (double)fs.f_frsize);
    return err_set(err, err_status(why, EX_IOERR), "%s: cannot be written: %s (%s free there)%s",
                   path, err_words(why), bytes,
                   file_exists(path) ? "; the file of before is untouched" : "");
}

bool atomic_prepare(AtomicFile *a, Err *err) {
    Err damage;
    const int why = flush(a);
    const bool sound = why || !a->check || a->check(a->temp, &damage);
    a->check = NULL; /* once is enough */
    if (!why && sound) return true;
    atomic_abandon(a);
    if (why) return write_failed(a->path, why, err);
    return err_set(err, EX_IOERR, "%s: is not what was written when it is read back: %s", a->path,
                   damage.text);
}

bool atomic_commit(AtomicFile *a, Err *err) {
    if (!atomic_prepare(a, err)) return false;
    const int held = dup(fileno(a->f)); /* the lock, past the end of writing */
    int why = fclose(a->f) != 0 ? errno : 0;
    a->f = NULL;
    if (!why && rename(a->temp, a->path) != 0) why = errno;
    if (why) unlink(a->temp);
    if (held >= 0) close(held);
    if (why) return write_failed(a->path, why, err);
    if (!a->unsynced && !sync_dir(a->path))
        return err_set(err, EX_IOERR, "%s: is written, but its directory cannot be synced: %s",
                       a->path, strerror(errno));
    return true;
}

bool file_in(char path[FILE_PATH_MAX], const char *dir, const char *name, Err *err) {
    return snprintf(path, FILE_PATH_MAX, "%s/%s", dir, name) < FILE_PATH_MAX ||
           err_set(err, EX_CANTCREAT, "%.80s...: this name is too long", dir);
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 || !err_absent(errno);
}

bool file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? S_ISDIR(st.st_mode) : !err_absent(errno);
}

bool file_check_dir(const char *path, Err *err) {
    struct stat st;
    if (stat(path, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(err, EX_NOINPUT, "%s: no such directory", path);
        return file_fails(path, "be looked at", EX_NOINPUT, err);
    }
    return S_ISDIR(st.st_mode) ||
           err_set(err, EX_NOINPUT, "%s: is a file; a directory was expected", path);
}

const char *file_here(char path[FILE_PATH_MAX]) {
    if (!getcwd(path, FILE_PATH_MAX)) snprintf(path, FILE_PATH_MAX, "?");
    return path;
}

bool file_is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

bool file_has_other_names(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

bool file_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool file_is_empty(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? S_ISREG(st.st_mode) && st.st_size == 0 : err_absent(errno);
}

bool file_fits(const char *name, uint64_t size, uint64_t most, Err *err) {
    return size <= most ||
           err_set(err, EX_DATAERR, "%s: %" PRIu64 " bytes, expected at most %" PRIu64, name, size,
                   most);
}

bool file_make_dirs(const char *path, Err *err) {
    char part[FILE_PATH_MAX];
    struct stat st;
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return err_set(err, EX_CANTCREAT, "%.200s: a directory's path has 1 to %zu bytes", path,
                       sizeof part - 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (stat(part, &st) == 0 && S_ISDIR(st.st_mode)) continue;
        if (mkdir(part, 0777) == 0) {
            /* Or a loss of power takes it, with all that was synced in it. */
            if (sync_dir(part)) continue;
            return file_fails(part, "be synced", EX_IOERR, err);
        }
        const int why = errno; /* another process may have been faster */
        if (why == EEXIST && file_is_dir(part)) continue;
        errno = why;
        return cannot_create(part, err);
    }
    return true;
}

bool file_may_make_dirs(const char *path, Err *err) {
    char part[FILE_PATH_MAX];
    struct stat st;
    if (!*path) return err_set(err, EX_CANTCREAT, "a directory's name is empty");
    snprintf(part, sizeof part, "%s", path);
    while (*part && lstat(part, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(part, '/');
        if (slash == part && part[1]) slash++; /* the root's own */
        *(slash ? slash : part) = '\0';
    }
    const char *there = *part ? part : ".";
    if (stat(there, &st) == 0 && !S_ISDIR(st.st_mode))
        errno = ENOTDIR;
    else if (access(there, W_OK | X_OK) == 0)
        return true;
    return cannot_create(path, err);
}

bool file_remove(const char *path, Err *err) {
    if (unlink(path) != 0 && errno != ENOENT)
        return file_fails(path, "be replaced", EX_CANTCREAT, err);
    return sync_dir(path) || file_fails(path, "be removed for good", EX_IOERR, err);
}

static void add_name(FileList *names, const char *dir, const char *name) {
    const char *slash = text_ends(dir, "/") ? "" : "/";
    names->name = mem_grow(names->name, (size_t)names->n + 1, sizeof *names->name);
    names->name[names->n++] = text_format("%s%s%s", dir, slash, name);
}

bool file_list(FileList *names, const char *dir, const char *start, const char *end, Err *err) {
    *names = (FileList){0};
    DIR *d = opendir(dir);
    if (!d) return file_fails(dir, "be read", EX_NOINPUT, err);
    errno = 0;
    for (struct dirent *e; (e = readdir(d)); errno = 0)
        if (e->d_name[0] != '.' && !strncmp(e->d_name, start, strlen(start)) &&
            text_ends(e->d_name, end))
            add_name(names, dir, e->d_name);
    const int why = errno;
    closedir(d);
    if (names->n) qsort(names->name, (size_t)names->n, sizeof *names->name, text_order);
    if (!why) return true;
    file_list_free(names);
    errno = why;
    return file_fails(dir, "be read", EX_NOINPUT, err);
}

void file_list_free(FileList *names) {
    for (int i = 0; i < names->n; i++) mem_free(names->name[i]);
    mem_free(names->name);
    *names = (FileList){0};
}

bool file_holds_ours(const char *dir, FileOurs *ours, const char *whose, Err *err) {
    FileList list;
    struct stat st;
    if (!file_exists(dir)) return true;
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return err_set(err, EX_CANTCREAT, "%s: is no directory; use another --out", dir);
    bool ok = file_list(&list, dir, "", "", err);
    for (int i = 0; ok && i < list.n; i++) {
        const char *path = list.name[i], *name = strrchr(path, '/') + 1;
        ok = ours(path, name) || (stat(path, &st) == 0 && is_printed_to(&st)) ||
             err_set(err, EX_CANTCREAT,
                     "%s: holds %s, and is neither empty nor %s: nothing is written there. Use "
                     "another --out, or move away what it holds",
                     dir, name, whose);
    }
    file_list_free(&list);
    return ok;
}

static FileStamp stamp_of(const struct stat *st) {
    return (FileStamp){st->st_size, st->st_mtim, st->st_ctim, st->st_dev, st->st_ino};
}

bool file_stamp(FileStamp *s, const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) return false;
    *s = stamp_of(&st);
    return true;
}

static bool map_fd(FileMap *m, int fd, const char *path, Err *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return file_fails(path, "be read", EX_NOINPUT, err);
    if (S_ISDIR(st.st_mode))
        return err_set(err, EX_DATAERR, "%s: is a directory; a file was expected", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, EX_DATAERR, "%s: is a pipe or device; a file was expected", path);
    if (st.st_size == 0) return err_set(err, EX_DATAERR, "%s: the file is empty", path);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED && errno == ENOMEM) mem_missing(1, (size_t)st.st_size);
    if (p == MAP_FAILED) return file_fails(path, "be mapped", EX_NOINPUT, err);
    *m = (FileMap){p, (size_t)st.st_size, stamp_of(&st)};
    mapped_add(m->data, m->size, path);
    return true;
}

bool file_was_changed(const FileMap *m, const char *path) {
    const FileStamp *was = &m->stamp;
    FileStamp is;
    if (!file_stamp(&is, path) || is.device != was->device || is.entry != was->entry) return false;
    return is.size != was->size || is.modified.tv_sec != was->modified.tv_sec ||
           is.modified.tv_nsec != was->modified.tv_nsec;
}

bool file_map(FileMap *m, const char *path, Err *err) {
    *m = (FileMap){0};
    /* O_NONBLOCK: opening a pipe that nobody writes to must not hang before it can be refused. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return file_fails(path, "be read", EX_NOINPUT, err);
    bool ok = map_fd(m, fd, path, err);
    close(fd);
    return ok;
}

void file_unmap(FileMap *m) {
    if (m->data) {
        mapped_remove(m->data);
        munmap((void *)m->data, m->size);
    }
    *m = (FileMap){0};
}

bool file_append(int fd, const void *data, size_t size) {
    const char *bytes = data;
    off_t start = lseek(fd, 0, SEEK_END);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, bytes + done, size - done);
        if (n > 0) done += (size_t)n;
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        int why = n < 0 ? errno : EIO;
        if (ftruncate(fd, start) != 0) why = errno;
        errno = why;
        return false;
    }
    return true;
}
