#include "train/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/json.h"
#include "train/made.h"

#define CONFIG                                                                                     \
    "{\"task\": \"listops\", \"model\": {\"attention\": {\"clusters\": 4}},\n"                     \
    " \"train\": {\"epochs\": 2, \"batch\": 8, \"accumulate\": 2}}\n"

static Run read_run(const char *metrics, bool curves) {
    Run r;
    Err err;
    if (!run_read(&r, make_run("run", CONFIG, metrics), curves, &err)) fail_msg("%s", err.text);
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
    assert_true(isnan(r.train.line[0].value[RUN_RSS_MB]));
    assert_true(r.tested[RUN_LAST] && r.test[RUN_LAST].value[RUN_ACCURACY] == 0.375);
    assert_true(r.tested[RUN_BEST] && r.test[RUN_BEST].step == 1);
    assert_int_equal(run_best(&r)->step, 2);
    assert_int_equal(r.unread, 0);
    run_free(&r);
}

/* Of a run that was begun anew, the weights that it then began with. */
static void test_init(void **state) {
    (void)state;
    Run r = {.env = cJSON_Parse("{\"earlier\": [{\"init\": 1}, {}, {\"init\": 2}, {}]}")};
    assert_int_equal(run_init(&r)->valueint, 2);
    cJSON_AddNumberToObject(r.env, "init", 3);
    assert_int_equal(run_init(&r)->valueint, 3);
    run_free(&r);
    r.env = cJSON_Parse("{\"earlier\": [{}]}");
    assert_null(run_init(&r));
    run_free(&r);
}

/* What else stands there is for people. */
static void test_changes(void **state) {
    (void)state;
    const char *metrics = TRAIN(1, 2.5, 1) MARK("save", 1, 1)
        MARK("resume", 1,
             1) "{\"kind\": \"change\", \"step\": 1, \"epoch\": 0.5, \"what\": \"data.train\", "
                "\"was\": \"0123abcd\", \"now\": \"4567abcd\"}\n" TRAIN(2, 2.0, 2) VAL(2, 0.5, 2);
    for (int curves = 0; curves < 2; curves++) {
        Run r = read_run(metrics, curves);
        assert_int_equal(r.train.n, 2);
        assert_int_equal(r.val.n, 1);
        assert_int_equal(r.mark.step, 1);
        assert_int_equal(r.unread, 0);
        run_free(&r);
    }
}

#define CHANGE(what)                                                                               \
    "{\"kind\": \"change\", \"step\": 1, \"epoch\": 0.5, \"what\": \"" what                        \
    "\", \"was\": \"0123abcd\", \"now\": \"4567abcd\"}\n"

/* A best by examples that no longer validate is none, however good it was. */
static void test_other_validation(void **state) {
    (void)state;
    static const struct {
        const char *metrics;
        int val;
    } tries[] = {
        {VAL(1, 0.1, 2) MARK("resume", 1, 1) CHANGE("data.train") VAL(2, 0.5, 2), 2},
        {VAL(1, 0.1, 2) MARK("resume", 1, 1) CHANGE("data.val") VAL(2, 0.5, 2), 1},
        {VAL(1, 0.1, 2) MARK("resume", 1, 1) CHANGE("data.val") VAL(1, 0.5, 2), 1},
        {VAL(1, 0.1, 2) MARK("resume", 1, 1) CHANGE("data.val"), 0},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        Run r = read_run(tries[i].metrics, true);
        assert_int_equal(r.val.n, tries[i].val);
        run_free(&r);
    }
}

/* Lines of training are read without a tree where they are as training writes them. */
static void test_lines_of_others(void **state) {
    (void)state;
    Run r = read_run("{\"kind\": \"train\", \"step\": 1, \"loss\": 2e-1, \"lr\": null}\n"
                     "{\"step\":2,\"loss\":-0.5,\"kind\":\"train\"}\n"
                     "{\"kind\": \"train\", \"loss\": 3, \"new\": {\"a\": 1}, \"step\": 3}\n"
                     "{\"kind\": \"train\", \"lo\\u0073s\": 4, \"step\": 4}\n"
                     "{\"kind\": \"train\", \"step\": 0x5, \"loss\": 5}\n"
                     "{\"kind\": \"train\", \"step\": 6, \"loss\": 6\n"
                     "{\"kind\": \"train\", \"step\": 7, \"loss\": 7}}\n"
                     "{\"kind\": \"train\", \"step\": 8, \"loss\": nan}\n"
                     "{\"kind\": \"train\", \"step\": -9, \"loss\": 9}\n"
                     "{\"kind\": \"train\", \"step\": 10, \"loss\": 012}\n"
                     "{\"kind\": \"train\", \"loss\": 11}\n",
                     true);
    const double loss[] = {0.2, -0.5, 3, 4};
    assert_int_equal(r.train.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r.train.line[i].step, i + 1);
        assert_true(r.train.line[i].value[RUN_LOSS] == loss[i]);
        assert_true(isnan(r.train.line[i].value[RUN_RSS_MB]));
    }
    assert_int_equal(r.unread, 7);
    run_free(&r);
}

