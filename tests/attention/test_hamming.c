/* Words of projections, and their K-means, against a slow reading of hamming.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/hamming.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "draws.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static void *must(void *p) {
    if (!p) abort();
    return p;
}

/* Just the memory that it asks for, as anything else may have left it. */
static void open_hamming(Hamming *o, Arena *a, int N, int C) {
    Err err;
    *a = (Arena){0};
    hamming_layout(o, a, N, C);
    const size_t bytes = a->used;
    assert_true(arena_open(a, bytes, &err));
    memset(a->base, 0xff, bytes);
    hamming_layout(o, a, N, C);
}

/* ---- words ---- */

static double projection(const real *x, const real *plane, int e) {
    double sum = 0;
    for (int i = 0; i < e; i++) sum += (double)x[i] * (double)plane[i];
    return sum;
}

/* Rows of x lie e + 3 apart. A bit whose side is too close to call counts as right. */
static void check_words(int N, int bits, int e, bool bias) {
    const double close = sizeof(real) == 8 ? 1e-12 : 1e-4;
    const int ld = e + 3;
    Draws d = draws_open("words", (uint64_t)(N * 1000 + bits * 10 + e));
    Hamming o;
    Arena a;
    open_hamming(&o, &a, N, 1);
    real *x = must(malloc((size_t)(N * ld) * sizeof *x)),
         *planes = must(malloc((size_t)(bits * (e + 1)) * sizeof *planes));
    draw_normals(&d, x, (size_t)(N * ld), 0, 1);
    draw_normals(&d, planes, (size_t)(bits * (e + 1)), 0, 1);
    for (int b = 0; b < bits && !bias; b++) planes[b * (e + 1) + e] = (real)NAN;
    memset(x, 0, (size_t)e * sizeof *x); /* on every plane through the origin: on no side of it */
    hamming_words(&o, x, ld, planes, bits, e, bias, N);
    for (int n = 0; n < N; n++) {
        uint64_t word = 0, unsure = 0;
        for (int b = 0; b < bits; b++) {
            const real *plane = planes + b * (e + 1);
            const double t = bias ? (double)plane[e] : 0,
                         side = projection(x + n * ld, plane, e) - t;
            word |= (uint64_t)(side > 0) << b;
            unsure |= (uint64_t)(side != 0 && fabs(side) < close) << b;
        }
        if ((o.words[n] ^ word) & ~unsure)
            fail_msg("%d rows of %d, %d bits%s: word %d is %016llx, and should be %016llx", N, e,
                     bits, bias ? "" : " without bias", n, (unsigned long long)o.words[n],
                     (unsigned long long)word);
    }
    free(x), free(planes);
    arena_close(&a);
}

static void words_are_sides_of_planes(void **state) {
    (void)state;
    static const int rows[] = {1, 2, 17, 255, 256, 257, 300, 512, 700}, bits[] = {1, 5, 63, 64};
    for (int i = 0; i < COUNT(rows); i++)
        for (int j = 0; j < COUNT(bits); j++)
            for (int e = 1; e < 40; e += 1 + e) {
                check_words(rows[i], bits[j], e, true);
                check_words(rows[i], bits[j], e, false);
            }
}

/* ---- K-means ---- */

/* What happened in all cases together, so that they are known to try it. */
static struct { int ties, halves, empty, several_empty, moved_late; } seen;

typedef struct Slow {
    const uint64_t *words;
    int N, C;
    uint64_t *centroids;
    int *cluster, *far;
    bool *taken;
} Slow;

static int ones(uint64_t x) {
    int n = 0;
    for (int b = 0; b < HAMMING_BITS; b++) n += (int)(x >> b & 1);
    return n;
}

static bool slow_assign(const Slow *o) {
    bool moved = false;
    for (int n = 0; n < o->N; n++) {
        int best = 0, least = HAMMING_BITS + 1;
        for (int c = 0; c < o->C; c++) {
            const int off = ones(o->words[n] ^ o->centroids[c]);
            seen.ties += off == least;
            if (off < least) best = c, least = off;
        }
        moved |= o->cluster[n] != best;
        o->cluster[n] = best, o->far[n] = least;
    }
    return moved;
}

static uint64_t farthest(const Slow *o) {
    int best = -1;
    for (int n = 0; n < o->N; n++)
        if (!o->taken[n] && (best < 0 || o->far[n] > o->far[best])) best = n;
    o->taken[best] = true;
    return o->words[best];
}

