#include "report/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text.h"

#define CONFIG                                                                                     \
    "{\"task\": \"listops\", \"model\": {\"attention\": {\"clusters\": 4}},\n"                     \
    " \"train\": {\"epochs\": 2, \"batch\": 8, \"accumulate\": 2}}\n"
#define TRAIN(step, loss, seconds)                                                                 \
    "{\"kind\": \"train\", \"step\": " #step ", \"epoch\": 0." #step ", \"loss\": " #loss          \
    ", \"seconds\": " #seconds "}\n"
#define VAL(step, accuracy, loss)                                                                  \
    "{\"kind\": \"val\", \"step\": " #step ", \"accuracy\": " #accuracy ", \"loss\": " #loss "}\n"
#define TEST(step, which, accuracy)                                                                \
    "{\"kind\": \"test\", \"step\": " #step ", \"which\": \"" which "\", \"accuracy\": " #accuracy \
    "}\n"

/* A run's directory of that name. */
static const char *make(const char *name, const char *config, const char *metrics) {
    static char path[1024];
    char inner[256];
    snprintf(path, sizeof path, "%s", scratch_mkdir(name));
    snprintf(inner, sizeof inner, "%s/config.json", name);
    if (config) scratch_write(inner, config, strlen(config));
    snprintf(inner, sizeof inner, "%s/metrics.jsonl", name);
    if (metrics) scratch_write(inner, metrics, strlen(metrics));
    return path;
}

static Run read_run(const char *metrics, bool curves) {
    Run r;
    Err err;
    if (!run_read(&r, make("run", CONFIG, metrics), curves, &err)) fail_msg("%s", err.text);
    return r;
}

static void test_lines(void **state) {
    (void)state;
    Run r = read_run(TRAIN(1, 2.5, 1) VAL(1, 0.25, 2.25) TRAIN(2, 2.0, 2) VAL(2, 0.5, 2)
                         TEST(2, "last", 0.375) TEST(1, "best", 0.625),
                     true);
    assert_int_equal(r.train.n, 2);
    assert_int_equal(r.val.n, 2);
    assert_true(r.train.line[0].value[RUN_LOSS] == 2.5);
    assert_true(isnan(r.train.line[0].value[RUN_LR]));
    assert_true(r.tested[RUN_LAST] && r.test[RUN_LAST].value[RUN_ACCURACY] == 0.375);
    assert_true(r.tested[RUN_BEST] && r.test[RUN_BEST].step == 1);
    assert_int_equal(run_best(&r)->step, 2);
    assert_int_equal(r.unread, 0);
    run_free(&r);
}

static void test_last_line_alone(void **state) {
    (void)state;
    Run r = read_run(TRAIN(1, 2.5, 1) TRAIN(2, 2.0, 2) VAL(2, 0.5, 2), false);
    assert_int_equal(r.train.n, 1);
    assert_int_equal(r.train.line[0].step, 2);
    assert_int_equal(r.val.n, 1);
    assert_true(run_samples_per_s(&r) == 16);
    run_free(&r);
}

static void test_steps_done_twice(void **state) {
    (void)state;
    Run r = read_run(TRAIN(1, 3, 1) TRAIN(2, 4, 2) TRAIN(3, 5, 3) VAL(3, 0.75, 1) TRAIN(2, 6, 4)
                         VAL(3, 0.5, 1),
                     true);
    assert_int_equal(r.train.n, 2);
    assert_true(r.train.line[1].value[RUN_LOSS] == 6);
    assert_int_equal(r.val.n, 1);
    assert_true(run_best(&r)->value[RUN_ACCURACY] == 0.5);
    run_free(&r);
}

static void test_equal_accuracy(void **state) {
    (void)state;
    Run r = read_run(VAL(1, 0.5, 2) VAL(2, 0.5, 1) VAL(3, 0.5, 3), true);
    assert_int_equal(run_best(&r)->step, 2);
    run_free(&r);
}

static void test_end(void **state) {
    (void)state;
    Run r = read_run(TRAIN(5, 2, 1) TEST(5, "last", 0.5), false);
    assert_int_equal(run_updates(&r), 20); /* 10 updates an epoch, 2 epochs */
    assert_false(run_done(&r));
    run_free(&r);
    r = read_run(TRAIN(5, 2, 1) TEST(20, "last", 0.5), false);
    assert_true(run_done(&r));
    run_free(&r);
    /* Where there is a best, its test comes second. */
    r = read_run(TRAIN(5, 2, 1) VAL(10, 0.5, 1) TEST(20, "last", 0.5), false);
    assert_false(run_done(&r));
    run_free(&r);
    r = read_run(TRAIN(5, 2, 1) VAL(10, 0.5, 1) TEST(20, "last", 0.5) TEST(10, "best", 0.5), false);
    assert_true(run_done(&r));
    run_free(&r);
    /* A best of before the run was made longer is not that of now. */
    r = read_run(TRAIN(5, 2, 1) VAL(10, 0.5, 1) TEST(10, "last", 0.5) TEST(10, "best", 0.5)
                     TEST(20, "last", 0.5),
                 false);
    assert_false(run_done(&r));
    run_free(&r);
    r = read_run(TRAIN(5, 2, 1) VAL(10, 0.5, null) TEST(20, "last", 0.5), false);
    assert_true(run_done(&r));
    run_free(&r);
}

static void test_damaged_lines(void **state) {
    (void)state;
    Run r = read_run(
        TRAIN(1, 2, 1) "nonsense\n\n{\"kind\": \"val\"}\n{\"kind\": \"new\", \"step\": 1}\n"
                       "{\"kind\": \"test\", \"step\": 1, \"which\": \"?\"}\n{\"kind\": \"tra",
        false);
    assert_int_equal(r.unread, 4);
    assert_int_equal(r.train.n, 1);
    run_free(&r);
    r = read_run("", true);
    assert_int_equal(r.train.n + r.val.n + r.unread, 0);
    assert_int_equal(run_updates(&r), 0);
    assert_true(isnan(run_samples_per_s(&r)));
    assert_null(run_best(&r));
    run_free(&r);
}

static void test_keys(void **state) {
    (void)state;
    Run r = read_run("", false);
    assert_true(run_number(&r, "model.attention.clusters", 0) == 4);
    assert_true(run_number(&r, "model.attention", 7) == 7);
    assert_null(run_key(&r, "model.attention.cluster"));
    assert_null(run_key(&r, "task.none"));
    assert_string_equal(run_key(&r, "task")->valuestring, "listops");
    run_free(&r);
}

static void refused(const char *dir, int code, const char *text) {
    Run r;
    Err err;
    assert_false(run_read(&r, dir, true, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text)) fail_msg("%s", err.text);
}

static void test_other_directories(void **state) {
    (void)state;
    refused(scratch("none"), EX_NOINPUT, "no such directory");
    refused(make("empty", NULL, NULL), EX_NOINPUT, "has no config.json");
    refused(make("half", "{\"task\": ", NULL), EX_DATAERR, "config.json");
    refused(make("list", "[1]", NULL), EX_DATAERR, "config.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_last_line_alone),
        cmocka_unit_test(test_steps_done_twice),
        cmocka_unit_test(test_equal_accuracy),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_damaged_lines),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_other_directories),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
