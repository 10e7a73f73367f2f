#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "text.h"

static bool write_text(const char *path, const char *text, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_ANY, err)) return false;
    fputs(text, a.f);
    return atomic_commit(&a, err);
}

static void check_text(const char *path, const char *expected) {
    char *text = text_read(path);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void writes_and_replaces(void **state) {
    (void)state;
    Err err;
    const char *path = scratch("plain");
    assert_true(write_text(path, "old", &err));
    check_text(path, "old");
    int before = text_count(scratch_dir);
    assert_true(write_text(path, "new", &err));
    check_text(path, "new");
    assert_int_equal(text_count(scratch_dir), before);
}

static void relative_path(void **state) {
    (void)state;
    Err err;
    char *here = getcwd(NULL, 0);
    assert_int_equal(chdir(scratch_dir), 0);
    assert_true(write_text("relative", "x", &err));
    assert_true(file_make_dirs("one/two", &err));
    assert_true(file_is_dir("one/two"));
    assert_int_equal(chdir(here), 0);
    free(here);
    check_text(scratch("relative"), "x");
}

static void nothing_before_commit(void **state) {
    (void)state;
    Err err;
    AtomicFile a;
    const char *path = scratch("late");
    int before = text_count(scratch_dir);
    assert_true(atomic_open(&a, path, KIND_ANY, &err));
    fputs("half", a.f);
    fflush(a.f);
    assert_false(file_exists(path));
    atomic_abandon(&a);
    atomic_abandon(&a);
    assert_int_equal(text_count(scratch_dir), before);
}

/* Runs job with files limited to `limit` bytes, which stands for a full disk. */
static bool with_limit(size_t limit, bool (*job)(const char *path, Err *err), const char *path,
                       Err *err) {
    struct rlimit saved, small;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &saved);
    small = (struct rlimit){.rlim_cur = limit, .rlim_max = saved.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    bool ok = job(path, err);
    setrlimit(RLIMIT_FSIZE, &saved);
    return ok;
}

static char large[300000];

static bool write_large(const char *path, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_ANY, err)) return false;
    atomic_write(&a, large, sizeof large);
    atomic_write(&a, large, sizeof large);
    return atomic_commit(&a, err);
}

/* Without atomic_write the reason is lost, but not the failure. */
static bool write_large_by_stdio(const char *path, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_ANY, err)) return false;
    fwrite(large, 1, sizeof large, a.f);
    return atomic_commit(&a, err);
}

static bool write_small(const char *path, Err *err) { return write_text(path, "0123456789", err); }

static void full_disk_keeps_the_old(void **state) {
    (void)state;
    Err err;
    const char *path = scratch("full");
    assert_true(write_text(path, "old", &err));
    int before = text_count(scratch_dir);
    for (size_t limit = 0; limit <= 2 * sizeof large; limit += 50000) {
        bool fits = limit == 2 * sizeof large;
        err = (Err){0};
        assert_int_equal(with_limit(limit, write_large, path, &err), fits);
        if (fits) continue;
        assert_int_equal(err.code, EX_IOERR);
        assert_non_null(strstr(err.text, strerror(EFBIG)));
        assert_non_null(strstr(err.text, " free there"));
        check_text(path, "old");
        assert_int_equal(text_count(scratch_dir), before);
    }
    assert_true(write_text(path, "old", &err));
    assert_false(with_limit(5, write_small, path, &err));
    assert_non_null(strstr(err.text, strerror(EFBIG)));
    assert_false(with_limit(5, write_large_by_stdio, path, &err));
    assert_int_equal(err.code, EX_IOERR);
    check_text(path, "old");
    assert_int_equal(text_count(scratch_dir), before);
}

