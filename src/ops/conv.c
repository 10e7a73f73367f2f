#include "ops/conv.h"

#include "ops/vec.h"

/* The rows n for which row n + shift is one of N too: from..to-1. */
static int from_row(int shift) { return shift < 0 ? -shift : 0; }
static int to_row(int shift, int N) { return shift > 0 ? N - shift : N; }

static inline void add_product(real *y, const real *w, const real *x, int left) {
    vec_store(y, vec_load(y, left) + vec_load(w, left) * vec_load(x, left), left);
}

/* One row of y += sum_t w_t x_(n + sign (t - half)). */
static void filter_row(real *restrict y, const real *x, const real *wt, int n, int sign, int taps,
                       int N, int d) {
    for (int t = 0; t < taps; t++) {
        const int from = n + sign * (t - taps / 2);
        const real *w = wt + t * d, *at = x + (size_t)from * (size_t)d;
        if (from >= 0 && from < N) EACH_VEC(i, left, d, add_product(y + i, w + i, at + i, left));
    }
}

void conv_add(real *y, const real *x, const real *wt, int taps, int sign, int n0, int n, int N,
              int d) {
    for (int i = n0; i < n0 + n; i++)
        filter_row(y + (size_t)i * (size_t)d, x, wt, i, sign, taps, N, d);
}

static void with_identity(real *y, const real *x, const real *wt, int taps, int sign, int n0, int n,
                          int N, int d) {
    for (int i = n0; i < n0 + n; i++) {
        vec_copy(y + (size_t)i * (size_t)d, x + (size_t)i * (size_t)d, d);
        conv_add(y, x, wt, taps, sign, i, 1, N, d);
    }
}

void conv_forward(real *y, const real *x, const real *wt, int taps, int n0, int n, int N, int d) {
    with_identity(y, x, wt, taps, 1, n0, n, N, d);
}

void conv_backward_input(real *dx, const real *dy, const real *wt, int taps, int n0, int n, int N,
                         int d) {
    with_identity(dx, dy, wt, taps, -1, n0, n, N, d);
}

/* Rows are summed in runs, and runs in order: a single sum over a long document would lose digits.
 */
enum { RUN = 256 };

static inline Vec dots(const real *dy, const real *x, int rows, int d, int left) {
    Vec sum = {0};
    for (int r = 0; r < rows; r++)
        sum +=
            vec_load(dy + (size_t)r * (size_t)d, left) * vec_load(x + (size_t)r * (size_t)d, left);
    return sum;
}

static inline void add_dots(real *dw, const real *dy, const real *x, int rows, int taps, int d,
                            int left) {
    const Vec sum = dots(dy, x, rows, d, left);
    for (int j = 0; j < left; j++) dw[j * taps] += sum[j];
}

void conv_backward_tap(real *dw, const real *dy, const real *x, int tap, int taps, int N, int d) {
    const int shift = tap - taps / 2, end = to_row(shift, N);
    for (int n = from_row(shift), rows; (rows = end - n < RUN ? end - n : RUN) > 0; n += RUN) {
        const real *from = dy + (size_t)n * (size_t)d, *at = x + (size_t)(n + shift) * (size_t)d;
        EACH_VEC(i, left, d, add_dots(dw + i * taps + tap, from + i, at + i, rows, taps, d, left));
    }
}

void conv_backward_weight(real *dw, const real *dy, const real *x, int taps, int N, int d) {
    for (int t = 0; t < taps; t++) conv_backward_tap(dw, dy, x, t, taps, N, d);
}
