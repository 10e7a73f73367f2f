#include "ops/vmath.h"

#include "ops/vec.h"

#ifdef REAL_DOUBLE
enum { LOG_TERMS = 16 };
#else
enum { LOG_TERMS = 7 };
#endif

/* log(1 + y), y from 0 to 1: 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = y / (2 + y) <= 1/3. */
static inline Vec log1p_unit(Vec y) {
    const Vec s = y / (2 + y), s2 = s * s;
    Vec p = {0};
    for (int k = LOG_TERMS - 1; k >= 0; k--) p = p * s2 + REAL(2.0) / (real)(2 * k + 1);
    return p * s;
}

static inline void softplus1(real *sig, real *up, real *down, const real *x, real scale, int left) {
    const Vec zero = {0}, v = vec_load(x, left);
    const Vec plus = vec_max(zero, v), minus = vec_max(zero, -v);
    const Vec small = vec_exp(-plus - minus), base = 1 + log1p_unit(small);
    vec_store(sig, vec_where_greater(v, zero, zero + 1, small) / (1 + small), left);
    vec_store(up, (base + plus) * scale, left);
    vec_store(down, (base + minus) * scale, left);
}

void vmath_softplus1(real *sig, real *up, real *down, const real *x, real scale, int n) {
    EACH_VEC(i, left, n, softplus1(sig + i, up + i, down + i, x + i, scale, left));
}

static inline Vec exp_shifted(real *y, const real *x, real shift, int left) {
    const Vec v = vec_exp(vec_load(x, left) - shift);
    vec_store(y, v, left);
    return left < VEC ? vec_fill(v, left, 0) : v;
}

real vmath_exp_sum(real *y, const real *x, real shift, int n) {
    Vec sum = {0};
    EACH_VEC(i, left, n, sum += exp_shifted(y + i, x + i, shift, left));
    return vec_sum(sum);
}

static inline Vec load_or(const real *x, int left, real other) {
    const Vec v = vec_load(x, left);
    return left < VEC ? vec_fill(v, left, other) : v;
}

real vmath_max(const real *x, int n) {
    Vec top = vec_all(x[0]);
    EACH_VEC(i, left, n, top = vec_max(top, load_or(x + i, left, x[0])));
    return vec_top(top);
}

/* ---- tiles ---- */

real vmath_tile_peak(const real *x, VmathTile t) {
    Vec top = {0};
    for (int r = 0; r < t.rows; r++, x += t.ld)
        for (int i = 0; i < t.cols; i += VEC) top = vec_max(top, vec_abs(vec_load(x + i, VEC)));
    return vec_top(top);
}

/* s = exp(s - shift) for rows r0.. of a tile, as many as fill GROUP reals, at least one; returns
 * how many. Sums of rows follow for the group: a sum waits for the last exponential of its row, and
 * what waits is in the way of the next row's exponentials (in rows of 64, on Zen 5, the backward
 * pass takes 11 cycles a vector instead of 14). */
enum { GROUP = 1024 };
static inline int exp_group(real *s, const real *shift, int r0, VmathTile t) {
    const int most = t.cols < GROUP ? GROUP / t.cols : 1, left = t.rows - r0;
    const int n = left < most ? left : most;
    for (int r = 0; r < n; r++, s += t.ld)
        for (int i = 0; i < t.cols; i += VEC)
            vec_store(s + i, vec_exp(vec_load(s + i, VEC) - shift[r0 + r]), VEC);
    return n;
}

void vmath_exp_rows(real *s, real *sum, const real *shift, VmathTile t) {
    for (int r = 0; r < t.rows;)
        for (int end = r + exp_group(s, shift, r, t); r < end; r++, s += t.ld)
            sum[r] = vec_total(s, t.cols);
}

static inline real softmax_row(real *restrict s, real *restrict dp, real a, int cols) {
    Vec dots = {0};
    for (int i = 0; i < cols; i += VEC) dots += vec_load(s + i, VEC) * vec_load(dp + i, VEC);
    const real D = vec_sum(dots);
    for (int i = 0; i < cols; i += VEC) {
        const Vec p = a * vec_load(s + i, VEC);
        vec_store(s + i, p, VEC);
        vec_store(dp + i, p * (vec_load(dp + i, VEC) - D), VEC);
    }
    return D;
}

