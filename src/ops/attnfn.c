#include "ops/attnfn.h"

#include <stddef.h>

#include "ops/vec.h"
#include "ops/vmath.h"

static void softmax(real *y, const real *x, int n) {
    const real scale = 1 / vmath_exp_sum(y, x, vmath_max(x, n), n);
    EACH_VEC(i, left, n, vec_store(y + i, scale * vec_load(y + i, left), left));
}

void attnfn_forward(AttnFn f, real *y, const real *x, int R, int n) {
    for (int r = 0; r < R; r++) {
        const size_t at = (size_t)r * (size_t)n;
        if (f == ATTN_SOFTMAX)
            softmax(y + at, x + at, n);
        else
            vmath_laplace(y + at, x + at, n);
    }
}

static inline void softmax_grad(real *dx, const real *dy, const real *y, real dot, int left) {
    vec_store(dx, vec_load(dx, left) + vec_load(y, left) * (vec_load(dy, left) - dot), left);
}

/* Softmax: dx = y (dy - <dy, y>). */
void attnfn_backward(AttnFn f, real *dx, const real *dy, const real *y, const real *x, int R,
                     int n) {
    for (int r = 0; r < R; r++) {
        const size_t at = (size_t)r * (size_t)n;
        if (f == ATTN_LAPLACE) {
            vmath_laplace_grad(dx + at, dy + at, x + at, n);
            continue;
        }
        const real dot = vec_dot(dy + at, y + at, n);
        EACH_VEC(i, left, n, softmax_grad(dx + at + i, dy + at + i, y + at + i, dot, left));
    }
}

static inline void softmax_strip(real *y, const real *x, const real *factor, size_t ld, int R,
                                 const int vectors) {
    const VecStrip by = vec_strip(factor, vectors, VEC);
    Vec top[STRIP], sum[STRIP] = {{0}};
    for (int j = 0; j < vectors; j++) top[j] = by.of[j] * vec_load(x + j * VEC, VEC);
    /* z is stored, so that z - top is of the same z: no fused product */
    for (size_t at = 0; at < (size_t)R * ld; at += ld)
        for (int j = 0; j < vectors; j++) {
            const Vec z = by.of[j] * vec_load(x + at + j * VEC, VEC);
            vec_store(y + at + j * VEC, z, VEC);
            top[j] = vec_max(top[j], z);
        }
    for (size_t at = 0; at < (size_t)R * ld; at += ld)
        for (int j = 0; j < vectors; j++) {
            const Vec v = vec_exp(vec_load(y + at + j * VEC, VEC) - top[j]);
            vec_store(y + at + j * VEC, v, VEC);
            sum[j] += v;
        }
    for (int j = 0; j < vectors; j++) sum[j] = 1 / sum[j];
    for (size_t at = 0; at < (size_t)R * ld; at += ld)
        for (int j = 0; j < vectors; j++)
            vec_store(y + at + j * VEC, sum[j] * vec_load(y + at + j * VEC, VEC), VEC);
}

void attnfn_columns(AttnFn f, real *y, const real *x, const real *factor, int ld, int R, int n) {
    const size_t stride = (size_t)ld;
    const int whole = (n + VEC - 1) / VEC * VEC;
    if (f == ATTN_SOFTMAX) {
        EACH_STRIP(i, vectors, left, whole,
                   softmax_strip(y + i, x + i, factor + i, stride, R, vectors));
        return;
    }
    for (int i = 0; i < n; i += VEC)
        for (size_t at = (size_t)i; at < (size_t)R * stride; at += stride) {
            vec_store(y + at, vec_load(factor + i, VEC) * vec_load(x + at, VEC), VEC);
            vmath_laplace(y + at, y + at, VEC);
        }
}

static inline void softmax_column_grad(real *dz, const real *dy, const real *y, size_t ld, int R) {
    Vec dot = {0};
    for (size_t at = 0; at < (size_t)R * ld; at += ld)
        dot += vec_load(dy + at, VEC) * vec_load(y + at, VEC);
    for (size_t at = 0; at < (size_t)R * ld; at += ld)
        vec_store(dz + at, vec_load(y + at, VEC) * (vec_load(dy + at, VEC) - dot), VEC);
}

void attnfn_columns_backward(AttnFn f, real *dz, const real *dy, const real *y, const real *x,
                             const real *factor, int ld, int R, int n) {
    const size_t stride = (size_t)ld;
    for (int i = 0; i < n; i += VEC) {
        if (f == ATTN_SOFTMAX) {
            softmax_column_grad(dz + i, dy + i, y + i, stride, R);
            continue;
        }
        const Vec by = vec_load(factor + i, VEC);
        for (size_t at = (size_t)i; at < (size_t)R * stride; at += stride) {
            real z[VEC], slope[VEC] = {0};
            vec_store(z, by * vec_load(x + at, VEC), VEC);
            vmath_laplace_grad(slope, dy + at, z, VEC);
            vec_store(dz + at, vec_load(slope, VEC), VEC);
        }
    }
}
