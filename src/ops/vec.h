/* Whole vectors, as wide as the processor's: 16 floats or 8 doubles with AVX-512, half as many
 * elsewhere, where gcc takes wider ones apart element by element. For hot loops that compilers make
 * slow code of: without -ffast-math gcc 12 adds a row's 16 partial sums one after another (a row of
 * 128 takes twice the time), and turns the clamp of an exp into masks over the whole loop (1.6
 * times).
 *
 * A loop's body takes how many elements are left; it is there twice, with VEC in the loop and once
 * more for the rest, so that the loop itself holds no partial vector. */
#ifndef OPS_VEC_H
#define OPS_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "core/real.h"

#if defined(__AVX512F__)
#define VEC_BYTES 64
#else
#define VEC_BYTES 32
#endif
enum { VEC = VEC_BYTES / (int)sizeof(real) };
typedef real Vec __attribute__((vector_size(VEC_BYTES)));
#ifdef REAL_DOUBLE
typedef uint64_t VecBits __attribute__((vector_size(VEC_BYTES)));
#else
typedef uint32_t VecBits __attribute__((vector_size(VEC_BYTES)));
#endif

/* BODY for all vectors of n elements; the caller names its variables: i the first element, left how
 * many there are, VEC or, in the last vector, fewer. */
#define EACH_VEC(i, left, n, BODY)                                                                 \
    do {                                                                                           \
        int i = 0;                                                                                 \
        for (const int left = VEC; i + left <= (n); i += left) BODY;                               \
        if (i < (n)) {                                                                             \
            const int left = (n)-i;                                                                \
            BODY;                                                                                  \
        }                                                                                          \
    } while (0)

/* BODY for all columns of an array, n of them, in strips; the caller names its variables: i the
 * first column of a strip, which is `vectors` wide, STRIP at most; the last may be one vector with
 * `left` columns. What belongs to columns stays in registers down a strip, and its rows come from
 * memory in long pieces. */
enum { STRIP = 4 };
#define EACH_STRIP(i, vectors, left, n, BODY)                                                      \
    do {                                                                                           \
        int i = 0;                                                                                 \
        for (const int vectors = STRIP, left = VEC; i + vectors * left <= (n);                     \
             i += vectors * left)                                                                  \
            BODY;                                                                                  \
        for (const int vectors = 2, left = VEC; i + vectors * left <= (n); i += vectors * left)    \
            BODY;                                                                                  \
        for (const int vectors = 1, left = VEC; i + left <= (n); i += left) BODY;                  \
        if (i < (n)) {                                                                             \
            const int vectors = 1, left = (n)-i;                                                   \
            (void)left;                                                                            \
            BODY;                                                                                  \
        }                                                                                          \
    } while (0)

static inline Vec vec_all(real x) { return (Vec){0} + x; }

/* The first `left` elements, at most VEC; missing ones read as 0. */
static inline Vec vec_load(const real *p, int left) {
    Vec v = {0};
    memcpy(&v, p, (size_t)left * sizeof *p);
    return v;
}
static inline void vec_store(real *p, Vec v, int left) { memcpy(p, &v, (size_t)left * sizeof *p); }

/* x1 x0 x3 x2 ... */
static inline Vec vec_swap_pairs(Vec x) {
#if VEC_BYTES == 64 && !defined(REAL_DOUBLE)
    return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif VEC_BYTES == 64 || !defined(REAL_DOUBLE)
    return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    return __builtin_shufflevector(x, x, 1, 0, 3, 2);
#endif
}

/* For rows, which are short: a call of memcpy for each takes longer. */
static inline void vec_copy(real *to, const real *from, int n) {
    EACH_VEC(i, left, n, vec_store(to + i, vec_load(from + i, left), left));
}

/* to = x + y; to may be either. */
static inline void vec_add(real *to, const real *x, const real *y, int n) {
    EACH_VEC(i, left, n, vec_store(to + i, vec_load(x + i, left) + vec_load(y + i, left), left));
}

/* to += scale from. */
static inline void vec_add_scaled(real *to, const real *from, real scale, int n) {
    EACH_VEC(i, left, n,
             vec_store(to + i, vec_load(to + i, left) + scale * vec_load(from + i, left), left));
}

