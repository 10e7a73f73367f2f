/* Random numbers for tests: functions of a seed, so that every run draws the same. */
#ifndef TESTS_DRAWS_H
#define TESTS_DRAWS_H

#include <stddef.h>

#include "core/rng.h"

typedef struct Draws {
    RngKey key;
    uint64_t next;
} Draws;

static inline Draws draws_open(const char *name, uint64_t seed) {
    return (Draws){rng_subkey_name(rng_key(seed), name), 0};
}

/* Uniform in from..to, both included. */
static inline int draw_int(Draws *d, int from, int to) {
    return from + (int)rng_below(d->key, d->next++, (uint32_t)(to - from) + 1);
}

/* A size from 1 to `most`; small and odd ones more often than their share. */
static inline int draw_size(Draws *d, int most) {
    static const int odd[] = {1, 1, 2, 3, 5, 7, 8, 13, 17, 33};
    int n = odd[draw_int(d, 0, 9)];
    return draw_int(d, 0, 1) && n <= most ? n : draw_int(d, 1, most);
}

static inline double draw_uniform(Draws *d) { return rng_uniform(d->key, d->next++); }

static inline void draw_normals(Draws *d, real *x, size_t n, double mean, double std) {
    rng_fill_normal(x, (int64_t)n, rng_subkey(d->key, d->next++), mean, std);
}

#endif
