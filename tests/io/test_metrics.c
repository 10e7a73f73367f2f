#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "core/real.h"
#include "io/json.h"
#include "io/metrics.h"
#include "text.h"

static void check_text(const char *path, const char *expected) {
    char *text = text_read(path);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void lines_of_json(void **state) {
    (void)state;
    Err err;
    Metrics m;
    const char *path = scratch("lines.jsonl");
    assert_true(metrics_open(&m, path, &err));
    metrics_begin(&m);
    metrics_int(&m, "step", 9007199254740993);
    metrics_real(&m, "loss", 0.5);
    metrics_real(&m, "nan", NAN);
    metrics_real(&m, "inf", -INFINITY);
    metrics_text(&m, "a \"key\"", "line\nbreak \x01\xff");
    assert_true(metrics_end(&m, &err));
    check_text(path, "{\"step\": 9007199254740993, \"loss\": 0.5, \"nan\": null, \"inf\": null, "
                     "\"a \\\"key\\\"\": \"line\\u000abreak \\u0001\\ufffd\"}\n");
    metrics_begin(&m);
    metrics_text(&m, "dropped", "a line that is begun anew");
    metrics_begin(&m);
    metrics_int(&m, "b", 2);
    assert_true(metrics_end(&m, &err));
    metrics_begin(&m);
    assert_true(metrics_end(&m, &err));
    char *text = text_read(path);
    assert_string_equal(strchr(text, '\n'), "\n{\"b\": 2}\n{}\n");
    free(text);
    metrics_close(&m);
    metrics_close(&m);
}

static void numbers_come_back(void **state) {
    (void)state;
    static const double values[] = {0.1, 1.0 / 3, 1e-45, 3.4028235e38, 16777217, -2.5e-7};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        Err err;
        Metrics m;
        const char *path = scratch("number.jsonl");
        unlink(path);
        assert_true(metrics_open(&m, path, &err));
        metrics_begin(&m);
        metrics_real(&m, "x", (double)(real)values[i]);
        assert_true(metrics_end(&m, &err));
        metrics_close(&m);
        cJSON *line = json_read(path, &err);
        assert_non_null(line);
        assert_true((real)line->child->valuedouble == (real)values[i]);
        cJSON_Delete(line);
    }
}

static void write_step(Metrics *m, int step) {
    Err err;
    metrics_begin(m);
    metrics_int(m, "step", step);
    assert_true(metrics_end(m, &err));
}

static void appends_after_a_crash(void **state) {
    (void)state;
    Err err;
    Metrics m;
    const char *path = scratch_write("torn.jsonl", "{\"step\": 1}\n{\"st", 16);
    for (int step = 2; step <= 3; step++) {
        assert_true(metrics_open(&m, path, &err));
        write_step(&m, step);
        metrics_close(&m);
    }
    check_text(path, "{\"step\": 1}\n{\"st\n{\"step\": 2}\n{\"step\": 3}\n");
}

static bool end_on_full_disk(Metrics *m, rlim_t bytes, Err *err) {
    struct rlimit saved, small;
    getrlimit(RLIMIT_FSIZE, &saved);
    small = (struct rlimit){.rlim_cur = bytes, .rlim_max = saved.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const bool ok = metrics_end(m, err);
    setrlimit(RLIMIT_FSIZE, &saved);
    return ok;
}

static void refuse_step(Metrics *m, int step) {
    Err err;
    metrics_begin(m);
    metrics_int(m, "step", step);
    assert_false(end_on_full_disk(m, 8, &err));
    assert_int_equal(err.code, EX_IOERR);
    assert_non_null(strstr(err.text, strerror(EFBIG)));
    assert_non_null(strstr(err.text, m->path));
}

static void full_disk_keeps_lines_whole(void **state) {
    (void)state;
    Err err;
    Metrics m;
    const char *path = scratch("full.jsonl");
    signal(SIGXFSZ, SIG_IGN);
    assert_true(metrics_open(&m, path, &err));
    write_step(&m, 1);
    refuse_step(&m, 2);
    refuse_step(&m, 3);
    check_text(path, "{\"step\": 1}\n");
    metrics_begin(&m);
    metrics_int(&m, "dropped", 1);
    write_step(&m, 4);
    check_text(path, "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4}\n");
    write_step(&m, 5);
    metrics_close(&m);
    check_text(path, "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4}\n{\"step\": 5}\n");
}

/* Without a line that comes after it. */
static void what_was_refused_is_flushed(void **state) {
    (void)state;
    Err err;
    Metrics m;
    const char *path = scratch("flushed.jsonl");
    signal(SIGXFSZ, SIG_IGN);
    assert_true(metrics_open(&m, path, &err));
    assert_true(metrics_flush(&m, &err));
    refuse_step(&m, 1);
    for (int i = 0; i < 2; i++) {
        assert_true(metrics_flush(&m, &err));
        check_text(path, "{\"step\": 1}\n");
    }
    write_step(&m, 2);
    metrics_close(&m);
    check_text(path, "{\"step\": 1}\n{\"step\": 2}\n");
}

static void refuses_what_is_no_file(void **state) {
    (void)state;
    Err err;
    Metrics m;
    const char *fifo = scratch("fifo");
    const char *const paths[] = {scratch("absent/x"), scratch_dir, "/dev/full", fifo};
    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_false(metrics_open(&m, paths[i], &err));
        assert_int_equal(err.code, EX_CANTCREAT);
        assert_non_null(strstr(err.text, paths[i]));
        metrics_close(&m);
    }
}

/* A disk that has room for one of them. */
static void room_for_some(void **state) {
    (void)state;
    Err err;
    Metrics m;
    const char *path = scratch("some.jsonl");
    signal(SIGXFSZ, SIG_IGN);
    assert_true(metrics_open(&m, path, &err));
    refuse_step(&m, 1);
    refuse_step(&m, 2);
    metrics_begin(&m);
    metrics_int(&m, "step", 3);
    assert_false(end_on_full_disk(&m, 20, &err));
    check_text(path, "{\"step\": 1}\n");
    write_step(&m, 4);
    metrics_close(&m);
    check_text(path, "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4}\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_json),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(appends_after_a_crash),
        cmocka_unit_test(full_disk_keeps_lines_whole),
        cmocka_unit_test(what_was_refused_is_flushed),
        cmocka_unit_test(room_for_some),
        cmocka_unit_test(refuses_what_is_no_file),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
