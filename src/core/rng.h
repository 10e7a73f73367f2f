/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3"). A number is a pure function of (key, counter): there is no state to share
 * between threads or to save in a checkpoint. Keys are folded from what they stand for: seed, then
 * epoch, sample, layer, ... Draws by number, and keys folded from one, never meet; a stream's words
 * are among both: a key is for streams or for these. */
#ifndef CORE_RNG_H
#define CORE_RNG_H

#include <stdint.h>

#include "core/real.h"

typedef struct RngKey {
    uint32_t k[2];
} RngKey;

RngKey rng_key(uint64_t seed);
RngKey rng_subkey(RngKey key, uint64_t value);
RngKey rng_subkey_name(RngKey key, const char *name);

/* The raw generator: four words of counter, two of key (Random123's philox4x32_10). */
void rng_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* The words of draws first, first + 1, ..., RNG_DRAWS of them: of each its four, as rng_philox
 * gives them of the counter (draw low, draw high, 0, 0), in a fraction of its time. */
enum { RNG_DRAWS = 32 };
void rng_draws(uint32_t out[4 * RNG_DRAWS], RngKey key, uint64_t first);

/* The i-th word, the i-th uniform of [0,1) (53 bits), the i-th uniform integer of [0,n), n > 0. */
uint64_t rng_u64(RngKey key, uint64_t i);
double rng_uniform(RngKey key, uint64_t i);
uint32_t rng_below(RngKey key, uint64_t i, uint32_t n);

/* Words one after another, for programs that cannot number their draws; streams of one key are told
 * apart by `index`. At most 2^34 words. */
typedef struct RngStream {
    RngKey key;
    uint32_t counter[4], word[4];
    int used;
} RngStream;
RngStream rng_stream(RngKey key, uint64_t index);
uint32_t rng_stream_u32(RngStream *s);
/* Uniform in 0..n-1 up to a bias of n / 2^32. */
uint32_t rng_stream_below(RngStream *s, uint32_t n);

/* out[i] = mean + std * N(0,1) by Box-Muller; out[i] uniform in [-a,a), which in float
 * may round to a. Element i depends on i
 * alone. */
void rng_fill_normal(real *out, int64_t n, RngKey key, double mean, double std);
void rng_fill_uniform(real *out, int64_t n, RngKey key, double a);

/* perm becomes a uniform permutation of 0..n-1 (Fisher-Yates). */
void rng_permutation(int *perm, int n, RngKey key);

#endif
