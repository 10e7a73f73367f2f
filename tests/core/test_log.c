#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/log.h"
#include "text.h"

typedef struct Row {
    double value;
    const char *text;
} Row;

typedef const char *Format(char *buf, size_t size, double value);

static void check_rows(Format *format, const Row *rows, size_t n) {
    char buf[32];
    for (size_t i = 0; i < n; i++)
        assert_string_equal(format(buf, sizeof buf, rows[i].value), rows[i].text);
}

static void durations(void **state) {
    (void)state;
    static const Row rows[] = {
        {0, "0.0 s"},       {4.21, "4.2 s"},  {9.94, "9.9 s"},      {9.96, "10 s"},
        {12, "12 s"},       {59.4, "59 s"},   {59.6, "1m 00s"},     {200, "3m 20s"},
        {3599.6, "1h 00m"}, {3720, "1h 02m"}, {360000, "100h 00m"}, {-1, "?"},
        {NAN, "?"},         {INFINITY, "?"},
    };
    check_rows(format_duration, rows, sizeof rows / sizeof *rows);
}

static void bytes(void **state) {
    (void)state;
    static const Row rows[] = {
        {0, "0 B"},          {999, "999 B"},     {1000, "1.0 kB"},  {340e3, "340 kB"},
        {999.6e3, "1.0 MB"}, {1.23e9, "1.2 GB"}, {9.96e9, "10 GB"}, {1e30, "1000000000000 EB"},
    };
    check_rows(format_bytes, rows, sizeof rows / sizeof *rows);
}

static void counts(void **state) {
    (void)state;
    static const Row rows[] = {
        {0, "0"},          {999, "999"},       {1234, "1.23 k"},    {45600, "45.6 k"},
        {456000, "456 k"}, {1.23e6, "1.23 M"}, {9.996e6, "10.0 M"}, {999999, "1.00 M"},
    };
    check_rows(format_count, rows, sizeof rows / sizeof *rows);
}

/* A write is a message here. */
static void a_line_is_one_write(void **state) {
    (void)state;
    char got[2048];
    int ends[2];
    const int saved = dup(STDERR_FILENO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_headed(LOG_BOLD, "head", " %s", "said");
    log_warn("%s", "beware");
    log_info("%01500d", 7);
    dup2(saved, STDERR_FILENO);
    close(saved);
    const char *const lines[] = {"head said\n", "warning: beware\n"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(recv(ends[0], got, sizeof got, MSG_DONTWAIT), strlen(lines[i]));
        assert_memory_equal(got, lines[i], strlen(lines[i]));
    }
    assert_int_equal(recv(ends[0], got, sizeof got, MSG_DONTWAIT), 1501);
    assert_memory_equal(got + 1498, "07\n", 3);
    close(ends[0]);
    close(ends[1]);
}

/* Standard error is a file here: no carriage returns, no colours, progress only where it is kept.
 */
static void plain_in_files(void **state) {
    (void)state;
    const char *path = scratch("log");
    int saved = dup(STDERR_FILENO);
    assert_non_null(freopen(path, "w", stderr));
    assert_false(log_is_terminal());
    log_progress(false, "step %d", 1);
    log_progress(true, "step %d", 2);
    log_progress_end();
    log_info("%s", "said");
    log_info("%s", "a\033[2Jb\xc2\x9b"
                   "2Jc\x9b\xc3\xa9");
    log_headed(LOG_BOLD, "head", " and %s", "\177");
    log_warn("%d \a\033left", 3);
    log_info("%0600d\033", 1); /* no limit */
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char *text = text_read(path);
    char start[] = "step 2\nsaid\na?[2Jb?2Jc?\xc3\xa9\nhead and ?\nwarning: 3 ??left\n000";
    assert_memory_equal(text, start, strlen(start));
    assert_string_equal(text + strlen(text) - 5, "001?\n");
    free(text);
}

static void clock_goes_forward(void **state) {
    (void)state;
    double before = clock_seconds(), after = clock_seconds();
    assert_true(after >= before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),      cmocka_unit_test(bytes),
        cmocka_unit_test(counts),         cmocka_unit_test(a_line_is_one_write),
        cmocka_unit_test(plain_in_files), cmocka_unit_test(clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