static void removes_what_the_dead_left(void **state) {
    (void)state;
    Err err;
    AtomicFile a;
    char path[300];
    snprintf(path, sizeof path, "%s", scratch("x.json"));
    scratch_write("x.json.tmp.123456", "half", 4);
    scratch_write("x.json.tmp.notes", "mine", 4);
    scratch_write("y.json.tmp.123456", "half", 4);
    int held = open(scratch_write("x.json.tmp.77", "live", 4), O_RDONLY);
    assert_int_equal(flock(held, LOCK_EX), 0);
    assert_true(atomic_open(&a, path, KIND_ANY, &err));
    assert_false(file_exists(scratch("x.json.tmp.123456")));
    assert_true(file_exists(scratch("x.json.tmp.notes")));
    assert_true(file_exists(scratch("y.json.tmp.123456")));
    assert_true(file_exists(scratch("x.json.tmp.77")));
    assert_false(write_text(path, "by two at once", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_true(atomic_commit(&a, &err));
    close(held);
}

/* In place of the system's, to be a file system without locks. */
static bool no_locks;
int flock(int fd, int operation) {
    if (!no_locks) return (int)syscall(SYS_flock, fd, operation);
    errno = ENOLCK;
    return -1;
}

/* Where there are none, one that died may have had this process's number: in a container each has
 * the same. */
static void removes_its_own_where_nothing_locks(void **state) {
    (void)state;
    Err err;
    char own[100];
    snprintf(own, sizeof own, "z.json.tmp.%ld", (long)getpid());
    scratch_write(own, "half", 4);
    scratch_write("z.json.tmp.123456", "half", 4);
    no_locks = true;
    const bool ok = write_text(scratch("z.json"), "whole", &err);
    no_locks = false;
    if (!ok) fail_msg("%s", err.text);
    check_text(scratch("z.json"), "whole");
    assert_true(file_exists(scratch("z.json.tmp.123456")));
    assert_false(file_exists(scratch(own)));
}

static void cannot_be_created(void **state) {
    (void)state;
    Err err;
    char long_path[5000];
    assert_false(write_text(scratch("absent/x"), "x", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "absent/x"));
    assert_false(write_text(scratch_dir, "x", &err));
    assert_non_null(strstr(err.text, "is a directory"));
    assert_int_equal(err.code, EX_CANTCREAT);
    memset(long_path, 'a', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    assert_false(write_text(long_path, "x", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    long_path[4095] = '\0';
    assert_false(write_text(long_path, "x", &err));
    assert_false(write_text("", "x", &err));
    assert_false(write_text("/proc/x", "x", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
}

static void check_refused(const char *path, const char *why) {
    Err err;
    assert_false(write_text(path, "x", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_non_null(strstr(err.text, why));
}

/* Never a device of the machine's: were it not refused, a test run as root would put a file there.
 */
static void pipes_and_links(void **state) {
    (void)state;
    Err err;
    struct stat st;
    char fifo[4096], link_path[4096];
    snprintf(fifo, sizeof fifo, "%s", scratch("pipe"));
    snprintf(link_path, sizeof link_path, "%s", scratch("link"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    check_refused(fifo, "pipe");
    assert_int_equal(symlink("pipe", link_path), 0);
    check_refused(link_path, "pipe");
    assert_true(stat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(symlink("linked", link_path), 0);
    check_refused(link_path, "leads nowhere");
    scratch_write("linked", "old", 3);
    assert_true(write_text(link_path, "new", &err));
    check_text(scratch("linked"), "new");
    assert_true(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode));
    assert_true(file_same(link_path, scratch("linked")));
    assert_false(file_same(link_path, fifo) || file_same(link_path, scratch("absent")));
}

static void rename_fails(void **state) {
    (void)state;
    Err err;
    AtomicFile a;
    const char *path = scratch("turned");
    assert_true(atomic_open(&a, path, KIND_ANY, &err));
    scratch_mkdir("turned");
    int before = text_count(scratch_dir);
    assert_false(atomic_commit(&a, &err));
    assert_int_equal(err.code, EX_IOERR);
    assert_int_equal(text_count(scratch_dir), before - 1);
}

static void makes_dirs(void **state) {
    (void)state;
    Err err;
    assert_true(file_make_dirs(scratch("a//b/c/"), &err));
    assert_true(file_is_dir(scratch("a/b/c")));
    assert_true(file_make_dirs(scratch("a/b"), &err));
    assert_true(file_make_dirs("/", &err));
    scratch_write("file", "x", 1);
    assert_false(file_make_dirs(scratch("file"), &err));
    assert_false(file_make_dirs(scratch("file/deeper"), &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_int_equal(symlink("nowhere", scratch("dangling")), 0);
    assert_false(file_may_make_dirs(scratch("dangling/deeper"), &err));
    assert_false(file_make_dirs(scratch("dangling/deeper"), &err));
    assert_non_null(strstr(err.text, strerror(EEXIST)));
    assert_true(file_may_make_dirs(scratch("a/new/one"), &err));
    assert_false(file_make_dirs("", &err));
    assert_false(file_make_dirs("/proc/x", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_true(file_exists(scratch("file")));
    assert_false(file_is_dir(scratch("file")));
}

static void maps(void **state) {
    (void)state;
    Err err;
    FileMap m;
    assert_true(file_map(&m, scratch_write("bytes", "a\0c", 3), &err));
    assert_int_equal(m.size, 3);
    assert_memory_equal(m.data, "a\0c", 3);
    file_unmap(&m);
    assert_null(m.data);
    file_unmap(&m);
}

/* Opening a pipe without a writer blocks unless it is refused in time. */
static void refuses_what_is_no_file(void **state) {
    (void)state;
    Err err;
    FileMap m;
    const char *fifo = scratch("fifo");
    const struct {
        const char *path, *message;
        int code;
    } rows[] = {
        {scratch("absent"), "No such file", EX_NOINPUT},
        {scratch_dir, "is a directory", EX_DATAERR},
        {fifo, "pipe or device", EX_DATAERR},
        {"/dev/zero", "pipe or device", EX_DATAERR},
        {"/dev/null", "pipe or device", EX_DATAERR},
        {scratch_write("empty", "", 0), "is empty", EX_DATAERR},
    };
    assert_int_equal(mkfifo(fifo, 0600), 0);
    alarm(10);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(file_map(&m, rows[i].path, &err));
        assert_int_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.text, rows[i].message));
        assert_non_null(strstr(err.text, rows[i].path));
    }
    alarm(0);
}

static void lists_names(void **state) {
    (void)state;
    Err err;
    FileList list;
    char dir[FILE_PATH_MAX];
    scratch_mkdir("list");
    const char *const names[] = {"list/viz-b.png", "list/viz-a.png", "list/viz-c.html",
                                 "list/other.png", "list/.viz-d.png"};
    for (int i = 0; i < 5; i++) scratch_write(names[i], "", 0);
    snprintf(dir, sizeof dir, "%s/", scratch("list"));
    assert_true(file_list(&list, dir, "viz", ".png", &err));
    assert_int_equal(list.n, 2);
    assert_string_equal(list.name[0], scratch("list/viz-a.png"));
    assert_string_equal(list.name[1], scratch("list/viz-b.png"));
    file_list_free(&list);
    assert_false(file_list(&list, scratch("nowhere"), "", "", &err));
    assert_int_equal(err.code, EX_NOINPUT);
    assert_false(file_list(&list, scratch("list/other.png"), "", "", &err));
    assert_int_equal(list.n, 0);
}

static void names_that_fit(void **state) {
    (void)state;
    Err err;
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX];
    memset(dir, 'd', FILE_PATH_MAX - 3);
    dir[FILE_PATH_MAX - 3] = '\0';
    assert_true(file_in(path, dir, "x", &err));
    assert_int_equal(strlen(path), FILE_PATH_MAX - 1);
    assert_false(file_in(path, dir, "xy", &err));
    assert_int_equal(err.code, EX_CANTCREAT);
}

static void stamps_tell_changes(void **state) {
    (void)state;
    FileStamp was, now;
    FileMap m;
    Err err;
    const struct timespec a_while = {.tv_nsec = 50000000};
    const char *path = scratch_write("stamp", "abc", 3);
    assert_true(file_stamp(&was, path));
    assert_int_equal(was.size, 3);
    assert_true(file_map(&m, path, &err));
    assert_memory_equal(&m.stamp, &was, sizeof was);
    file_unmap(&m);
    nanosleep(&a_while, NULL);
    scratch_write("stamp", "abd", 3);
    assert_true(file_stamp(&now, path));
    assert_int_equal(now.size, 3);
    assert_true(now.modified.tv_sec > was.modified.tv_sec ||
                now.modified.tv_nsec > was.modified.tv_nsec);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){was.modified, was.modified}, 0),
                     0);
    assert_true(file_stamp(&now, path));
    assert_memory_equal(&now.modified, &was.modified, sizeof was.modified);
    assert_memory_not_equal(&now.changed, &was.changed, sizeof was.changed);
    assert_false(file_stamp(&now, scratch("nowhere")));
}

/* Of two writers of one file and two that tidy up no one loses what it wrote. */
static void tidied_meanwhile(void **state) {
    enum { TIMES = 1000 };
    const char *path = scratch("shared");
    AtomicFile a;
    Err err;
    const pid_t parent = getpid();
    pid_t pid[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        if ((pid[i] = fork()) != 0) continue;
        while (getppid() == parent) {
            if (i < 2) atomic_tidy(path);
            if (i == 2 && atomic_open(&a, path, KIND_ANY, &err)) atomic_abandon(&a);
        }
        _exit(0);
    }
    int failed = 0, done = 0;
    for (int i = 0; i < TIMES; i++) {
        if (!atomic_open(&a, path, KIND_ANY, &err)) break;
        a.unsynced = true;
        atomic_write(&a, "text", 4);
        failed += !atomic_commit(&a, &err);
        done++;
    }
    for (int i = 0; i < 3; i++) {
        if (pid[i] < 0) continue;
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    assert_int_equal(failed, 0);
    assert_int_equal(done, TIMES);
    assert_true(pid[0] > 0 && pid[1] > 0 && pid[2] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_replaces),
        cmocka_unit_test(relative_path),
        cmocka_unit_test(nothing_before_commit),
        cmocka_unit_test(full_disk_keeps_the_old),
        cmocka_unit_test(removes_what_the_dead_left),
        cmocka_unit_test(removes_its_own_where_nothing_locks),
        cmocka_unit_test(cannot_be_created),
        cmocka_unit_test(pipes_and_links),
        cmocka_unit_test(rename_fails),
        cmocka_unit_test(tidied_meanwhile),
        cmocka_unit_test(makes_dirs),
        cmocka_unit_test(lists_names),
        cmocka_unit_test(names_that_fit),
        cmocka_unit_test(maps),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(stamps_tell_changes),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
