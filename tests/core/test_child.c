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

/* A pipe holds it, so that the child itself ends well. */
static void too_much(void **state) {
    (void)state;
    size_t n;
    Err err;
    assert_false(runs("9", "0", 8, &n, &err));
    assert_int_equal(err.code, EX_OSERR);
    assert_non_null(strstr(err.text, "cannot be read: File too large"));
}

static void how_it_ends(void **state) {
    (void)state;
    size_t n;
    Err err;
    assert_false(runs("3", "65", 8, &n, &err));
    assert_int_equal(err.code, EX_DATAERR);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_prints),
        cmocka_unit_test(too_much),
        cmocka_unit_test(how_it_ends),
    };
    return argc == 3 ? be_child(argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
