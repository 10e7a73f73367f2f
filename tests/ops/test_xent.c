#include "ops/xent.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draws.h"

enum { ROWS = 40, MOST = 257 };
#define NEAR (sizeof(real) == 8 ? 1e-12 : 1e-4)

static double target(int k, int label, double smoothing, int K) {
    return smoothing / K + (k == label ? 1 - smoothing : 0);
}

/* As the header has it, in double. */
static double loss_of(const real *x, int label, double smoothing, int K) {
    double sum = 0, loss = 0;
    for (int k = 0; k < K; k++) sum += exp((double)x[k]);
    for (int k = 0; k < K; k++) loss -= target(k, label, smoothing, K) * ((double)x[k] - log(sum));
    return loss;
}

static void draw_rows(real *x, int *labels, Draws *d, int K) {
    for (int i = 0; i < ROWS * K; i++) x[i] = (real)(4 * draw_uniform(d) - 2);
    for (int r = 0; r < ROWS; r++) labels[r] = draw_int(d, 0, K - 1);
}

static void check_gradient(const real *got, const real *x, const int *labels, double smoothing,
                           int K) {
    for (int r = 0; r < ROWS; r++, x += K, got += K) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum += exp((double)x[k]);
        for (int k = 0; k < K; k++) {
            const double want = exp((double)x[k]) / sum - target(k, labels[r], smoothing, K);
            assert_true(fabs((double)got[k] - 0.25 * want) < NEAR);
        }
    }
}

/* Rows at once are rows one by one, and both are the definition. */
static void rows_are_their_definition(void **state) {
    static const int sizes[] = {1, 2, 10, 17, MOST};
    (void)state;
    real *x = calloc((size_t)ROWS * MOST, sizeof *x), *y = calloc((size_t)ROWS * MOST, sizeof *y);
    if (!x || !y) abort();
    for (int i = 0; i < 10; i++) {
        const int K = sizes[i % 5];
        const double smoothing = i < 5 ? 0 : 0.3;
        Draws d = draws_open("xent", (uint64_t)i);
        int labels[ROWS], right = 7, wanted = 7;
        double loss = 0, alone = 0;
        draw_rows(x, labels, &d, K);
        memcpy(y, x, (size_t)(ROWS * K) * sizeof *x);
        for (int r = 0; r < ROWS; r++) {
            const real *row = x + r * K;
            loss += loss_of(row, labels[r], smoothing, K);
            alone += xent(NULL, row, labels[r], 1, smoothing, K);
            wanted += xent_argmax(row, K) == labels[r];
        }
        const double got = xent_rows(y, labels, 0.25, smoothing, ROWS, K, &right);
        assert_true(fabs(got - loss) <= NEAR * ROWS && fabs(alone - loss) <= NEAR * ROWS);
        assert_int_equal(right, wanted);
        check_gradient(y, x, labels, smoothing, K);
    }
    free(x);
    free(y);
}

/* Of equal ones the first counts. */
static void ties(void **state) {
    (void)state;
    real x[] = {1, 3, 3, 0, 3, 3};
    int right = 0;
    assert_int_equal(xent_argmax(x, 3), 1);
    xent_rows(x, (const int[]){2, 1}, 1, 0, 2, 3, &right);
    assert_int_equal(right, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_their_definition),
        cmocka_unit_test(ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
