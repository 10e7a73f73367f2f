/* Whole files, atomically: written beside the target as a temporary, fsynced, read back, renamed,
 * the directory fsynced. */
#ifndef IO_FILE_H
#define IO_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "core/err.h"
#include "io/kind.h"

enum { FILE_PATH_MAX = 4096 };

/* Whether what was written can be read; err says why not. */
typedef bool FileCheck(const char *path, Err *err);

typedef struct AtomicFile {
    FILE *f;
    int why;          /* errno of the first atomic_write that failed */
    bool unsynced;    /* set by the caller: one of thousands, which a loss of power may take */
    FileCheck *check; /* set by the caller: what reads it back; NULL: its size alone is checked */
    char path[FILE_PATH_MAX], temp[FILE_PATH_MAX + 32];
} AtomicFile;

/* Opens the temporary, <path>.tmp.<pid>, and removes those that dead processes left. Of a link it
 * is the file that it leads to; what is no file, a device say, and a file of another kind are
 * refused (EX_CANTCREAT), and so is "-" (EX_USAGE). After writes to a->f, commit checks that every
 * byte reached the disk, reads it back and renames (EX_IOERR; on failure the temporary is removed
 * and the old file is intact, unless it is the directory that cannot be brought to the disk: then
 * the new one is there). abandon removes the temporary. After either, a->f is NULL, and abandon
 * does nothing. */
bool atomic_open(AtomicFile *a, const char *path, FileKind kind, Err *err);
bool atomic_commit(AtomicFile *a, Err *err);
void atomic_abandon(AtomicFile *a);
/* Of files that take their places together, all are prepared before the first commit: what is
 * written is on the disk and was read back, or it fails as commit does. */
bool atomic_prepare(AtomicFile *a, Err *err);
/* Removes the temporaries of `path` that dead processes left. */
void atomic_tidy(const char *path);
/* Whether `name` is that of a temporary of `base`. */
bool atomic_is_temp(const char *name, const char *base);
/* For large data: fwrite to a->f, and commit can tell why it failed. */
void atomic_write(AtomicFile *a, const void *data, size_t size);

/* The error "PATH: cannot WHAT: ", and errno's words; `code`, or what err_status makes of it.
 * Returns false. */
bool file_fails(const char *path, const char *what, int code, Err *err);

/* path = dir/name, of a file to be written (EX_CANTCREAT if it is too long). */
bool file_in(char path[FILE_PATH_MAX], const char *dir, const char *name, Err *err);
/* mkdir -p (EX_CANTCREAT); what it made is on the disk (EX_IOERR). */
bool file_make_dirs(const char *path, Err *err);
/* Whether it would, as far as can be told without making any (EX_CANTCREAT): for work that ends
 * with it. */
bool file_may_make_dirs(const char *path, Err *err);
/* Where it is there (EX_CANTCREAT); that it is gone is on the disk (EX_IOERR). */
bool file_remove(const char *path, Err *err);
/* Or may be: what cannot be looked at counts as there, and reading it tells why. */
bool file_exists(const char *path);
bool file_is_dir(const char *path);
/* Whether it is a directory; err (EX_NOINPUT) says what else. */
bool file_check_dir(const char *path, Err *err);
/* The working directory into path, which is returned: what relative names are looked for from. */
const char *file_here(char path[FILE_PATH_MAX]);
bool file_is_link(const char *path);
/* Hard links. */
bool file_has_other_names(const char *path);
/* Whether two names are of one file or directory; false where either is missing. */
bool file_same(const char *a, const char *b);
/* Whether so many bytes are at most `most`; EX_DATAERR names the file or entry that has them. */
bool file_fits(const char *name, uint64_t size, uint64_t most, Err *err);
/* Whether it is missing, or a regular file without a byte. */
bool file_is_empty(const char *path);

/* The paths of what `dir` holds whose names begin with `start` (nothing that begins with a dot) and
 * end in `end`, sorted; to be freed. False, and none: it cannot be read to its end (EX_NOINPUT). */
typedef struct FileList {
    char **name;
    int n;
} FileList;
bool file_list(FileList *names, const char *dir, const char *start, const char *end, Err *err);
void file_list_free(FileList *names);

/* Whether `dir` is missing, or holds nothing but names that are `ours`, names that begin with a
 * dot, and what this program's messages go to. EX_CANTCREAT names something else in it, and says
 * that it is not `whose` ("a run's"); EX_NOINPUT: it cannot be read. */
typedef bool FileOurs(const char *path, const char *name);
bool file_holds_ours(const char *dir, FileOurs *ours, const char *whose, Err *err);

/* At the end of a file that is open for reading and writing, by a single write where the system
 * can: all or nothing, what a failed write left behind is cut off again. False and errno. */
bool file_append(int fd, const void *data, size_t size);

/* What a file that was changed has another of: its bytes, and when its content, and its content or
 * entry, were last changed. */
typedef struct FileStamp {
    int64_t size;
    struct timespec modified, changed;
    dev_t device; /* and what the file is there */
    ino_t entry;
} FileStamp;
/* False: there is no such file, or errno says why it cannot be looked at. */
bool file_stamp(FileStamp *s, const char *path);

/* A file mapped read-only. EX_NOINPUT: it cannot be opened; EX_DATAERR: it is empty or not a
 * regular file. What happens where it is cut short while it is mapped, io/mapped.h tells. Where
 * memory is missing the program ends: who does without a file that is not there must not do without
 * this one. */
typedef struct FileMap {
    const unsigned char *data;
    size_t size;
    FileStamp stamp; /* when it was opened */
} FileMap;
bool file_map(FileMap *m, const char *path, Err *err);
/* Whether what is mapped may be other bytes by now: somebody wrote into the file at `path`. One
 * that took its name, as all do that are written aside, leaves the bytes that are mapped as they
 * were. */
bool file_was_changed(const FileMap *m, const char *path);
void file_unmap(FileMap *m);

#endif