/* One row of a strip. */
typedef struct VecStrip {
    Vec of[STRIP];
} VecStrip;
static inline VecStrip vec_strip(const real *p, const int vectors, const int left) {
    VecStrip s;
    for (int j = 0; j < STRIP; j++) s.of[j] = j < vectors ? vec_load(p + j * VEC, left) : (Vec){0};
    return s;
}
static inline void vec_strip_store(real *p, VecStrip s, const int vectors, const int left) {
    for (int j = 0; j < vectors; j++) vec_store(p + j * VEC, s.of[j], left);
}
static inline void vec_strip_add(real *p, VecStrip s, const int vectors, const int left) {
    for (int j = 0; j < vectors; j++)
        vec_store(p + j * VEC, vec_load(p + j * VEC, left) + s.of[j], left);
}

/* Sums over rows, ld apart, of x - from or of its squares. In blocks: what rounding does to a sum
 * of rows that are alike grows with their number. */
static inline VecStrip vec_strip_sum(const real *x, VecStrip from, const bool squares, int rows,
                                     size_t ld, const int vectors, const int left) {
    enum { SUM_ROWS = 256 };
    VecStrip sum = {{{0}}};
    for (int r0 = 0; r0 < rows; r0 += SUM_ROWS) {
        const int end = rows - r0 < SUM_ROWS ? rows : r0 + SUM_ROWS;
        VecStrip part = {{{0}}};
        for (int r = r0; r < end; r++, x += ld)
            for (int j = 0; j < vectors; j++) {
                const Vec v = vec_load(x + j * VEC, left) - from.of[j];
                part.of[j] += squares ? v * v : v;
            }
        for (int j = 0; j < vectors; j++) sum.of[j] += part.of[j];
    }
    return sum;
}

/* where a > b: x, elsewhere y */
static inline Vec vec_where_greater(Vec a, Vec b, Vec x, Vec y) {
    const VecBits m = (VecBits)(a > b);
    return (Vec)((m & (VecBits)x) | (~m & (VecBits)y));
}

/* The larger and the smaller; b where either is NaN, or both are 0. One instruction, where gcc 12
 * makes four of a choice. */
#if defined(__AVX512F__) && defined(REAL_DOUBLE)
#define VEC_OF_TWO(op, a, b) (Vec) _mm512_##op##_pd((__m512d)(a), (__m512d)(b))
#elif defined(__AVX512F__)
#define VEC_OF_TWO(op, a, b) (Vec) _mm512_##op##_ps((__m512)(a), (__m512)(b))
#elif defined(__AVX__) && defined(REAL_DOUBLE)
#define VEC_OF_TWO(op, a, b) (Vec) _mm256_##op##_pd((__m256d)(a), (__m256d)(b))
#elif defined(__AVX__)
#define VEC_OF_TWO(op, a, b) (Vec) _mm256_##op##_ps((__m256)(a), (__m256)(b))
#endif
#ifdef VEC_OF_TWO
static inline Vec vec_max(Vec a, Vec b) { return VEC_OF_TWO(max, a, b); }
static inline Vec vec_min(Vec a, Vec b) { return VEC_OF_TWO(min, a, b); }
#else
static inline Vec vec_max(Vec a, Vec b) { return vec_where_greater(a, b, a, b); }
static inline Vec vec_min(Vec a, Vec b) { return vec_where_greater(b, a, a, b); }
#endif

static inline Vec vec_abs(Vec v) { return vec_max(v, -v); }

/* Elements `left` and beyond become `other`. */
static inline Vec vec_fill(Vec v, int left, real other) {
    for (int i = left; i < VEC; i++) v[i] = other;
    return v;
}

/* Four elements of a vector. Copied from their address they would keep the vector, a loop's sum, in
 * memory. */
typedef real VecFour __attribute__((vector_size(4 * sizeof(real))));
#define VEC_FOUR(v, at) __builtin_shufflevector(v, v, at, at + 1, at + 2, at + 3)

