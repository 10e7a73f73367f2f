/* The average of weights over updates: which decay it has, and what it is of. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/lanes.h"
#include "draws.h"
#include "optim/average.h"

#define EPS (sizeof(real) == 8 ? DBL_EPSILON : (double)FLT_EPSILON)

enum { UPDATES = 30 };

static Params registry(void) {
    static const ParamSpec specs[] = {
        {"trained", 2, {130, 301}, {INIT_NORMAL, 1}, PARAM_TRAINED | PARAM_DECAYED},
        {"running", 1, {33}, {INIT_NORMAL, 1}, 0},
        {"frozen", 2, {3, 5}, {INIT_NORMAL, 1}, PARAM_DRAWN},
    };
    Params p = {0};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) params_add(&p, "", &specs[i]);
    return p;
}

static void decays(void **state) {
    (void)state;
    assert_true(average_decay(0.9, 1) == 2.0 / 11);
    assert_true(average_decay(0.9, 79) == 80.0 / 89); /* the last that is less */
    assert_true(average_decay(0.9, 81) == 0.9);
    assert_true(average_decay(0.1, 1) == 0.1);
}

/* The sum of all weights there were, each with the share that the decays leave it. */
static void is_the_weighted_sum(void **state) {
    Params p = registry();
    real *w = mem_alloc(p.total, sizeof *w), *average = mem_alloc(p.total, sizeof *average);
    double *sum = mem_alloc(p.total, sizeof *sum);
    const Param *frozen = params_find(&p, "frozen");
    (void)state;
    params_init(&p, w, 1);
    memcpy(average, w, p.total * sizeof *w);
    for (int t = 0; t <= UPDATES; t++) {
        double share = t ? 1 - average_decay(0.75, t) : 1;
        for (int later = t + 1; later <= UPDATES; later++) share *= average_decay(0.75, later);
        Draws d = draws_open("average", (uint64_t)t);
        if (t) draw_normals(&d, w, p.total, 0, 1);
        for (size_t i = 0; i < p.total; i++) sum[i] += share * (double)w[i];
        lanes_open(1 + t % 3);
        if (t) average_update(&p, average, w, average_decay(0.75, t));
    }
    params_init(&p, w, 1);
    assert_memory_equal(average + frozen->at, w + frozen->at, frozen->n * sizeof *w);
    for (size_t i = 0; i < frozen->at; i++)
        if ((i < p.list[0].n || i >= p.list[1].at) && i < p.list[1].at + p.list[1].n)
            assert_true(fabs((double)average[i] - sum[i]) < 8 * EPS);
    mem_free(w), mem_free(average), mem_free(sum);
    params_free(&p);
}

static void same_bits_at_any_number_of_threads(void **state) {
    Params p = registry();
    real *w = mem_alloc(p.total, sizeof *w), *one = mem_alloc(p.total, sizeof *one),
         *other = mem_alloc(p.total, sizeof *other);
    (void)state;
    params_init(&p, w, 1);
    params_init(&p, one, 2);
    for (int threads = 2; threads < 6; threads++) {
        params_init(&p, one, 2);
        params_init(&p, other, 2);
        lanes_open(1);
        average_update(&p, one, w, 0.9);
        lanes_open(threads);
        average_update(&p, other, w, 0.9);
        assert_memory_equal(one, other, p.total * sizeof *w);
    }
    mem_free(w), mem_free(one), mem_free(other);
    params_free(&p);
}

/* Of the largest numbers of either sign, too. */
static void stays_finite(void **state) {
    const real most = sizeof(real) == 8 ? (real)DBL_MAX : (real)FLT_MAX;
    Params p = registry();
    real *w = mem_alloc(p.total, sizeof *w), *average = mem_alloc(p.total, sizeof *average);
    (void)state;
    for (size_t i = 0; i < p.total; i++) w[i] = most, average[i] = i % 2 ? most : -most;
    for (int t = 1; t < 40; t++) average_update(&p, average, w, average_decay(0.999, t));
    for (size_t i = 0; i < p.total; i++) assert_true(isfinite(average[i]));
    mem_free(w), mem_free(average);
    params_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decays),
        cmocka_unit_test(is_the_weighted_sum),
        cmocka_unit_test(same_bits_at_any_number_of_threads),
        cmocka_unit_test(stays_finite),
    };
    lanes_open(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
