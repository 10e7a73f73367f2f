#include "io/lock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "text.h"

static void refused(const char *dir, const char *why) {
    DirLock l;
    Err err;
    if (lock_take(&l, dir, 0, &err)) fail_msg("%s: can be locked; expected: %s", dir, why);
    assert_int_equal(err.code, EX_CANTCREAT);
    if (!strstr(err.text, why)) fail_msg("expected '%s' in: %s", why, err.text);
    assert_true(l.dir == -1 && l.file == -1);
}

static void take(DirLock *l, const char *dir) {
    Err err;
    if (!lock_take(l, dir, 0, &err)) fail_msg("%s", err.text);
}

static void one_at_a_time(void **state) {
    (void)state;
    DirLock l;
    char who[64];
    const char *dir = scratch_mkdir("one");
    snprintf(who, sizeof who, "is in use by process %ld on ", (long)getpid());
    take(&l, dir);
    refused(dir, who);
    lock_release(&l);
    lock_release(&l);
    take(&l, dir);
    lock_release(&l);
    refused(scratch("absent"), "absent: cannot be locked: ");
}

/* The file may be deleted by hand, or by what tidies up. */
static void without_its_file(void **state) {
    (void)state;
    DirLock l;
    const char *dir = scratch_mkdir("bare");
    take(&l, dir);
    assert_int_equal(unlink(scratch("bare/lock")), 0);
    refused(dir, "is in use by another process");
    assert_int_equal(access(scratch("bare/lock"), F_OK), -1);
    lock_release(&l);
}

/* Version 0.1.0 locks the file alone. */
static void the_file_alone(void **state) {
    (void)state;
    DirLock l;
    const char *dir = scratch_mkdir("old");
    const int fd = open(scratch_write("old/lock", "process 7 on h\n", 15), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    refused(dir, "is in use by process 7 on h;");
    close(fd);
    take(&l, dir);
    const int other = open(scratch("old/lock"), O_RDWR);
    assert_int_not_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    close(other);
    lock_release(&l);
}

static void what_is_not_ours(void **state) {
    (void)state;
    const char *dir = scratch_mkdir("theirs"), *path = scratch("theirs/lock");
    scratch_write("theirs/lock", "my notes", 8);
    refused(dir, "theirs/lock: is there and is no lock of these programs");
    char *text = text_read(path);
    assert_string_equal(text, "my notes");
    free(text);
    unlink(path);
    scratch_write("theirs/notes", "", 0);
    assert_int_equal(symlink("notes", path), 0);
    refused(dir, "theirs/lock: cannot be written: it is a link");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(dir, "is no lock of these programs");
    unlink(path);
    scratch_mkdir("theirs/lock");
    refused(dir, "theirs/lock: cannot be written");
}

/* What a process has locked it need not wait for. */
static void waits_for_others_only(void **state) {
    (void)state;
    DirLock run, data, again;
    const char *dir = scratch_mkdir("own");
    take(&run, dir);
    alarm(20);
    lock_wait(&data, dir);
    lock_wait(&again, scratch_mkdir("data"));
    alarm(0);
    assert_int_equal(data.dir, -1);
    lock_release(&data);
    refused(dir, "is in use");
    refused(scratch("data"), "is in use by another process");
    lock_release(&again);
    lock_release(&run);
    lock_wait(&data, dir);
    assert_true(data.dir >= 0);
    lock_release(&data);
    lock_wait(&data, scratch("absent"));
    lock_release(&data);
}

/* On NFS a directory's lock is each host's own: of two processes that do not see each other's the
 * file keeps one waiting. It is gone when both are done. */
static void waits_for_a_file(void **state) {
    (void)state;
    const char *dir = scratch_mkdir("nfs"), *path = scratch("nfs/.lock");
    int ends[2];
    char said = 0;
    DirLock l;
    const int theirs = open(path, O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(theirs, LOCK_EX), 0);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        close(theirs); /* a copy of the descriptor would hold the lock, too */
        lock_wait(&l, dir);
        const bool waited = write(ends[1], "w", 1) == 1 && access(path, F_OK) == 0;
        lock_release(&l);
        _exit(waited && access(path, F_OK) != 0 ? 0 : 1);
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    assert_int_equal(read(ends[0], &said, 1), -1);
    assert_int_equal(unlink(path), 0); /* as the one before releases it */
    close(theirs);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]), close(ends[1]);
}

static void leaves_no_file(void **state) {
    (void)state;
    DirLock l;
    const char *dir = scratch_mkdir("tidy");
    lock_wait(&l, dir);
    assert_true(l.file >= 0);
    assert_int_equal(access(scratch("tidy/.lock"), F_OK), 0);
    lock_release(&l);
    assert_int_equal(access(scratch("tidy/.lock"), F_OK), -1);
    assert_int_equal(symlink("elsewhere", scratch("tidy/.lock")), 0);
    lock_wait(&l, dir);
    assert_true(l.dir >= 0 && l.file < 0);
    lock_release(&l);
    assert_int_equal(access(scratch("tidy/elsewhere"), F_OK), -1);
}

static void stands(void **state) {
    (void)state;
    DirLock l;
    const char *dir = scratch_mkdir("moves");
    take(&l, dir);
    assert_true(lock_stands(&l, dir));
    assert_int_equal(rename(dir, scratch("moved")), 0);
    assert_false(lock_stands(&l, dir));
    assert_true(lock_stands(&l, scratch("moved")));
    scratch_mkdir("moves");
    assert_false(lock_stands(&l, dir));
    lock_release(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),         cmocka_unit_test(without_its_file),
        cmocka_unit_test(the_file_alone),        cmocka_unit_test(what_is_not_ours),
        cmocka_unit_test(waits_for_others_only), cmocka_unit_test(stands),
        cmocka_unit_test(waits_for_a_file),      cmocka_unit_test(leaves_no_file),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
