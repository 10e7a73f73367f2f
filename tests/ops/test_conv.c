/* A convolution beside its definition, and a run of its rows, without the identity, beside all of
 * them with it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draws.h"
#include "ops/conv.h"

#define BAR (sizeof(real) == 8 ? 1e-12 : 1e-4)

static real *reals(int n) {
    real *x = malloc(n > 0 ? (size_t)n * sizeof *x : 1);
    if (!x) abort();
    return x;
}

static real *drawn(Draws *d, int n) {
    real *x = reals(n);
    draw_normals(d, x, (size_t)n, 0, 1);
    return x;
}

/* y_n = x_n + sum over t of w_t x_(n + sign (t - half)). */
static void check_definition(const real *y, const real *x, const real *wt, int N, int d, int taps,
                             int sign) {
    for (int n = 0; n < N; n++)
        for (int j = 0; j < d; j++) {
            double want = (double)x[n * d + j];
            for (int t = 0; t < taps; t++) {
                const int from = n + sign * (t - taps / 2);
                if (from >= 0 && from < N) want += (double)wt[t * d + j] * (double)x[from * d + j];
            }
            if (!(fabs((double)y[n * d + j] - want) < BAR * (1 + fabs(want))))
                fail_msg("(%d,%d), %d taps, sign %d: column %d of row %d is %g, not %g", N, d, taps,
                         sign, j, n, (double)y[n * d + j], want);
        }
}

/* Rows n0.. are those of the whole to the bit, in a tile of their own and added to x; added to y0
 * they are y0 and the whole without the identity; others are not touched. */
static void check(int N, int d, int taps, int sign, int n0, int n) {
    Draws draws = draws_open("convolution", (uint64_t)(N * 1000 + taps * 10 + d));
    const size_t bytes = (size_t)(N * d) * sizeof(real);
    real *x = drawn(&draws, N * d), *wt = drawn(&draws, taps * d), *whole = reals(N * d);
    real *y0 = drawn(&draws, N * d), *y = memcpy(reals(N * d), y0, bytes),
         *on_x = memcpy(reals(N * d), x, bytes);
    void (*const convolve)(real *, const real *, const real *, int, int, int, int, int) =
        sign > 0 ? conv_forward : conv_backward_input;
    convolve(whole, x, wt, taps, 0, N, N, d);
    if (n0 == 0 && n == N) check_definition(whole, x, wt, N, d, taps, sign);
    real *tile = memcpy(reals(N * d), y0, bytes);
    convolve(tile, x, wt, taps, n0, n, N, d);
    conv_add(y, x, wt, taps, sign, n0, n, N, d);
    conv_add(on_x, x, wt, taps, sign, n0, n, N, d);
    for (int i = 0; i < N * d; i++) {
        const bool in = i / d >= n0 && i / d < n0 + n;
        const double add = (double)whole[i] - (double)x[i], expected = (double)y0[i] + add;
        if (tile[i] != (in ? whole[i] : y0[i]))
            fail_msg("(%d,%d), %d taps, sign %d: column %d of row %d of a tile", N, d, taps, sign,
                     i % d, i / d);
        if (in ? on_x[i] != whole[i] || !(fabs((double)y[i] - expected) < BAR * (1 + fabs(add)))
               : on_x[i] != x[i] || y[i] != y0[i])
            fail_msg("(%d,%d), %d taps, sign %d, %d rows from %d: column %d of row %d is %g from "
                     "%g, and should be %g",
                     N, d, taps, sign, n, n0, i % d, i / d, (double)y[i], (double)y0[i],
                     in ? expected : (double)y0[i]);
    }
    free(x), free(wt), free(whole), free(y0), free(y), free(on_x), free(tile);
}

/* Of documents shorter than the taps, and of every part of one: none, one row, both ends. */
static void runs_of_rows(void **state) {
    (void)state;
    static const int shapes[][3] = {{1, 1, 1},    {1, 5, 3},   {2, 3, 9},   {7, 17, 3},
                                    {20, 4, 5},   {9, 33, 35}, {300, 3, 7}, {513, 2, 1},
                                    {70, 64, 67}, {90, 9, 511}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int N = shapes[i][0], d = shapes[i][1], taps = shapes[i][2], step = 1 + N / 24;
        for (int n0 = 0; n0 < N; n0 += step)
            for (int sign = -1; sign <= 1; sign += 2) {
                for (int n = 0; n < N - n0; n += step) check(N, d, taps, sign, n0, n);
                check(N, d, taps, sign, n0, N - n0);
            }
    }
    check(600, 3, 5, 1, 256, 256), check(600, 3, 5, -1, 512, 88);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_of_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