/* As strtod reads them, to the bit. */
static void test_numbers(void **state) {
    static const char *const numbers[] = {"0.1",
                                          "-0.3",
                                          "2.30258509",
                                          "123456.789012345",
                                          "0.000123456789012",
                                          "999999999999999",
                                          "1e22",
                                          "9007199254740993",
                                          "0.1234567890123456789",
                                          "5e-324",
                                          "1.5E3",
                                          "0",
                                          "-0"};
    enum { N = sizeof numbers / sizeof *numbers };
    char text[N * 64] = "";
    (void)state;
    for (int i = 0; i < N; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used,
                 "{\"kind\": \"train\", \"step\": %d, \"loss\": %s}\n", i + 1, numbers[i]);
    }
    Run r = read_run(text, true);
    assert_int_equal(r.train.n, N);
    for (int i = 0; i < N; i++) {
        const double want = strtod(numbers[i], NULL), got = r.train.line[i].value[RUN_LOSS];
        assert_memory_equal(&got, &want, sizeof got);
    }
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

/* train.best: by accuracy where it is not said. */
static void test_best_by_loss(void **state) {
    (void)state;
    Run r = read_run(VAL(1, 0.75, 2) VAL(2, 0.25, 1) VAL(3, 0.5, 1) VAL(4, 0.5, 1), true);
    cJSON *train = cJSON_GetObjectItemCaseSensitive(r.config, "train");
    assert_int_equal(run_best(&r)->step, 1);
    cJSON_AddStringToObject(train, "best", "loss");
    assert_int_equal(run_best(&r)->step, 3);
    cJSON_ReplaceItemInObjectCaseSensitive(train, "best", cJSON_CreateString("accuracy"));
    assert_int_equal(run_best(&r)->step, 1);
    run_free(&r);
}

