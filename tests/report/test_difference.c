#include "report/difference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* 0.01 of four that count, then 0.02 of three, 0.03 of two, which may be no less than the one
 * before, and 0.04; what has no p counts for nothing. */
static void test_holm(void **state) {
    (void)state;
    const double p[] = {0.04, NAN, 0.01, 0.025, 0.02}, expected[] = {0.06, NAN, 0.04, 0.06, 0.06};
    double holm[5];
    difference_holm(p, holm, 5);
    for (int i = 0; i < 5; i++)
        assert_true(isnan(expected[i]) ? isnan(holm[i]) : fabs(holm[i] - expected[i]) < 1e-15);
}

static void test_holm_ends(void **state) {
    (void)state;
    const double p[] = {0.6, 0, 0.6, NAN};
    double holm[4] = {7, 7, 7, 7};
    difference_holm(p, holm, 3);
    assert_true(holm[0] == 1 && holm[1] == 0 && holm[2] == 1);
    assert_true(holm[3] == 7);
    difference_holm(p + 3, holm, 1);
    assert_true(isnan(holm[0]));
    difference_holm(NULL, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holm),
        cmocka_unit_test(test_holm_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