static uint64_t most_of(const Slow *o, int c, int members) {
    uint64_t word = 0;
    for (int b = 0; b < HAMMING_BITS; b++) {
        int count = 0;
        for (int n = 0; n < o->N; n++) count += o->cluster[n] == c && o->words[n] >> b & 1;
        seen.halves += 2 * count == members;
        word |= (uint64_t)(2 * count > members) << b;
    }
    return word;
}

static void slow_update(const Slow *o) {
    int empty = 0;
    memset(o->taken, 0, (size_t)o->N * sizeof *o->taken);
    for (int c = 0; c < o->C; c++) {
        int members = 0;
        for (int n = 0; n < o->N; n++) members += o->cluster[n] == c;
        o->centroids[c] = members ? most_of(o, c, members) : farthest(o);
        empty += members == 0;
    }
    seen.empty += empty > 0, seen.several_empty += empty > 1;
}

/* All of the iterations, also those that change nothing any more. */
static void slow_clusters(const uint64_t *words, int *cluster, int N, int C, int iterations) {
    Slow o = {words, N, C, must(malloc((size_t)C * sizeof *o.centroids)), cluster};
    o.far = must(malloc((size_t)N * sizeof *o.far));
    o.taken = must(malloc((size_t)N * sizeof *o.taken));
    for (int j = 0; j < C; j++) o.centroids[j] = words[j * N / C];
    for (int n = 0; n < N; n++) cluster[n] = -1;
    for (int i = 0; i < iterations; i++) {
        if (i > 0) slow_update(&o);
        const bool moved = slow_assign(&o);
        seen.moved_late += moved && i > 3;
    }
    free(o.centroids), free(o.far), free(o.taken);
}

/* N words of so many bits, among `kinds` different ones (or fewer, where they are alike). */
static void check(int N, int C, int bits, int kinds, int iterations) {
    Draws d = draws_open("K-means", (uint64_t)(N * 65 + bits + kinds * 7919));
    uint64_t *kind = must(malloc((size_t)kinds * sizeof *kind)),
             mask = bits == HAMMING_BITS ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    int *cluster = must(malloc((size_t)N * sizeof *cluster)),
        *slow = must(malloc((size_t)N * sizeof *slow));
    Hamming o;
    Arena a;
    for (int i = 0; i < kinds; i++) kind[i] = rng_u64(d.key, d.next++) & mask;
    open_hamming(&o, &a, N, C);
    for (int n = 0; n < N; n++) o.words[n] = kind[draw_int(&d, 0, kinds - 1)];
    hamming_clusters(&o, cluster, N, C, iterations);
    slow_clusters(o.words, slow, N, C, iterations);
    for (int n = 0; n < N; n++)
        if (cluster[n] != slow[n])
            fail_msg("%d words of %d bits, %d kinds, %d clusters, %d iterations: word %d is in "
                     "cluster %d, and should be in %d",
                     N, bits, kinds, C, iterations, n, cluster[n], slow[n]);
    free(kind), free(cluster), free(slow);
    arena_close(&a);
}

/* All words different or nearly so; fewer kinds than clusters, so that some are empty; one cluster,
 * one a word, and numbers that divide N with a remainder. */
static void clusters_are_those_of_k_means(void **state) {
    (void)state;
    static const int lengths[] = {1, 2, 3, 7, 31, 32, 33, 130, 255, 256, 257, 300},
                     bits[] = {1, 2, 6, 63, 64};
    for (int i = 0; i < COUNT(lengths) * COUNT(bits); i++) {
        const int N = lengths[i / COUNT(bits)], b = bits[i % COUNT(bits)];
        const int clusters[] = {1, 2, 3, (N + 1) / 2, N - 1, N}, kinds[] = {1, 3, N / 4 + 1, 4 * N};
        for (int j = 0; j < COUNT(clusters) * COUNT(kinds); j++) {
            const int C = clusters[j / COUNT(kinds)];
            if (C < 1 || C > N) continue;
            check(N, C, b, kinds[j % COUNT(kinds)], 1 + (i + j) % 10);
        }
    }
    for (int iterations = 1; iterations <= 10; iterations++) {
        check(300, 7, 64, 1200, iterations);
        check(300, 40, 6, 30, iterations);
        check(300, 300, 64, 50, iterations);
    }
    assert_true(seen.ties > 1000 && seen.halves > 1000);
    assert_true(seen.empty > 100 && seen.several_empty > 100 && seen.moved_late > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_sides_of_planes),
        cmocka_unit_test(clusters_are_those_of_k_means),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
