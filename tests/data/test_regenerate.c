/* A set that is made where another is: whatever fails, and whenever the process ends, there is one
 * preparation, whole, or none. This program's own rename does what it is told instead. */
#define _DEFAULT_SOURCE /* syscall */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/task.h"
#include "text.h"

enum { FEW = 20, MANY = 4000, WHOLE = SPLITS };
typedef enum { GO_ON, FAIL, DIE_BEFORE, DIE_BEHIND } Then;

static int renames_left = -1;
static Then then;

int rename(const char *from, const char *to) {
    const bool now = renames_left-- == 0;
    if (now && then == DIE_BEFORE) _exit(1);
    if (now && then == FAIL) {
        errno = EIO;
        return -1;
    }
    const int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (now && then == DIE_BEHIND) _exit(1);
    return result;
}

/* Sets of `count` examples a split, all of one token: which set a split is of. */
static bool make(int token, int count, Err *err) {
    DatasetWriter *w[SPLITS];
    task_writers(w, task_find("listops"), "a test");
    for (int s = 0; s < SPLITS; s++)
        for (int i = 0; i < count; i++)
            dataset_add_example(w[s], 0, dataset_add_document(w[s], &token, 1), -1);
    return task_finish(w, true, scratch("set"), err);
}

/* The set that a split is of; -1: it is not there. */
static int set_of(int split) {
    char path[FILE_PATH_MAX];
    Dataset d;
    Err err;
    assert_true(dataset_path(path, scratch("set"), split, &err));
    if (!file_exists(path)) return -1;
    if (!dataset_open(&d, path, &err) || !dataset_check_hash(&d, &err)) fail_msg("%s", err.text);
    const int token = (int)dataset_id(&d, 0);
    dataset_close(&d);
    return token;
}

/* Without train there is no set; each split that is there is whole all the same. */
static void check_one_set(void) {
    const int train = set_of(SPLIT_TRAIN), val = set_of(SPLIT_VAL), test = set_of(SPLIT_TEST);
    if (train >= 0) assert_true(val == train && test == train);
}

static void is_whole(int token) {
    for (int s = 0; s < SPLITS; s++) assert_int_equal(set_of(s), token);
}

static void start_with(int token) {
    Err err;
    scratch_remove(scratch("set"));
    if (!make(token, FEW, &err)) fail_msg("%s", err.text);
    is_whole(token);
}

/* As on a full disk: after val and test, which are small, or within any of them. */
static void no_room(void **state) {
    (void)state;
    struct rlimit saved, small;
    Err err;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &saved);
    start_with(1);
    for (rlim_t limit = 0; limit < 40000; limit += 4096) {
        small = (struct rlimit){.rlim_cur = limit, .rlim_max = saved.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        const bool ok = make(2, MANY, &err);
        setrlimit(RLIMIT_FSIZE, &saved);
        assert_false(ok);
        assert_int_equal(err.code, EX_IOERR);
        assert_non_null(strstr(err.text, "is untouched"));
        is_whole(1);
        assert_int_equal(text_count(scratch("set")), WHOLE);
    }
    assert_true(make(2, MANY, &err));
    is_whole(2);
}

static void a_rename_fails(void **state) {
    (void)state;
    Err err;
    for (int i = 0; i < SPLITS; i++) {
        start_with(1);
        renames_left = i;
        then = FAIL;
        assert_false(make(2, FEW, &err));
        assert_int_equal(err.code, EX_IOERR);
        assert_non_null(strstr(err.text, "no longer whole: make it again"));
        check_one_set();
        renames_left = -1;
        assert_true(make(2, FEW, &err));
        is_whole(2);
    }
}

static void killed_between(void **state) {
    (void)state;
    Err err;
    for (int i = 0; i < 2 * SPLITS; i++) {
        start_with(1);
        const pid_t pid = fork();
        if (pid == 0) {
            renames_left = i / 2;
            then = i % 2 ? DIE_BEHIND : DIE_BEFORE;
            make(2, FEW, &err);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        dataset_tidy(scratch("set"));
        check_one_set();
        assert_true(make(3, FEW, &err));
        is_whole(3);
        assert_int_equal(text_count(scratch("set")), WHOLE);
    }
}

/* Of a link that one is, the file that it leads to. */
static void links(void **state) {
    (void)state;
    struct stat st;
    Err err;
    start_with(1);
    scratch_mkdir("far");
    assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, scratch("set/train.safetensors"), AT_FDCWD,
                             scratch("far/t"), 0),
                     0);
    assert_int_equal(symlink("../far/t", scratch("set/train.safetensors")), 0);
    assert_true(make(2, FEW, &err));
    is_whole(2);
    assert_true(lstat(scratch("set/train.safetensors"), &st) == 0 && S_ISLNK(st.st_mode));
}

/* Two that make a set at once take turns. */
static void two_at_once(void **state) {
    (void)state;
    Err err;
    start_with(1);
    for (int turn = 0; turn < 20; turn++) {
        pid_t pid[2];
        for (int i = 0; i < 2; i++)
            if ((pid[i] = fork()) == 0) _exit(make(2 + i, FEW + turn, &err) ? 0 : 1);
        for (int i = 0; i < 2; i++) {
            int status;
            assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
            assert_int_equal(status, 0);
        }
        assert_true(set_of(SPLIT_TRAIN) > 0);
        check_one_set();
    }
}

/* A slip in --out must not cost the data of another task, nor may hours of work end at a place that
 * cannot be made. */
static void places_of_others(void **state) {
    (void)state;
    Err err = {0};
    start_with(1);
    TaskRequest r = {.out = scratch("set"), .train = FEW, .val = FEW, .test = FEW};
    assert_false(task_generate(task_find("pathfinder"), &r, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_non_null(strstr(err.text, "is of listops, so no set of pathfinder takes its place"));
    is_whole(1);
    assert_true(task_generate(task_find("listops"), &r, &err));
    r.out = scratch("set/train.safetensors");
    r.train = 10000000 - 2 * FEW; /* for hours */
    assert_false(task_generate(task_find("listops"), &r, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    r.out = scratch("set/train.safetensors/below");
    assert_false(task_generate(task_find("listops"), &r, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
}

/* A process that trains looks for what dead writers left, while another makes the set. */
static void tidied_meanwhile(void **state) {
    (void)state;
    Err err;
    start_with(1);
    const pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        while (getppid() == parent) dataset_tidy(scratch("set"));
        _exit(0);
    }
    int failed = 0;
    for (int i = 0; i < 100; i++) failed += !make(2, FEW, &err);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(failed, 0);
    is_whole(2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_room),          cmocka_unit_test(a_rename_fails),
        cmocka_unit_test(killed_between),   cmocka_unit_test(links),
        cmocka_unit_test(two_at_once),      cmocka_unit_test(places_of_others),
        cmocka_unit_test(tidied_meanwhile),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
