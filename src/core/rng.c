#include "core/rng.h"

#include <math.h>

enum { ROUNDS = 10 };

/* The third counter word keeps the uses of one key apart. */
enum { USE_DRAW = 0, USE_FOLD = 1, USE_NAME = 2 };

void rng_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static void draw(uint32_t out[4], RngKey key, uint64_t i, uint32_t use) {
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), use, 0};
    rng_philox(out, counter, key.k);
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
