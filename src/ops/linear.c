#include "ops/linear.h"

#include <stddef.h>

#include "core/gemm.h"
#include "ops/vec.h"

static inline void add_strip(real *y, size_t ldy, const real *b, const real *base, int rows,
                             const int vectors, const int left) {
    const VecStrip bias = vec_strip(b, vectors, left);
    for (size_t at = 0; at < (size_t)rows * ldy; at += ldy)
        for (int j = 0; j < vectors; j++) {
            const Vec v = vec_load(y + at + j * VEC, left) + bias.of[j];
            vec_store(y + at + j * VEC, base ? vec_load(base + at + j * VEC, left) + v : v, left);
        }
}

/* Bias and base join a block of rows while it is in the first cache. The product is summed apart:
 * added to base term by term it would round at base's size every time. */
void linear_forward(real *y, int ldy, const real *x, int ldx, const real *wt, const real *b,
                    const real *base, int rows, int in, int out) {
    enum { BLOCK = 64 };
    for (int r0 = 0; r0 < rows; r0 += BLOCK) {
        const int n = rows - r0 < BLOCK ? rows - r0 : BLOCK;
        const size_t at = (size_t)r0 * (size_t)ldy;
        gemm_nn(y + at, ldy, x + (size_t)r0 * (size_t)ldx, ldx, wt, out, n, out, in, false);
        if (b)
            EACH_STRIP(i, vectors, left, out,
                       add_strip(y + at + i, (size_t)ldy, b + i, base ? base + at + i : NULL, n,
                                 vectors, left));
    }
}

void linear_backward_input(real *dx, int lddx, const real *dy, int lddy, const real *w, bool add,
                           int rows, int in, int out) {
    gemm_nn(dx, lddx, dy, lddy, w, in, rows, in, out, add);
}

static inline void bias_strip(real *db, const real *dy, size_t lddy, int rows, const int vectors,
                              const int left) {
    vec_strip_add(db, vec_strip_sum(dy, (VecStrip){{{0}}}, false, rows, lddy, vectors, left),
                  vectors, left);
}

void linear_backward_bias(real *db, const real *dy, int lddy, int rows, int out) {
    EACH_STRIP(i, vectors, left, out,
               bias_strip(db + i, dy + i, (size_t)lddy, rows, vectors, left));
}

void linear_backward_weight(real *dw, real *db, const real *dy, int lddy, const real *x, int ldx,
                            int rows, int in, int out) {
    gemm_tn(dw, in, dy, lddy, x, ldx, out, in, rows, true);
    if (db) linear_backward_bias(db, dy, lddy, rows, out);
}

enum { SIDE = 8 };
typedef real Row __attribute__((vector_size(SIDE * sizeof(real)), aligned(sizeof(real))));
/* Interleaving rows i and i + 4 three times transposes 8 x 8. */
static void transpose_block(real *t, size_t ldt, const real *a, size_t lda) {
    Row x[SIDE], y[SIDE];
    for (int i = 0; i < SIDE; i++) x[i] = *(const Row *)(a + (size_t)i * lda);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SIDE / 2; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + SIDE / 2], 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] =
                __builtin_shufflevector(x[i], x[i + SIDE / 2], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        for (int i = 0; i < SIDE; i++) x[i] = y[i];
    }
    for (int i = 0; i < SIDE; i++) *(Row *)(t + (size_t)i * ldt) = x[i];
}

void transpose(real *t, int ldt, const real *a, int lda, int rows, int cols) {
    const size_t to = (size_t)ldt, from = (size_t)lda;
    for (int r0 = 0; r0 < rows; r0 += SIDE)
        for (int c0 = 0; c0 < cols; c0 += SIDE) {
            if (r0 + SIDE <= rows && c0 + SIDE <= cols) {
                transpose_block(t + (size_t)c0 * to + (size_t)r0, to,
                                a + (size_t)r0 * from + (size_t)c0, from);
                continue;
            }
            for (int c = c0; c < cols && c < c0 + SIDE; c++)
                for (int r = r0; r < rows && r < r0 + SIDE; r++)
                    t[(size_t)c * to + (size_t)r] = a[(size_t)r * from + (size_t)c];
        }
}
