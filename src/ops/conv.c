#include "ops/conv.h"

#include <stddef.h>

#include "ops/vec.h"

/* Rows, or taps, whose sums stay in registers while what they share is read once. */
enum { BLOCK = 8 };

/* Of one vector of columns: sum[b] += a x_(first + b), for the rows that are there. */
static inline __attribute__((always_inline)) void add_products(Vec *sum, Vec a, const real *x,
                                                               int first, const int count, int N,
                                                               int d, int left) {
    if (first >= 0 && first + count <= N) {
        const real *at = x + (ptrdiff_t)first * d;
#pragma GCC unroll 8
        for (int b = 0; b < count; b++) sum[b] += a * vec_load(at + b * d, left);
    } else {
#pragma GCC unroll 8
        for (int b = 0; b < count; b++)
            if (first + b >= 0 && first + b < N)
                sum[b] += a * vec_load(x + (ptrdiff_t)(first + b) * d, left);
    }
}

/* `count` rows from n on of one vector of columns: y = base + sum_t w_t x_(n + sign (t - half)). */
static inline __attribute__((always_inline)) void filter(real *y, const real *base, const real *x,
                                                         const real *wt, int n, const int count,
                                                         int sign, int taps, int N, int d,
                                                         int left) {
    Vec sum[BLOCK];
#pragma GCC unroll 8
    for (int b = 0; b < count; b++) sum[b] = vec_load(base + b * d, left);
    for (int t = 0; t < taps; t++)
        add_products(sum, vec_load(wt + (ptrdiff_t)t * d, left), x, n + sign * (t - taps / 2),
                     count, N, d, left);
#pragma GCC unroll 8
    for (int b = 0; b < count; b++) vec_store(y + b * d, sum[b], left);
}

static void filter_rows(real *y, const real *base, const real *x, const real *wt, int n0, int n,
                        int sign, int taps, int N, int d) {
    int row = n0;
    for (const int count = BLOCK; row + count <= n0 + n; row += count) {
        const ptrdiff_t at = (ptrdiff_t)row * d;
        EACH_VEC(
            i, left, d,
            filter(y + at + i, base + at + i, x + i, wt + i, row, count, sign, taps, N, d, left));
    }
    for (const int count = 1; row < n0 + n; row++) {
        const ptrdiff_t at = (ptrdiff_t)row * d;
        EACH_VEC(
            i, left, d,
            filter(y + at + i, base + at + i, x + i, wt + i, row, count, sign, taps, N, d, left));
    }
}

void conv_add(real *y, const real *x, const real *wt, int taps, int sign, int n0, int n, int N,
              int d) {
    filter_rows(y, y, x, wt, n0, n, sign, taps, N, d);
}

void conv_forward(real *y, const real *x, const real *wt, int taps, int n0, int n, int N, int d) {
    filter_rows(y, x, x, wt, n0, n, 1, taps, N, d);
}

void conv_backward_input(real *dx, const real *dy, const real *wt, int taps, int n0, int n, int N,
                         int d) {
    filter_rows(dx, dy, dy, wt, n0, n, -1, taps, N, d);
}

/* Rows are summed in runs, and runs in order: a single sum over a long document would lose digits.
 */
enum { RUN = 256 };

/* Of one vector of columns: dw[j,t] += sum_n dy[n,j] x[n + t - half, j], over rows n0 to n1 - 1, of
 * BLOCK taps from t on, or those that are left. */
static inline __attribute__((always_inline)) void add_run(real *dw, const real *dy, const real *x,
                                                          int t, int taps, int n0, int n1, int N,
                                                          int d, int left) {
    Vec sum[BLOCK] = {{0}};
    for (int n = n0; n < n1; n++)
        add_products(sum, vec_load(dy + (ptrdiff_t)n * d, left), x, n + t - taps / 2, BLOCK, N, d,
                     left);
    for (int b = 0; b < BLOCK && t + b < taps; b++)
        for (int j = 0; j < left; j++) dw[(ptrdiff_t)j * taps + t + b] += sum[b][j];
}

static inline __attribute__((always_inline)) void add_taps(real *dw, const real *dy, const real *x,
                                                           int taps, int N, int d, int left) {
    for (int n = 0; n < N; n += RUN)
        for (int t = 0; t < taps; t += BLOCK)
            add_run(dw, dy, x, t, taps, n, N - n < RUN ? N : n + RUN, N, d, left);
}

void conv_backward_weight(real *dw, const real *dy, const real *x, int taps, int from, int columns,
                          int N, int d) {
    dw += (ptrdiff_t)from * taps;
    EACH_VEC(i, left, columns,
             add_taps(dw + (ptrdiff_t)i * taps, dy + from + i, x + from + i, taps, N, d, left));
}
