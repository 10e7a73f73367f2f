#include "ops/dropout.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 100000 };
static real x[N];

/* Element i is dropped where word i % 4 of block i / 4 is below p of all words. */
static bool dropped(RngKey key, double p, int64_t i) {
    const uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), 0, 0};
    uint32_t word[4];
    rng_philox(word, counter, key.k);
    return word[i % 4] < p * 4294967296.0;
}

/* What is kept makes up for what is dropped; from any element on, beyond 2^32 blocks too. */
static void scales_what_it_keeps(void **state) {
    static const double shares[] = {1e-3, 0.1, 0.5, 0.95};
    static const int64_t firsts[] = {0, 3, ((int64_t)1 << 34) - 5};
    (void)state;
    for (int k = 0; k < 12; k++) {
        const double p = shares[k % 4], kept = 1 / (1 - p);
        const int64_t first = firsts[k / 4];
        const RngKey key = rng_key((uint64_t)k);
        int zeros = 0;
        for (int i = 0; i < N; i++) x[i] = (real)(i + 1);
        dropout_apply(x, key, p, first, N);
        for (int i = 0; i < N; i++) {
            const real want = dropped(key, p, first + i) ? 0 : (real)(i + 1) * (real)kept;
            assert_true(x[i] == want);
            zeros += want == 0;
        }
        assert_true(fabs(zeros - N * p) < 5 * sqrt(N * p * (1 - p)));
    }
}

static void none_is_none(void **state) {
    (void)state;
    for (int i = 0; i < N; i++) x[i] = (real)i;
    dropout_apply(x, rng_key(1), 0, 0, N);
    for (int i = 0; i < N; i++) assert_true(x[i] == (real)i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_what_it_keeps),
        cmocka_unit_test(none_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
