#include "ops/dropout.h"

void dropout_apply(real *x, RngKey key, double p, int64_t first, int64_t n) {
    enum { WORDS = 4 * RNG_DRAWS };
    if (p <= 0) return;
    const uint32_t cut = (uint32_t)(p * 4294967296.0);
    const real scale = (real)(1 / (1 - p));
    for (int64_t i = 0; i < n;) {
        uint32_t word[WORDS];
        const int skip = (int)((first + i) % 4); /* the draw's words of elements before */
        const int many = (int)(n - i < WORDS - skip ? n - i : WORDS - skip);
        rng_draws(word, key, (uint64_t)(first + i) / 4);
        for (int j = 0; j < many; j++) x[i + j] *= word[skip + j] < cut ? 0 : scale;
        i += many;
    }
}