/* The sum of all elements, in a fixed order: upper half to lower, until one is left. */
static inline real vec_sum(Vec v) {
#if VEC_BYTES == 32 && defined(REAL_DOUBLE)
    const VecFour four = v;
#elif VEC_BYTES == 32 || defined(REAL_DOUBLE)
    const VecFour four = VEC_FOUR(v, 0) + VEC_FOUR(v, 4);
#else
    const VecFour four = (VEC_FOUR(v, 0) + VEC_FOUR(v, 8)) + (VEC_FOUR(v, 4) + VEC_FOUR(v, 12));
#endif
    const VecFour pairs = four + __builtin_shufflevector(four, four, 2, 3, 0, 1);
    return pairs[0] + pairs[1];
}

/* The largest element; NaN may be passed over, and with it what came before it. */
static inline real vec_top(Vec v) {
    real x[VEC], top;
    vec_store(x, v, VEC);
    top = x[0];
    for (int i = 1; i < VEC; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline real vec_total(const real *x, int n) {
    Vec sum = {0};
    EACH_VEC(i, left, n, sum += vec_load(x + i, left));
    return vec_sum(sum);
}

static inline real vec_dot(const real *x, const real *y, int n) {
    Vec sum = {0};
    EACH_VEC(i, left, n, sum += vec_load(x + i, left) * vec_load(y + i, left));
    return vec_sum(sum);
}

/* exp(x) = 2^n exp(f), n = round(x / ln 2), |f| <= ln 2 / 2, exp(f) by a polynomial.
 * Adding and taking away VEC_MAGIC = 1.5 * 2^(mantissa bits) + bias rounds to a whole number; in
 * the low bits of the sum it stands as an exponent does. Exact to 2 ULP from VEC_EXP_LOWEST to
 * VEC_EXP_HIGHEST. Below it stays what it is there; above it the result means nothing; NaN passes.
 */
#ifdef REAL_DOUBLE
enum { VEC_MANTISSA = 52 };
#define VEC_MAGIC (6755399441055744.0 + 1023)
#define VEC_EXP_LOWEST (-708.0)
#define VEC_EXP_HIGHEST 709.0
#define VEC_LN2_HI 6.93145751953125e-1
#define VEC_LN2_LO 1.42860682030941723212e-6
#else
enum { VEC_MANTISSA = 23 };
#define VEC_MAGIC (12582912.0f + 127)
#define VEC_EXP_LOWEST (-87.0f)
#define VEC_EXP_HIGHEST 88.0f
#define VEC_LN2_HI 0.693359375f
#define VEC_LN2_LO (-2.12194440e-4f)
#endif
#define VEC_LOG2_E REAL(1.44269504088896340736)

static inline Vec vec_exp_reduced(Vec f) {
#ifdef REAL_DOUBLE
    Vec p = f * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    p = p * f + 1.0 / 39916800.0;
    p = p * f + 1.0 / 3628800.0;
    p = p * f + 1.0 / 362880.0;
    p = p * f + 1.0 / 40320.0;
    p = p * f + 1.0 / 5040.0;
    p = p * f + 1.0 / 720.0;
    p = p * f + 1.0 / 120.0;
    p = p * f + 1.0 / 24.0;
    p = p * f + 1.0 / 6.0;
#else
    Vec p = f * 1.38368461e-3f + 8.37481578e-3f; /* minimax, 2e-9: one term less than Taylor's */
    p = p * f + 4.16682256e-2f;
    p = p * f + 1.66664202e-1f;
#endif
    p = p * f + REAL(0.5);
    p = p * f + REAL(1.0);
    return p * f + REAL(1.0);
}

/* x 2^n, n whole, sum = n + VEC_MAGIC: in one instruction, or by a number of exponent n. */
static inline Vec vec_scale(Vec x, Vec n, Vec sum) {
#if defined(__AVX512F__) && defined(REAL_DOUBLE)
    return (Vec)_mm512_scalef_pd((__m512d)x, (__m512d)n);
#elif defined(__AVX512F__)
    return (Vec)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    return x * (Vec)((VecBits)sum << VEC_MANTISSA);
#endif
}

static inline Vec vec_exp(Vec x) {
    x = vec_max(vec_all(VEC_EXP_LOWEST), x);
#if !defined(__AVX512F__) /* which scales beyond, to infinity */
    x = vec_min(vec_all(VEC_EXP_HIGHEST), x);
#endif
    const Vec sum = x * VEC_LOG2_E + VEC_MAGIC, n = sum - VEC_MAGIC;
    const Vec f = (x - n * VEC_LN2_HI) - n * VEC_LN2_LO;
    return vec_scale(vec_exp_reduced(f), n, sum);
}

/* The error function; in float z P(z^2) / Q(z^2), a rational fit to 2e-8 that rounding makes 4e-7.
 * From VEC_ERF_TOP on it is 1 to the bit. NaN passes. */
#ifdef REAL_DOUBLE
static inline Vec vec_erf(Vec x) {
    for (int i = 0; i < VEC; i++) x[i] = __builtin_erf(x[i]);
    return x;
}
#else
#define VEC_ERF_TOP 4.0f
static inline Vec vec_erf(Vec x) {
    const Vec z = vec_min(vec_all(VEC_ERF_TOP), vec_max(vec_all(-VEC_ERF_TOP), x)), u = z * z;
    Vec p = u * 2.0261151026e-6f + 2.8467031827e-4f, q = u * 3.7833065971e-5f + 1.1705070785e-3f;
    p = p * u + 3.8072272036e-3f, q = q * u + 1.5053198856e-2f;
    p = p * u + 5.2872529269e-2f, q = q * u + 1.1455043313e-1f;
    p = p * u + 1.9152799388e-1f, q = q * u + 5.0306994433e-1f;
    p = p * u + 1.1283791440f, q = q * u + 1.0f;
    return vec_min(vec_all(1), vec_max(vec_all(-1), z * p / q));
}
#endif

/* The tail of the error function, exact in proportion however small: erfc(x) = 1 - erf(x) for x >=
 * 0 is bell times e^(x^2) erfc(x), and that is P(x) / Q(x), a rational fit to 6e-9 that rounding
 * makes 4e-7; in double P(u) / (1 + 2x), of u = (x - 3.75) / (x + 3.75) as Shepherd and Laframboise
 * have it (1981), a fit to 4e-16 where bell is not 0. bell is e^(-x^2), which callers have a use
 * for; it and so the tail are 0 where exp would stay at its lowest. NaN passes. */
typedef struct VecTail {
    Vec bell, erfc;
} VecTail;
static inline VecTail vec_tail(Vec x) {
    const Vec square = x * x;
    VecTail t = {
        .bell = vec_where_greater(square, vec_all(-VEC_EXP_LOWEST), (Vec){0}, vec_exp(-square))};
#ifdef REAL_DOUBLE
    static const double fit[] = {
        1.2375126308378275,      -0.14024059858554672,    0.0035854154854627787,
        0.082276738490114604,    -0.10880393014165794,    0.092304321161468569,
        -0.058693398591466016,   0.028362277400977638,    -0.0097465795408827969,
        0.0017556260171950049,   0.00029371358802653894,  -0.00029015499180998704,
        5.1649209013595202e-05,  2.2387440954073393e-05,  -1.1443668276241394e-05,
        -9.8075586636157061e-07, 1.7490089891558831e-06,  -4.7113133073439079e-08,
        -2.5315342634461366e-07, 1.5021736530069981e-08,  3.283098101325084e-08,
        -5.0369954635875445e-10, -2.2822006004827352e-09,
    };
    const Vec z = vec_min(vec_all(27), x), u = (z - 3.75) / (z + 3.75);
    int k = sizeof fit / sizeof *fit - 1;
    Vec p = vec_all(fit[k]);
    while (k-- > 0) p = p * u + fit[k];
    t.erfc = t.bell * p / (1 + 2 * z);
#else
    const Vec z = vec_min(vec_all(10), x); /* where bell is 0: infinity must not become NaN */
    Vec p = z * 3.2711186348e-2f + 2.2881382327e-1f, q = z * 5.7978355398e-2f + 4.0558874239e-1f;
    p = p * z + 7.3075610286e-1f, q = q * z + 1.3237851725f;
    p = p * z + 1.2376024055f, q = q * z + 2.4004718847f;
    p = p * z + 1.0f, q = q * z + 2.3659821389f;
    t.erfc = t.bell * p / (q * z + 1.0f);
#endif
    return t;
}

#endif
