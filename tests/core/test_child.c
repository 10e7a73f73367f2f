#include "core/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <cmocka.h>

/* As a child, this program prints so many letters and ends with that status. */
static int be_child(char *const *argv) {
    for (int i = atoi(argv[1]); i > 0; i--) putchar('a');
    return atoi(argv[2]);
}

static bool runs(const char *letters, const char *status, size_t room, size_t *n, Err *err) {
    char name[] = "child", first[16], second[16], text[64];
    char *const argv[] = {name, first, second, NULL};
    snprintf(first, sizeof first, "%s", letters);
    snprintf(second, sizeof second, "%s", status);
    assert_true(room <= sizeof text);
    return child_read(argv, text, room, n, err);
}

static void what_it_prints(void **state) {
    (void)state;
    size_t n = 99;
    Err err;
    assert_true(runs("0", "0", 8, &n, &err) && n == 0);
    assert_true(runs("7", "0", 8, &n, &err) && n == 7);
    assert_true(runs("8", "0", 8, &n, &err) && n == 8);
}

static void fails(const char *letters, const char *status, int code, const char *why) {
    size_t n;
    Err err;
    assert_false(runs(letters, status, 8, &n, &err));
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.text, why));
}

/* Of what is too much for us: a pipe holds it, so that the child itself ends well. */
static void what_fails(void **state) {
    (void)state;
    fails("9", "0", EX_OSERR, "cannot be read: File too large");
    fails("3", "65", EX_DATAERR, "ended with status 65");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_prints),
        cmocka_unit_test(what_fails),
    };
    return argc == 3 ? be_child(argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
