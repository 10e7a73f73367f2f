#include "ops/rope.h"

#include <math.h>

#include "ops/vec.h"

void rope_table(real *table, int N, int e) {
    for (int j = 0; j < e; j++) {
        const double speed = pow(10000.0, -(double)(j / 2 * 2) / e);
        for (int n = 0; n < N; n++) {
            real *at = table + rope_reals(n, e);
            at[j] = (real)cos(n * speed);
            at[e + j] = (real)(j % 2 ? sin(n * speed) : -sin(n * speed));
        }
    }
}

static inline void turn_vec(real *x, const real *cosines, const real *sines, real sign, int left) {
    const Vec v = vec_load(x, left), turned = sign * vec_load(sines, left) * vec_swap_pairs(v);
    vec_store(x, v * vec_load(cosines, left) + turned, left);
}

/* By the angles times sign. */
static void turn(const Rope *rope, real *x, const int *rows, int n, int h, int e, real sign) {
    for (int r = 0; r < n && rope->table; r++) {
        const int row = rows ? rows[r] : r, token = rope->tokens ? rope->tokens[row] : row;
        const real *at = rope->table + rope_reals(token, e);
        for (int head = 0; head < h; head++, x += e)
            EACH_VEC(i, left, e, turn_vec(x + i, at + i, at + e + i, sign, left));
    }
}

void rope_turn(const Rope *rope, real *x, const int *rows, int n, int h, int e) {
    turn(rope, x, rows, n, h, e, 1);
}

void rope_turn_back(const Rope *rope, real *x, const int *rows, int n, int h, int e) {
    turn(rope, x, rows, n, h, e, -1);
}
