#include "core/rng.h"

#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { ROUNDS = 10 };

/* The third counter word keeps the uses of one key apart. */
enum { USE_DRAW = 0, USE_FOLD = 1, USE_NAME = 2 };

static const uint32_t MULTIPLIERS[2] = {0xD2511F53u, 0xCD9E8D57u},
                      STEPS[2] = {0x9E3779B9u, 0xBB67AE85u};

void rng_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int r = 0; r < ROUNDS; r++, k0 += STEPS[0], k1 += STEPS[1]) {
        const uint64_t p0 = (uint64_t)MULTIPLIERS[0] * c0, p1 = (uint64_t)MULTIPLIERS[1] * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1, c3 = (uint32_t)p0;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void draw(uint32_t out[4], RngKey key, uint64_t i, uint32_t use) {
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), use, 0};
    rng_philox(out, counter, key.k);
}

/* ---- draws side by side, each in a 64-bit lane whose upper half is of no meaning ---- */

#if defined(__AVX512F__)
enum { SIDE = 8 };
#define NUMBERS 0, 1, 2, 3, 4, 5, 6, 7
#define LOW_PAIRS 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_PAIRS 4, 12, 5, 13, 6, 14, 7, 15
#else
enum { SIDE = 4 };
#define NUMBERS 0, 1, 2, 3
#define LOW_PAIRS 0, 4, 1, 5
#define HIGH_PAIRS 2, 6, 3, 7
#endif
typedef uint64_t Lanes __attribute__((vector_size(8 * SIDE)));
#define LOWER 0xffffffffu

/* Of the lower halves. Written out, gcc takes it for a product of 64 bits, of three such ones. */
static inline Lanes product(Lanes a, uint32_t b) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
    return (Lanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
    return (a & LOWER) * b;
#endif
}

static inline void round_of(Lanes c[4], Lanes k0, Lanes k1) {
    const Lanes p0 = product(c[0], MULTIPLIERS[0]), p1 = product(c[2], MULTIPLIERS[1]);
    c[0] = (p1 >> 32) ^ c[1] ^ k0, c[1] = p1;
    c[2] = (p0 >> 32) ^ c[3] ^ k1, c[3] = p0;
}

/* Draw by draw, from the lanes of their four words; of 64 bits the lower half comes first. */
static inline void put_words(uint32_t *out, const Lanes c[4]) {
    const Lanes c01 = (c[0] & LOWER) | c[1] << 32, c23 = (c[2] & LOWER) | c[3] << 32;
    const Lanes pairs[2] = {__builtin_shufflevector(c01, c23, LOW_PAIRS),
                            __builtin_shufflevector(c01, c23, HIGH_PAIRS)};
    memcpy(out, pairs, sizeof pairs);
}

/* Two vectors at once: the products of one wait for each other. */
void rng_draws(uint32_t out[4 * RNG_DRAWS], RngKey key, uint64_t first) {
    for (int at = 0; at < RNG_DRAWS; at += 2 * SIDE) {
        const Lanes i = (Lanes){NUMBERS} + (first + (uint64_t)at), none = {0};
        Lanes a[4] = {i, i >> 32, none, none}, b[4] = {i + SIDE, (i + SIDE) >> 32, none, none};
        Lanes k0 = none + key.k[0], k1 = none + key.k[1];
#pragma GCC unroll 10
        for (int r = 0; r < ROUNDS; r++, k0 += STEPS[0], k1 += STEPS[1]) {
            round_of(a, k0, k1);
            round_of(b, k0, k1);
        }
        put_words(out + 4 * at, a);
        put_words(out + 4 * (at + SIDE), b);
    }
}

static double unit(uint32_t hi, uint32_t lo) {
    return (double)(((uint64_t)hi << 32 | lo) >> 11) * 0x1p-53;
}

RngKey rng_key(uint64_t seed) { return (RngKey){{(uint32_t)seed, (uint32_t)(seed >> 32)}}; }

RngKey rng_subkey(RngKey key, uint64_t value) {
    uint32_t w[4];
    draw(w, key, value, USE_FOLD);
    return (RngKey){{w[0], w[1]}};
}

RngKey rng_subkey_name(RngKey key, const char *name) {
    for (; *name; name++) {
        uint32_t w[4];
        draw(w, key, (unsigned char)*name, USE_NAME);
        key = (RngKey){{w[0], w[1]}};
    }
    return key;
}

uint64_t rng_u64(RngKey key, uint64_t i) {
    uint32_t w[4];
    draw(w, key, i, USE_DRAW);
    return (uint64_t)w[0] << 32 | w[1];
}

double rng_uniform(RngKey key, uint64_t i) {
    uint32_t w[4];
    draw(w, key, i, USE_DRAW);
    return unit(w[0], w[1]);
}

uint32_t rng_below(RngKey key, uint64_t i, uint32_t n) {
    /* The high half of a 64 x 32 bit product: bias below 2^-32. */
    uint64_t u = rng_u64(key, i);
    uint64_t low = (u & 0xffffffffu) * n, high = (u >> 32) * n;
    return (uint32_t)((high + (low >> 32)) >> 32);
}

RngStream rng_stream(RngKey key, uint64_t index) {
    return (RngStream){
        .key = key, .counter = {0, (uint32_t)index, (uint32_t)(index >> 32), 0}, .used = 4};
}

uint32_t rng_stream_u32(RngStream *s) {
    if (s->used == 4) {
        rng_philox(s->word, s->counter, s->key.k);
        s->counter[0]++;
        s->used = 0;
    }
    return s->word[s->used++];
}

uint32_t rng_stream_below(RngStream *s, uint32_t n) {
    return (uint32_t)((uint64_t)rng_stream_u32(s) * n >> 32);
}

void rng_fill_normal(real *out, int64_t n, RngKey key, double mean, double std) {
    const double two_pi = 6.283185307179586;
    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];
        draw(w, key, (uint64_t)i, USE_DRAW);
        double radius = sqrt(-2.0 * log(1.0 - unit(w[0], w[1])));
        out[i] = (real)(mean + std * radius * cos(two_pi * unit(w[2], w[3])));
    }
}

void rng_fill_uniform(real *out, int64_t n, RngKey key, double a) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (real)(a * (2.0 * rng_uniform(key, (uint64_t)i) - 1.0));
}

void rng_permutation(int *perm, int n, RngKey key) {
    for (int i = 0; i < n; i++) perm[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(key, (uint64_t)i, (uint32_t)i + 1);
        int t = perm[i];
        perm[i] = perm[j];
        perm[j] = t;
    }
}
