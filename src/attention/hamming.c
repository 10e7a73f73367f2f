#include "attention/hamming.h"

#include <string.h>

#include "core/gemm.h"

enum { TILE = 256 };

static int levels_of(int N) {
    int levels = 1;
    while (N >> levels) levels++;
    return levels;
}

void hamming_layout(Hamming *o, Arena *a, int N, int C) {
    const size_t n = (size_t)N, c = (size_t)C;
    o->levels = levels_of(N);
    o->words = arena_take(a, n, sizeof *o->words);
    o->centroids = arena_take(a, c, sizeof *o->centroids);
    o->counts = arena_take(a, c * (size_t)o->levels, sizeof *o->counts);
    o->nearest = arena_take(a, n, sizeof *o->nearest);
    o->size = arena_ints(a, c);
    o->moved = arena_ints(a, c + 1);
    o->moves = arena_take(a, c, sizeof *o->moves);
    o->list = arena_ints(a, n);
    o->projected = arena_reals(a, (size_t)HAMMING_BITS * TILE);
}

void hamming_words(const Hamming *o, const real *x, int ld, const real *planes, int bits, int e,
                   bool bias, int N) {
    for (int n0 = 0; n0 < N; n0 += TILE) {
        const int n = N - n0 < TILE ? N - n0 : TILE;
        uint64_t *words = o->words + n0;
        gemm_nt(o->projected, TILE, planes, e + 1, x + (size_t)n0 * (size_t)ld, ld, bits, n, e,
                false);
        memset(words, 0, (size_t)n * sizeof *words);
        for (int b = 0; b < bits; b++) {
            const real t = bias ? planes[b * (e + 1) + e] : 0, *row = o->projected + b * TILE;
            for (int i = 0; i < n; i++) words[i] |= (uint64_t)(row[i] > t) << b;
        }
    }
}

/* ---- assignment ---- */

/* A word's distance to a centroid above the centroid's number: the least is the nearest, and the
 * lower one on ties. */
enum { NUMBER_BITS = 16 };

static inline uint32_t nearer(uint32_t best, uint64_t word, uint64_t centroid, int c) {
    const uint32_t key =
        (uint32_t)__builtin_popcountll(word ^ centroid) << NUMBER_BITS | (uint32_t)c;
    return key < best ? key : best;
}

static inline int cluster_of(uint32_t nearest) { return (int)(nearest & ((1 << NUMBER_BITS) - 1)); }
static inline int distance_of(uint32_t nearest) { return (int)(nearest >> NUMBER_BITS); }

static uint32_t nearest_of_all(const Hamming *o, uint64_t word, int C) {
    uint32_t best = UINT32_MAX;
    for (int c = 0; c < C; c++) best = nearer(best, word, o->centroids[c], c);
    return best;
}

/* Where a word's own centroid is what it was, only those that moved can be nearer. */
static void assign(const Hamming *o, int N, int C) {
    for (int n = 0; n < N; n++) {
        const uint64_t word = o->words[n];
        uint32_t best = o->nearest[n];
        if (o->moves[cluster_of(best)])
            best = nearest_of_all(o, word, C);
        else
            for (const int *c = o->moved; *c >= 0; c++)
                best = nearer(best, word, o->centroids[*c], *c);
        o->nearest[n] = best;
    }
}

/* ---- update ---- */

/* Adds 1 to the counts of the bits that the word has. */
static inline void count_word(uint64_t *counts, uint64_t word) {
    for (uint64_t carry = word; carry; counts++) {
        const uint64_t both = *counts & carry;
        *counts ^= carry;
        carry = both;
    }
}

/* The bits whose count is more than half: compared from the highest level down. */
static uint64_t majority(const uint64_t *counts, int levels, int members) {
    const int half = members / 2;
    uint64_t more = 0, equal = UINT64_MAX;
    for (int l = levels - 1; l >= 0; l--) {
        const uint64_t bit = half >> l & 1 ? UINT64_MAX : 0;
        more |= equal & counts[l] & ~bit;
        equal &= ~(counts[l] ^ bit);
    }
    return more;
}

/* Words by their distance, farthest first: sorted by counting. */
static void list_farthest(const Hamming *o, int N) {
    int at[HAMMING_BITS + 2] = {0};
    for (int n = 0; n < N; n++) at[HAMMING_BITS - distance_of(o->nearest[n]) + 1]++;
    for (int i = 0; i <= HAMMING_BITS; i++) at[i + 1] += at[i];
    for (int n = 0; n < N; n++) o->list[at[HAMMING_BITS - distance_of(o->nearest[n])]++] = n;
}

static void count_members(const Hamming *o, int N, int C) {
    const size_t levels = (size_t)o->levels;
    memset(o->counts, 0, (size_t)C * levels * sizeof *o->counts);
    memset(o->size, 0, (size_t)C * sizeof *o->size);
    for (int n = 0; n < N; n++) {
        const int c = cluster_of(o->nearest[n]);
        count_word(o->counts + (size_t)c * levels, o->words[n]);
        o->size[c]++;
    }
}

/* Returns whether any centroid moved. */
static bool update(const Hamming *o, int N, int C) {
    int taken = 0, moved = 0;
    count_members(o, N, C);
    for (int c = 0; c < C; c++) {
        uint64_t word = majority(o->counts + (size_t)(c * o->levels), o->levels, o->size[c]);
        if (o->size[c] == 0) {
            if (taken == 0) list_farthest(o, N);
            word = o->words[o->list[taken++]];
        }
        o->moves[c] = word != o->centroids[c];
        o->centroids[c] = word;
        if (o->moves[c]) o->moved[moved++] = c;
    }
    o->moved[moved] = -1;
    return moved > 0;
}

void hamming_clusters(const Hamming *o, int *cluster, int N, int C, int iterations) {
    for (int j = 0; j < C; j++) o->centroids[j] = o->words[(int64_t)j * N / C];
    for (int n = 0; n < N; n++) o->nearest[n] = nearest_of_all(o, o->words[n], C);
    for (int i = 1; i < iterations && update(o, N, C); i++) assign(o, N, C);
    for (int n = 0; n < N; n++) cluster[n] = cluster_of(o->nearest[n]);
}
