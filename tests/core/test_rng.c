#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"

/* The known answers of Random123's philox4x32_10: the third takes its words from the digits of pi.
 */
static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        rng_philox(out, known[i].counter, known[i].key);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

/* Words, uniforms and integers are read from the same place of the generator. */
static void draws_are_of_the_generator(void **state) {
    (void)state;
    const RngKey key = rng_key(0x299f31d0a4093822);
    for (uint64_t i = 0; i < 5; i++) {
        const uint64_t at = i ? i << 31 : 0; /* the counter has more than 32 bits */
        const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), 0, 0};
        uint32_t w[4];
        rng_philox(w, counter, (const uint32_t[]){0xa4093822, 0x299f31d0});
        const uint64_t u = (uint64_t)w[0] << 32 | w[1];
        assert_true(rng_u64(key, at) == u);
        assert_true(rng_uniform(key, at) == (double)(u >> 11) / 9007199254740992.0);
        assert_int_equal(rng_below(key, at, 10), (uint32_t)(rng_uniform(key, at) * 10));
    }
}

static bool same(RngKey a, RngKey b) { return a.k[0] == b.k[0] && a.k[1] == b.k[1]; }

/* Side by side they are what they are one by one, where a counter's upper word changes too. */
static void draws_side_by_side(void **state) {
    (void)state;
    static const uint64_t firsts[] = {0, 1, ((uint64_t)1 << 32) - 5, ~(uint64_t)0 - 40};
    for (uint64_t i = 0; i < 4 * 8; i++) {
        const RngKey key = rng_key(i * 0x243f6a8885a308d3);
        const uint64_t first = firsts[i % 4];
        uint32_t all[4 * RNG_DRAWS], one[4];
        rng_draws(all, key, first);
        for (uint64_t j = 0; j < RNG_DRAWS; j++) {
            const uint32_t counter[4] = {(uint32_t)(first + j), (uint32_t)((first + j) >> 32), 0,
                                         0};
            rng_philox(one, counter, key.k);
            assert_memory_equal(all + 4 * j, one, sizeof one);
        }
    }
}

static void keys_differ(void **state) {
    (void)state;
    const RngKey root = rng_key(1);
    RngKey keys[] = {root,
                     rng_key(2),
                     rng_key(1ull << 32),
                     rng_subkey(root, 0),
                     rng_subkey(root, 1),
                     rng_subkey(root, 1ull << 32),
                     rng_subkey(rng_subkey(root, 0), 1),
                     rng_subkey(rng_subkey(root, 1), 0),
                     rng_subkey_name(root, "a"),
                     rng_subkey_name(root, "b"),
                     rng_subkey_name(root, "ab"),
                     rng_subkey_name(root, "ba"),
                     rng_subkey(root, 'a')};
    const int n = sizeof keys / sizeof *keys;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) assert_false(same(keys[i], keys[j]));
    assert_true(same(rng_subkey_name(root, ""), root));
    assert_true(
        same(rng_subkey_name(root, "ab"), rng_subkey_name(rng_subkey_name(root, "a"), "b")));
}

/* The first four moments, within 5 standard errors of N(0,1)'s 0, 1, 0, 3. */
static void normals_have_their_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    real *x = malloc(N * sizeof *x);
    double sum[5] = {0};
    assert_non_null(x);
    rng_fill_normal(x, N, rng_key(5), 0, 1);
    for (int i = 0; i < N; i++)
        for (int p = 1; p < 5; p++) sum[p] += pow((double)x[i], p) / N;
    assert_true(fabs(sum[1]) < 5 * sqrt(1.0 / N));
    assert_true(fabs(sum[2] - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(sum[3]) < 5 * sqrt(15.0 / N));
    assert_true(fabs(sum[4] - 3) < 5 * sqrt(96.0 / N));
    real again[3];
    rng_fill_normal(again, 3, rng_key(5), 10, 0.5);
    for (int i = 0; i < 3; i++) assert_true(fabs((double)(again[i] - (10 + x[i] / 2))) < 1e-5);
    free(x);
}

static void uniforms_fill_their_range(void **state) {
    (void)state;
    enum { N = 100000, CELLS = 20 };
    real *x = malloc(N * sizeof *x);
    int count[CELLS] = {0};
    double squares = 0;
    assert_non_null(x);
    rng_fill_uniform(x, N, rng_key(6), 3);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] >= -3 && x[i] <= 3);
        int cell = (int)(((double)x[i] + 3) / 6 * CELLS);
        count[cell < CELLS ? cell : CELLS - 1]++;
    }
    for (int c = 0; c < CELLS; c++) squares += pow(count[c] - N / (double)CELLS, 2);
    assert_true(squares / (N / (double)CELLS) < 19 + 5 * sqrt(2 * 19)); /* chi-square */
    free(x);
}

static void integers_fill_their_range(void **state) {
    (void)state;
    enum { N = 70000, CELLS = 7 };
    int count[CELLS] = {0};
    double squares = 0;
    for (uint64_t i = 0; i < N; i++) count[rng_below(rng_key(7), i, CELLS)]++;
    for (int c = 0; c < CELLS; c++) squares += pow(count[c] - N / CELLS, 2);
    assert_true(squares / (N / (double)CELLS) < 6 + 5 * sqrt(2 * 6));
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(rng_below(rng_key(7), i, 1), 0);
        /* Of u (2^32 - 1) / 2^64 the floor. */
        const uint64_t u = rng_u64(rng_key(7), i), hi = u >> 32, lo = u & UINT32_MAX;
        assert_int_equal(rng_below(rng_key(7), i, UINT32_MAX), lo > hi ? hi : hi - 1);
    }
}

static void permutations_permute(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 5, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int perm[1000], seen[1000] = {0};
        rng_permutation(perm, sizes[s], rng_key(s));
        for (int i = 0; i < sizes[s]; i++) {
            assert_in_range(perm[i], 0, sizes[s] - 1);
            assert_int_equal(seen[perm[i]]++, 0);
        }
    }
    /* All orders of three are equally likely. */
    int count[27] = {0}, perm[3];
    for (uint64_t i = 0; i < 6000; i++) {
        rng_permutation(perm, 3, rng_subkey(rng_key(8), i));
        count[perm[0] * 9 + perm[1] * 3 + perm[2]]++;
    }
    for (int i = 0; i < 27; i++) assert_true(count[i] == 0 || abs(count[i] - 1000) < 150);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(draws_are_of_the_generator),
        cmocka_unit_test(draws_side_by_side),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(normals_have_their_moments),
        cmocka_unit_test(uniforms_fill_their_range),
        cmocka_unit_test(integers_fill_their_range),
        cmocka_unit_test(permutations_permute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
