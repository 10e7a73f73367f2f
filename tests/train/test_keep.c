/* What cannot be written for a while is written later, and what never can is told by the exit
 * status: files whose fsync fails, and lines of metrics whose write does. */
#define _GNU_SOURCE /* syscall */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "io/file.h"
#include "text.h"
#include "train/run.h"
#include "train/small.h"
#include "train/train.h"

/* The C library's are behind ours: of files with this in their names, and of texts with that. The
 * first `pass` go well, the next `fail` fail. */
typedef struct Fault {
    const char *what;
    int pass, fail;
} Fault;
static Fault sync_fault, write_fault;

static bool fails(Fault *f, const char *in) {
    if (!f->what || !strstr(in, f->what)) return false;
    if (f->pass-- > 0 || f->fail-- <= 0) return false;
    errno = EIO;
    return true;
}

/* What came to the disk, in its order: m for lines of metrics, b and l for best and last. */
static char synced[4096];
static size_t nsynced;

static void note_synced(const char *name) {
    static const char *const parts[] = {"metrics.jsonl", "best.safetensors", "last.safetensors"};
    for (int i = 0; i < 3; i++)
        if (strstr(name, parts[i]) && nsynced < sizeof synced - 1) synced[nsynced++] = "mbl"[i];
    synced[nsynced] = '\0';
}

static void name_of(char name[1024], int fd) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, name, 1023);
    name[n > 0 ? n : 0] = '\0';
}

int fsync(int fd) {
    char name[1024];
    name_of(name, fd);
    if (fails(&sync_fault, name)) return -1;
    note_synced(name);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    char name[1024];
    name_of(name, fd);
    note_synced(name);
    return (int)syscall(SYS_fdatasync, fd);
}

ssize_t write(int fd, const void *data, size_t size) {
    char text[512];
    snprintf(text, sizeof text, "%.*s", size < sizeof text ? (int)size : (int)sizeof text - 1,
             (const char *)data);
    return fails(&write_fault, text) ? -1 : syscall(SYS_write, fd, data, size);
}

enum { ALWAYS = 1000000 };

/* Trains from the start, with the faults. */
static bool train(const char *dir, const char *keys, Fault sync, Fault write, Err *err) {
    Config c;
    TrainEnd end;
    char text[256];
    snprintf(text, sizeof text, "\"batch\":4,\"steps\":24,\"lr\":0.05,\"log_every\":100%s", keys);
    small_data(12, 40, 5, false);
    small_config(&c, text, false);
    const TrainRequest r = {.dir = scratch(dir), .command = "", .brief = true};
    sync_fault = sync, write_fault = write;
    const bool ok = train_run(&c, &r, &end, err);
    sync_fault = write_fault = (Fault){0};
    config_free(&c);
    return ok;
}

static void train_well(const char *dir, const char *keys, Fault sync, Fault write) {
    Err err;
    if (!train(dir, keys, sync, write, &err)) fail_msg("%s", err.text);
}

static void assert_same_file(const char *a, const char *b, const char *name) {
    char path[2][1100];
    size_t size[2];
    snprintf(path[0], sizeof path[0], "%s/%s", scratch(a), name);
    snprintf(path[1], sizeof path[1], "%s/%s", scratch(b), name);
    unsigned char *x = scratch_read(path[0], &size[0]), *y = scratch_read(path[1], &size[1]);
    assert_int_equal(size[0], size[1]);
    if (memcmp(x, y, size[0]) != 0) fail_msg("%s and %s differ", path[0], path[1]);
    free(x);
    free(y);
}

static Run read_run(const char *dir) {
    Run r;
    Err err;
    if (!run_read(&r, scratch(dir), true, &err)) fail_msg("%s", err.text);
    return r;
}

/* How often a new best comes: the others wait for one of these, or for a save. */
static int bests(const Run *r) {
    int n = 0;
    const RunLine *best = NULL;
    for (int i = 0; i < r->val.n; i++) {
        const RunLine *l = &r->val.line[i];
        const double more = best ? l->value[RUN_ACCURACY] - best->value[RUN_ACCURACY] : 1;
        if (more < 0 || (more == 0 && l->value[RUN_LOSS] >= best->value[RUN_LOSS])) continue;
        best = l;
        n++;
    }
    return n;
}

#define EACH ",\"eval_every\":3,\"ema\":0.3"