void vmath_softmax_rows(real *restrict s, real *restrict dp, real *D, const real *lse,
                        const real *a, VmathTile t) {
    for (int r = 0; r < t.rows;)
        for (int end = r + exp_group(s, lse, r, t); r < end; r++, s += t.ld, dp += t.ld)
            D[r] = softmax_row(s, dp, a ? a[r] : 1, t.cols);
}

static inline void softmax_grad(real *s, real *dp, real lse, real a, real D) {
    const Vec p = a * vec_exp(vec_load(s, VEC) - lse);
    vec_store(s, p, VEC);
    vec_store(dp, p * (vec_load(dp, VEC) - D), VEC);
}

void vmath_softmax_grad(real *restrict s, real *restrict dp, const real *D, const real *lse,
                        const real *a, VmathTile t) {
    for (int r = 0; r < t.rows; r++, s += t.ld, dp += t.ld)
        for (int i = 0; i < t.cols; i += VEC)
            softmax_grad(s + i, dp + i, lse[r], a ? a[r] : 1, D[r]);
}

#define SQRT_HALF REAL(0.70710678118654752440)
#define INV_SQRT_2PI REAL(0.39894228040143267794)

static inline Vec normal_cdf(Vec x) { return REAL(0.5) + REAL(0.5) * vec_erf(x * SQRT_HALF); }

static inline void gelu(real *y, const real *x, int left) {
    const Vec v = vec_load(x, left);
    vec_store(y, v * normal_cdf(v), left);
}

void vmath_gelu(real *y, const real *x, int n) { EACH_VEC(i, left, n, gelu(y + i, x + i, left)); }

static inline void gelu_grad(real *dy, real *y, const real *x, int left) {
    const Vec v = vec_load(x, left), cdf = normal_cdf(v), square = v * v;
    const Vec pdf = INV_SQRT_2PI * vec_exp(REAL(-0.5) * square);
    /* 0 where exp would stay at its lowest */
    const Vec rest = vec_where_greater(square, vec_all(-2 * VEC_EXP_LOWEST), (Vec){0}, v * pdf);
    vec_store(y, v * cdf, left);
    vec_store(dy, vec_load(dy, left) * (cdf + rest), left);
}

void vmath_gelu_grad(real *dy, real *y, const real *x, int n) {
    EACH_VEC(i, left, n, gelu_grad(dy + i, y + i, x + i, left));
}

/* ---- the Laplace function ---- */

/* mu = sqrt(1/2), sigma = sqrt(1/(4 pi)). */
#define LAPLACE_MU SQRT_HALF
#define LAPLACE_SCALE REAL(2.50662827463100050242) /* 1 / (sigma sqrt 2) = sqrt(2 pi) */
#define LAPLACE_PEAK REAL(1.41421356237309504880)  /* 1 / (sigma sqrt(2 pi)) = sqrt 2 */

typedef struct Laplace {
    Vec value, slope;
} Laplace;

/* By erfc rather than 1 + erf: in float the latter is 0 for x < -0.86, and top-k would see only
 * ties. Always inline: gcc finds this and laplace_row too large for a loop, and outside of it
 * `left` is no constant and every load a call of memcpy. */
static inline __attribute__((always_inline)) Laplace laplace(Vec x) {
    const Vec z = (x - LAPLACE_MU) * LAPLACE_SCALE, zero = {0};
    const VecTail t = vec_tail(vec_abs(z));
    const Vec half = REAL(0.5) * t.erfc;
    return (Laplace){vec_where_greater(z, zero, 1 - half, half), LAPLACE_PEAK * t.bell};
}

void vmath_laplace(real *y, const real *x, int n) {
    EACH_VEC(i, left, n, vec_store(y + i, laplace(vec_load(x + i, left)).value, left));
}

void vmath_laplace_grad(real *dx, const real *dy, const real *x, int n) {
    EACH_VEC(i, left, n,
             vec_store(dx + i,
                       vec_load(dx + i, left) +
                           vec_load(dy + i, left) * laplace(vec_load(x + i, left)).slope,
                       left));
}

static inline __attribute__((always_inline)) Vec laplace_row(real *s, real *dp, real a, int left) {
    const Vec dy = vec_load(dp, left);
    const Laplace l = laplace(vec_load(s, left));
    vec_store(s, a * l.value, left);
    vec_store(dp, a * l.slope * dy, left);
    return l.value * dy;
}

real vmath_laplace_row(real *restrict s, real *restrict dp, real a, int n) {
    Vec dot = {0};
    EACH_VEC(i, left, n, dot += laplace_row(s + i, dp + i, a, left));
    return vec_sum(dot);
}
