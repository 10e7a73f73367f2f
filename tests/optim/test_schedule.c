#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "optim/schedule.h"

enum { CONSTANT, LINEAR, COSINE, RSQRT, SCHEDULES };

static void is(int schedule, int64_t s, int64_t warmup, int64_t horizon, double expected) {
    const double f = schedule_factor(schedule, s, warmup, horizon);
    if (!(fabs(f - expected) <= 1e-15))
        fail_msg("schedule %d at %lld (warm-up %lld, horizon %lld): %.17g, not %.17g", schedule,
                 (long long)s, (long long)warmup, (long long)horizon, f, expected);
}

static void words_are_in_order(void **state) {
    (void)state;
    static const char *const words[] = {"constant", "linear", "cosine", "rsqrt"};
    for (int i = 0; i < SCHEDULES; i++) assert_string_equal(schedule_name(i), words[i]);
    assert_null(schedule_name(-1));
    assert_null(schedule_name(SCHEDULES));
}

/* A schedule that does not end gives the same whatever the horizon. */
static void ends_by_its_horizon(void **state) {
    (void)state;
    for (int i = 0; i < SCHEDULES; i++)
        assert_int_equal(schedule_ends(i),
                         schedule_factor(i, 9, 2, 10) != schedule_factor(i, 9, 2, 99));
}

static void warm_up_is_linear(void **state) {
    (void)state;
    for (int i = 0; i < SCHEDULES; i++)
        for (int64_t s = 1; s <= 8; s++) is(i, s, 8, 100, (double)s / 8);
    for (int i = 0; i < SCHEDULES; i++) is(i, 1, 1, 100, 1);
}

static void falls_to_nothing(void **state) {
    (void)state;
    const double pi = 3.14159265358979323846;
    for (int64_t s = 10; s <= 110; s++) {
        const double x = (double)(s - 10) / 100;
        is(CONSTANT, s, 10, 110, 1);
        is(LINEAR, s, 10, 110, 1 - x);
        is(COSINE, s, 10, 110, (1 + cos(pi * x)) / 2);
    }
    is(LINEAR, 1, 0, 4, 0.75);
    is(LINEAR, 5, 0, 4, 0);
    is(COSINE, 1000, 0, 4, 0);
    is(COSINE, 60, 10, 110, 0.5);
}

static void falls_with_the_root(void **state) {
    (void)state;
    is(RSQRT, 400, 100, 1, 0.5);
    is(RSQRT, 100, 100, 1, 1);
    is(RSQRT, 101, 100, 7, sqrt(100.0 / 101));
    is(RSQRT, 1, 0, 7, 1);
    is(RSQRT, 4, 0, 7, 0.5);
}

/* Warm-up as long as the run, or longer; no horizon at all. */
static void odd_horizons(void **state) {
    (void)state;
    for (int i = 0; i < SCHEDULES; i++) {
        is(i, 3, 10, 5, 0.3);
        is(i, 10, 10, 10, 1);
        const double past = schedule_factor(i, 11, 10, 10);
        assert_true(past >= 0 && past <= 1);
    }
    is(LINEAR, 11, 10, 10, 0);
    is(COSINE, 11, 10, 10, 0);
    for (int i = 0; i < SCHEDULES; i++) /* steps beyond 2^32 */
        assert_true(isfinite(schedule_factor(i, (int64_t)1 << 40, 1 << 20, (int64_t)1 << 41)));
    is(LINEAR, (int64_t)1 << 40, 0, (int64_t)1 << 41, 0.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_in_order),  cmocka_unit_test(ends_by_its_horizon),
        cmocka_unit_test(warm_up_is_linear),   cmocka_unit_test(falls_to_nothing),
        cmocka_unit_test(falls_with_the_root), cmocka_unit_test(odd_horizons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