/* Whichever write of a best fails, and however often: the end is as if none had. */
static void test_a_best_that_failed(void **state) {
    const Fault none = {0};
    (void)state;
    train_well("sound", EACH, none, none);
    Run r = read_run("sound");
    const int n = bests(&r);
    assert_in_range(n, 2, 8);
    run_free(&r);
    for (int pass = 0; pass < n; pass++)
        for (int fail = 1; fail <= 5; fail += 2) {
            train_well("faulty", EACH, (Fault){"best.safetensors", pass, fail}, none);
            assert_same_file("sound", "faulty", "best.safetensors");
            assert_same_file("sound", "faulty", "last.safetensors");
            r = read_run("faulty");
            assert_true(run_done(&r));
            run_free(&r);
            scratch_remove(scratch("faulty"));
        }
}

/* The test is made of it all the same. */
static void test_a_best_that_is_lost(void **state) {
    const Fault none = {0};
    Err err;
    (void)state;
    train_well("whole", EACH, none, none);
    assert_false(train("lost", EACH, (Fault){"best.safetensors", 1, ALWAYS}, none, &err));
    assert_int_equal(err.code, EX_IOERR);
    if (!strstr(err.text, "the best weights, of update ")) fail_msg("%s", err.text);
    Run a = read_run("whole"), b = read_run("lost");
    for (int i = 0; i < RUN_TESTS; i++) {
        assert_true(b.tested[i]);
        assert_int_equal(a.test[i].step, b.test[i].step);
        assert_true(a.test[i].value[RUN_LOSS] == b.test[i].value[RUN_LOSS]);
    }
    run_free(&a);
    run_free(&b);
}

static void test_a_line_of_results(void **state) {
    static const char *const which[] = {"\"which\": \"last\"", "\"which\": \"best\""};
    const Fault none = {0};
    Err err;
    (void)state;
    for (int i = 0; i < RUN_TESTS; i++) {
        train_well("retold", EACH, none, (Fault){which[i], 0, 1});
        Run r = read_run("retold");
        assert_true(run_done(&r));
        run_free(&r);
        scratch_remove(scratch("retold"));
        assert_false(train("untold", EACH, none, (Fault){which[i], 0, ALWAYS}, &err));
        assert_int_equal(err.code, EX_IOERR);
        if (!strstr(err.text, "Its last lines are lost")) fail_msg("%s", err.text);
        r = read_run("untold");
        assert_false(run_done(&r));
        run_free(&r);
        scratch_remove(scratch("untold"));
    }
}

/* Training goes on without it, says so, and it comes with the next. */
static void test_a_line_that_waits(void **state) {
    size_t size;
    Err err;
    (void)state;
    const int before = dup(STDERR_FILENO);
    assert_non_null(freopen(scratch("said"), "w", stderr));
    const bool ok = train("gapped", EACH, (Fault){0}, (Fault){"\"kind\": \"val\"", 1, 1}, &err);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0);
    if (!ok) fail_msg("%s", err.text);
    unsigned char *said = scratch_read(scratch("said"), &size);
    assert_non_null(memmem(said, size, "tried again with the next", 25));
    free(said);
    Run r = read_run("gapped");
    assert_int_equal(r.val.n, 8);
    assert_true(run_done(&r));
    run_free(&r);
}

/* Those of before stay where the new one can not be written. */
static void test_one_that_is_not_kept(void **state) {
    (void)state;
    train_well("unkept", EACH ",\"keep\":2", (Fault){"/at-", 6, ALWAYS}, (Fault){0});
    assert_true(file_exists(scratch("unkept/at-0000000015.safetensors")));
    assert_true(file_exists(scratch("unkept/at-0000000018.safetensors")));
    assert_false(file_exists(scratch("unkept/at-0000000021.safetensors")));
}

/* After a power loss no checkpoint tells of a best, or of lines, that are not on the disk: before
 * each last come the lines, and before them the best that it names. */
static void test_the_order_of_the_disk(void **state) {
    (void)state;
    nsynced = 0;
    train_well("ordered", EACH, (Fault){0}, (Fault){0});
    const char *first_best = strchr(synced, 'b'), *first_last = strchr(synced, 'l');
    assert_true(first_best && first_last && first_best < first_last);
    for (const char *l = first_last; l; l = strchr(l + 1, 'l')) assert_int_equal(l[-1], 'm');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_best_that_failed),   cmocka_unit_test(test_a_best_that_is_lost),
        cmocka_unit_test(test_a_line_of_results),    cmocka_unit_test(test_a_line_that_waits),
        cmocka_unit_test(test_one_that_is_not_kept), cmocka_unit_test(test_the_order_of_the_disk),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