/* Training never keeps such weights, whatever their accuracy. */
static void test_best_has_a_finite_loss(void **state) {
    (void)state;
    Run r = read_run(VAL(1, 0.5, 2) VAL(2, 0.75, null), true);
    assert_int_equal(run_best(&r)->step, 1);
    run_free(&r);
    r = read_run(VAL(1, 0.75, null) VAL(2, 0.75, 1), true);
    assert_int_equal(run_best(&r)->step, 2);
    run_free(&r);
    r = read_run(VAL(1, 0.75, null), true);
    assert_null(run_best(&r));
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

/* What they came to is in env.json alone. */
static void test_end_of_operations(void **state) {
    Run r;
    Err err;
    (void)state;
    const char *dir = make_run("measured", "{\"train\": {\"petaflops\": 2, \"epochs\": 3}}",
                               TRAIN(5, 2, 1) TEST(20, "last", 0.5));
    if (!run_read(&r, dir, false, &err)) fail_msg("%s", err.text);
    assert_int_equal(run_updates(&r), 0);
    assert_false(run_done(&r));
    run_free(&r);
    scratch_write("measured/env.json", "{\"updates\": 20}", 15);
    if (!run_read(&r, dir, false, &err)) fail_msg("%s", err.text);
    assert_int_equal(run_updates(&r), 20);
    assert_true(run_done(&r));
    run_free(&r);
}

/* As 0.1.0 wrote them of weights that are no numbers. */
static void test_a_test_without_a_loss(void **state) {
    static const char none[] = "{\"kind\": \"test\", \"step\": 20, \"which\": \"last\", "
                               "\"accuracy\": 0.15, \"loss\": null}\n";
    char metrics[512];
    (void)state;
    snprintf(metrics, sizeof metrics, TRAIN(5, 2, 1) "%s", none);
    Run r = read_run(metrics, false);
    assert_false(run_done(&r) || r.tested[RUN_LAST]);
    assert_int_equal(r.unread, 0);
    run_free(&r);
    snprintf(metrics, sizeof metrics, TRAIN(5, 2, 1) TEST(20, "last", 0.5) "%s", none);
    r = read_run(metrics, false);
    assert_false(run_done(&r) || r.tested[RUN_LAST]);
    run_free(&r);
}

/* So few updates that no line of training was due: what was saved tells how many an epoch has. */
static void test_end_without_lines(void **state) {
    (void)state;
    Run r = read_run(MARK("save", 20, 3) TEST(20, "last", 0.5), false);
    assert_int_equal(run_updates(&r), 200); /* "epoch": 0.20 */
    assert_false(run_done(&r));
    run_free(&r);
    r = read_run(
        "{\"kind\": \"save\", \"step\": 20, \"epoch\": 2, \"seconds\": 4}\n" TEST(20, "last", 0.5),
        false);
    assert_true(run_done(&r));
    assert_true(run_made(&r).step == 20 && run_samples_per_s(&r) == 80);
    run_free(&r);
}

/* Sooner than the config says, but no sooner than its tests; what goes on from before it has more
 * to do. */
static void test_out_of_patience(void **state) {
    (void)state;
    for (int curves = 0; curves < 2; curves++) {
        Run r = read_run(TRAIN(5, 3, 1) MARK("patience", 7, 3) TEST(7, "last", 0.5), curves);
        assert_true(r.patience == 7 && run_done(&r));
        assert_int_equal(r.unread, 0);
        run_free(&r);
        r = read_run(TRAIN(5, 3, 1) MARK("patience", 7, 3), curves);
        assert_false(run_done(&r));
        run_free(&r);
        r = read_run(TRAIN(5, 3, 1) TEST(7, "last", 0.5), curves);
        assert_false(run_done(&r));
        run_free(&r);
        r = read_run(TRAIN(5, 3, 1) MARK("patience", 7, 3) TEST(7, "last", 0.5) MARK("resume", 5, 2)
                         TEST(7, "last", 0.5),
                     curves);
        assert_false(run_done(&r));
        run_free(&r);
    }
}

/* Where a process begins, what was reported of later updates is undone, and so are tests. */
static void test_begun_again(void **state) {
    (void)state;
    for (int curves = 0; curves < 2; curves++) {
        Run r = read_run(TRAIN(1, 3, 1) TRAIN(2, 4, 2) VAL(2, 0.5, 1) MARK("save", 2, 2)
                             TRAIN(3, 5, 3) TRAIN(4, 5, 3) VAL(4, 0.75, 1) MARK("resume", 2, 2),
                         curves);
        assert_int_equal(r.train.line[r.train.n - 1].step, 2);
        assert_int_equal(r.val.n, 1);
        assert_true(run_made(&r).value[RUN_SECONDS] == 2);
        run_free(&r);
        r = read_run(TRAIN(20, 3, 1) VAL(10, 0.5, 1) TEST(20, "last", 0.5) TEST(10, "best", 0.5)
                         MARK("resume", 0, 0) TRAIN(1, 4, 2),
                     curves);
        assert_int_equal(r.train.n, 1);
        assert_int_equal(r.val.n, 0);
        assert_false(r.tested[RUN_LAST] || r.tested[RUN_BEST] || run_done(&r));
        run_free(&r);
    }
}

/* So it is where a run goes back to its last validation, twice, of lines that it has made anew. */
static void test_rolled_back(void **state) {
    (void)state;
    for (int curves = 0; curves < 2; curves++) {
        Run r = read_run(TRAIN(1, 3, 1) TRAIN(2, 4, 2) VAL(2, 0.5, 1) MARK("save", 2, 2)
                             TRAIN(3, 5, 3) TRAIN(4, 5, 4) MARK("save", 4, 4) MARK("rollback", 2, 5)
                                 MARK("save", 2, 5) TRAIN(3, 6, 6) MARK("rollback", 2, 7)
                                     MARK("save", 2, 7) TRAIN(3, 7, 8),
                         curves);
        assert_int_equal(r.train.n, curves ? 3 : 2);
        assert_true(r.train.line[r.train.n - 1].value[RUN_LOSS] == 7);
        assert_true(run_made(&r).step == 3 && run_made(&r).value[RUN_SECONDS] == 8);
        assert_int_equal(r.val.n, 1);
        assert_int_equal(r.unread, 0);
        run_free(&r);
        r = read_run(TRAIN(5, 3, 3) MARK("save", 6, 4) "{\"kind\": \"skip\", \"step\": 7}\n" MARK(
                         "rollback", 2, 5),
                     curves);
        assert_true(run_made(&r).step == 2 && run_made(&r).value[RUN_SECONDS] == 5);
        assert_int_equal(r.unread, 0);
        run_free(&r);
    }
}

/* A run of minutes that was given more of them is not done, whether it went on already or not. */
static void test_a_timed_run_goes_on(void **state) {
    static const char config[] =
        "{\"task\": \"listops\", \"train\": {\"steps\": 1000, \"minutes\": 2}}\n";
#define TESTED TRAIN(5, 2, 119) MARK("save", 6, 120) TEST(6, "last", 0.5)
#define RESUMED MARK("resume", 6, 120)
    static const struct {
        const char *metrics;
        bool done;
    } cases[] = {{TESTED, true},
                 {TRAIN(5, 2, 59) MARK("save", 6, 60) TEST(6, "last", 0.5), false},
                 {TESTED RESUMED, false},
                 {TESTED RESUMED TEST(6, "last", 0.5), true},
                 {TESTED RESUMED TRAIN(10, 2, 130), false},
                 {TESTED RESUMED TRAIN(10, 2, 130) TEST(10, "last", 0.5), true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Run r;
        Err err;
        if (!run_read(&r, make_run("timed", config, cases[i].metrics), false, &err))
            fail_msg("%s", err.text);
        assert_int_equal(run_done(&r), cases[i].done);
        assert_int_equal(r.unread, 0);
        run_free(&r);
    }
}

/* Blocks of zeros are what a loss of power may leave of a file. */
static void test_zeros(void **state) {
    static const char line[] = "{\"kind\": \"train\", \"loss\0oss\": 5, \"step\": 1}\n";
    Run r;
    Err err;
    (void)state;
    const char *dir = make_run("zeros", CONFIG, NULL);
    scratch_write("zeros/metrics.jsonl", line, sizeof line - 1);
    if (!run_read(&r, dir, true, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.train.n, 0);
    assert_int_equal(r.unread, 1);
    run_free(&r);
}

static void test_huge_numbers(void **state) {
    Run r;
    Err err;
    (void)state;
    if (!run_read(&r, make_run("huge", "{\"train\": {\"steps\": 1e300}}", NULL), false, &err))
        fail_msg("%s", err.text);
    assert_true(run_updates(&r) == 1000000000000000);
    run_free(&r);
    r = read_run("{\"kind\": \"train\", \"step\": 1, \"epoch\": 1e-300}\n", false);
    assert_true(run_updates(&r) == 1000000000000000);
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

/* The last line of training is the same with and without the others. */
static void test_damaged_last_line(void **state) {
    (void)state;
    for (int curves = 0; curves < 2; curves++) {
        Run r =
            read_run(VAL(1, 0.5, 1) TRAIN(2, 3, 1)
                         VAL(2, 0.5, 1) "{\"kind\": \"train\", \"step\": 5, \n" VAL(
                             5, 0.5, 1) "{\"kind\": \"train\", \"step\": 6, \"lo\n" VAL(6, 0.5, 1),
                     curves);
        assert_int_equal(r.train.n, 1);
        assert_int_equal(r.train.line[0].step, 2);
        assert_int_equal(r.unread, 2);
        run_free(&r);
    }
    Run r = read_run("{\"kind\": \"train\", \"step\": 6, \"lo\n", false);
    assert_int_equal(r.train.n, 0);
    assert_int_equal(r.unread, 1);
    run_free(&r);
}

static void test_keys(void **state) {
    (void)state;
    Run r = read_run("", false);
    assert_true(run_number(&r, "model.attention.clusters", 0) == 4);
    assert_true(run_number(&r, "model.attention", 7) == 7);
    assert_null(json_at(r.config, "model.attention.cluster"));
    assert_null(json_at(r.config, "task.none"));
    assert_string_equal(json_at(r.config, "task")->valuestring, "listops");
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
    refused(make_run("empty", NULL, NULL), EX_NOINPUT, "has no config.json");
    refused(make_run("half", "{\"task\": ", NULL), EX_DATAERR, "config.json");
    refused(make_run("list", "[1]", NULL), EX_DATAERR, "config.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_other_validation),
        cmocka_unit_test(test_lines_of_others),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_last_line_alone),
        cmocka_unit_test(test_steps_done_twice),
        cmocka_unit_test(test_equal_accuracy),
        cmocka_unit_test(test_best_by_loss),
        cmocka_unit_test(test_best_has_a_finite_loss),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_end_of_operations),
        cmocka_unit_test(test_a_test_without_a_loss),
        cmocka_unit_test(test_end_without_lines),
        cmocka_unit_test(test_out_of_patience),
        cmocka_unit_test(test_begun_again),
        cmocka_unit_test(test_rolled_back),
        cmocka_unit_test(test_a_timed_run_goes_on),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_huge_numbers),
        cmocka_unit_test(test_damaged_lines),
        cmocka_unit_test(test_damaged_last_line),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_other_directories),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
