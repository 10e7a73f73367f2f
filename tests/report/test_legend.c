#include "report/legend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static LegendFit fit(int names, int letters, double width, double height) {
    char name[128] = "";
    Legend l = {0};
    for (int i = 0; i < letters; i++) name[i] = 'x', name[i + 1] = '\0';
    for (int i = 0; i < names; i++) legend_add(&l, i ? "y" : name);
    return legend_fit(&l, width, height);
}

static void test_columns(void **state) {
    (void)state;
    LegendFit f = fit(5, 10, 90 + 2 * 160, 400);
    assert_int_equal(f.columns, 2);
    assert_true(f.scale == 1 && f.height == 3 * 22);
    f = fit(5, 10, 90 + 2 * 160 - 1, 400);
    assert_int_equal(f.columns, 1);
    assert_true(f.scale == 1 && f.height == 5 * 22);
}

static void test_a_long_name_is_set_smaller(void **state) {
    (void)state;
    const LegendFit f = fit(2, 100, 800, 440);
    assert_int_equal(f.columns, 1);
    assert_true(f.scale > 0.75 && f.scale <= 630.0 / 800 && f.height < 44);
}

static void test_no_more_than_half_of_the_height(void **state) {
    (void)state;
    LegendFit f = fit(16, 60, 700, 440);
    assert_int_equal(f.columns, 1);
    assert_true(f.scale > 0.5 && f.scale < 0.63 && f.height <= 220);
    f = fit(16, 60, 700, 2 * 16 * 11); /* half, and no less */
    assert_true(f.scale == 0.5 && f.columns == 1);
    assert_int_equal(fit(16, 60, 700, 2 * 16 * 11 - 1).columns, 0);
}

static void test_left_out(void **state) {
    (void)state;
    assert_int_equal(fit(0, 0, 800, 440).columns, 0);
    assert_int_equal(fit(18, 5, 800, 440).columns, 0);
    assert_int_equal(fit(17, 5, 800, 440).columns, 5);
    assert_int_equal(fit(2, 120, 400, 440).columns, 0);
    assert_int_equal(fit(10, 20, 300, 100).columns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_a_long_name_is_set_smaller),
        cmocka_unit_test(test_no_more_than_half_of_the_height),
        cmocka_unit_test(test_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
