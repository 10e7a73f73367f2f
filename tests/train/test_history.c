#include "train/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text.h"

#define T10 "{\"kind\": \"train\", \"step\": 10, \"seconds\": 1.5}\n"
#define T20 "{\"kind\": \"train\", \"step\": 20, \"seconds\": 2.5}\n"
#define V20 "{\"kind\": \"val\", \"step\": 20, \"seconds\": 9}\n"
#define T30 "{\"kind\": \"train\", \"step\": 30, \"seconds\": 3.5}\n"
#define T20_AGAIN "{\"kind\": \"train\", \"step\": 20, \"seconds\": 4.5}\n"
#define TEST "{\"kind\": \"test\", \"step\": 30, \"which\": \"last\"}\n"
#define S25 "{\"kind\": \"save\", \"step\": 25, \"seconds\": 3}\n"
#define ALL T10 T20 V20 T30 TEST

/* Returns the update that tells it. */
static int64_t expect(const char *text, int64_t update, double seconds) {
    const char *path = scratch_write("metrics.jsonl", text, strlen(text));
    double got;
    int64_t told;
    Err err;
    if (!run_seconds(path, update, &got, &told, &err)) fail_msg("%s", err.text);
    char *after = text_read(path);
    assert_string_equal(after, text);
    assert_true(got == seconds);
    free(after);
    return told;
}

static void test_seconds(void **state) {
    (void)state;
    expect(ALL, 30, 3.5);
    expect(ALL, 29, 2.5);
    expect(ALL, 20, 2.5);
    expect(ALL, 0, 0);
    expect("", 5, 0);
}

/* A checkpoint's time is known to the update. */
static void test_saved_between_lines(void **state) {
    (void)state;
    assert_int_equal(expect(T10 T20 S25, 25, 3), 25);
    assert_int_equal(expect(T10 T20 S25 T30, 29, 3), 25);
    assert_int_equal(expect(T10 T20 S25, 24, 2.5), 20);
}

static void test_steps_done_twice(void **state) {
    (void)state;
    expect(ALL T20_AGAIN, 20, 4.5);
    expect(ALL T20_AGAIN, 30, 4.5); /* of the process that wrote last */
    expect(ALL T20_AGAIN, 19, 1.5);
}

static void test_damage(void **state) {
    (void)state;
    expect(T10 "{\"kind\": \"tra", 20, 1.5);
    expect(T10 "\nnonsense\n[1]\n{\"kind\": 3}\n{\"step\": 1}\n" T20, 20, 2.5);
    expect(T10 "{\"kind\": \"train\", \"step\": null}\n", 20, 1.5);
}

static void test_missing(void **state) {
    double seconds = 1;
    int64_t told = 1;
    Err err;
    (void)state;
    assert_true(run_seconds(scratch("none.jsonl"), 1, &seconds, &told, &err));
    assert_true(seconds == 0 && told == 0);
    assert_int_equal(text_count(scratch_dir), 1);
    assert_false(run_seconds(scratch_mkdir("dir"), 1, &seconds, &told, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seconds),          cmocka_unit_test(test_saved_between_lines),
        cmocka_unit_test(test_steps_done_twice), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
