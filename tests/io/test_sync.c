/* What is on the disk when a function returns, as far as fsync was asked for it: this program has
 * an fsync of its own, which the library's calls come to. */
#define _DEFAULT_SOURCE /* syscall */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "scratch.h"

/* The names that were synced, below the test's directory, with a space behind each. */
static char synced[4096];
static int fails_with;

int fsync(int fd) {
    char link[64], path[1024];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    const char *name = strstr(path, scratch_dir) ? path + strlen(scratch_dir) : path;
    snprintf(synced + strlen(synced), sizeof synced - strlen(synced), "%s ", *name ? name : "/");
    if (!fails_with) return (int)syscall(SYS_fsync, fd);
    errno = fails_with;
    return -1;
}

static void expect(const char *names) {
    assert_string_equal(synced, names);
    synced[0] = '\0';
}

static void directories(void **state) {
    (void)state;
    Err err;
    assert_true(file_make_dirs(scratch("a//b/c/"), &err));
    expect("/ /a /a/b ");
    assert_true(file_make_dirs(scratch("a/b/d"), &err));
    expect("/a/b ");
    assert_true(file_make_dirs(scratch("a/b/d"), &err));
    expect("");
    fails_with = EIO;
    assert_false(file_make_dirs(scratch("a/e"), &err));
    fails_with = 0;
    assert_int_equal(err.code, EX_IOERR);
    assert_non_null(strstr(err.text, "a/e: cannot be synced: "));
    expect("/a ");
}

/* A file is synced before it has its name, and its directory behind that. */
static void files(void **state) {
    (void)state;
    AtomicFile a;
    Err err;
    assert_true(atomic_open(&a, scratch("file"), KIND_ANY, &err));
    atomic_write(&a, "text", 4);
    assert_true(atomic_commit(&a, &err));
    assert_int_equal(strncmp(synced, "/file.tmp.", 10), 0);
    assert_string_equal(strchr(synced, ' '), " / ");
    synced[0] = '\0';
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(directories), cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
