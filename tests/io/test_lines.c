#include "io/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "scratch.h"

/* The most memory that this process has held, in KiB. */
static long peak(void) {
    struct rusage use;
    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_maxrss;
}

static void open_text(Lines *l, const char *text, size_t size) {
    Err err = {0};
    if (!lines_open(l, scratch_write("table", text, size), &err)) fail_msg("%s", err.text);
}

static void test_ends(void **state) {
    static const struct {
        const char *text;
        int n;
        const char *line[4];
    } cases[] = {
        {"a", 1, {"a"}},
        {"a\n", 1, {"a"}},
        {"a\r\n", 1, {"a"}},
        {"a\r", 1, {"a"}},
        {"\n", 1, {""}},
        {"\r\n\n", 2, {"", ""}},
        {"a\n\nb\r\nc\r\r\n", 4, {"a", "", "b", "c\r"}},
        {"a\rb\nc", 2, {"a\rb", "c"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Lines l;
        Err err;
        open_text(&l, cases[i].text, strlen(cases[i].text));
        for (int k = 0; k < cases[i].n; k++) {
            assert_true(lines_next(&l, &err) && l.text.at);
            assert_true(span_is(l.text, cases[i].line[k]));
            assert_int_equal(l.line, k + 1);
        }
        for (int k = 0; k < 2; k++) assert_true(lines_next(&l, &err) && !l.text.at);
        lines_close(&l);
    }
}

static void test_columns(void **state) {
    Lines l;
    Span c[3];
    Err err;
    (void)state;
    open_text(&l, "\n\t\na\t\"b\tc\"\t\xff", 12);
    assert_true(lines_next(&l, &err));
    assert_int_equal(lines_columns(&l, c, 3), 1);
    assert_true(span_is(c[0], ""));
    assert_true(lines_next(&l, &err));
    assert_int_equal(lines_columns(&l, c, 3), 2);
    assert_true(span_is(c[0], "") && span_is(c[1], ""));
    assert_true(lines_next(&l, &err));
    assert_int_equal(lines_columns(&l, c, 3), 4);
    assert_true(span_is(c[0], "a") && span_is(c[1], "\"b") && span_is(c[2], "c\""));
    lines_close(&l);
}

static void refuse_line(const char *what) {
    Lines l;
    Err err = {0};
    assert_true(lines_open(&l, scratch("table"), &err));
    bool ok;
    while ((ok = lines_next(&l, &err)) && l.text.at) continue;
    assert_false(ok);
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    lines_close(&l);
}

static void test_limits(void **state) {
    enum { MOST = LINE_MOST };
    static char text[MOST + 8];
    Lines l;
    Err err;
    (void)state;
    memset(text, 'x', sizeof text);
    for (int crlf = 0; crlf < 2; crlf++) { /* as long as is allowed, with either end and none */
        memcpy(text + MOST, crlf ? "\r\ny" : "\ny", 3);
        open_text(&l, text, (size_t)(MOST + 2 + crlf));
        assert_true(lines_next(&l, &err) && l.text.size == MOST);
        assert_true(lines_next(&l, &err) && span_is(l.text, "y"));
        lines_close(&l);
    }
    open_text(&l, text, MOST);
    assert_true(lines_next(&l, &err) && l.text.size == MOST);
    lines_close(&l);
    memset(text, 'x', sizeof text);
    scratch_write("table", text, MOST + 1);
    refuse_line("table: line 1: 1048577 bytes, expected at most 1048576");
    scratch_write("table", text, MOST + 2);
    refuse_line("table: line 1: longer than 1048576 bytes");
    /* A line of 1 GB is not read to its end. */
    const long before = peak();
    scratch_write("table", "a\nb", 3);
    assert_int_equal(truncate(scratch("table"), 1 << 30), 0);
    refuse_line("table: line 2: longer than 1048576 bytes");
    assert_true(peak() - before < 64 << 10);
    scratch_write("table", "a\nbc\0d\n", 7);
    refuse_line("table: line 2: byte 3 is NUL");
}

static void test_no_file(void **state) {
    Lines l;
    Err err;
    (void)state;
    assert_false(lines_open(&l, scratch("nowhere"), &err));
    assert_int_equal(err.code, EX_NOINPUT);
    assert_false(lines_open(&l, scratch_write("empty", "", 0), &err));
    assert_int_equal(err.code, EX_DATAERR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
