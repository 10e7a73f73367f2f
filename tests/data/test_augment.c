/* Augmentation: what may come out comes out, about as often as it should, and labels stay right. */
#include "data/augment.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/token.h"
#include "data/listops.h"

enum { DRAWS = 8000, LONGEST = 1999 };

static RngKey key_of(int draw) { return augment_key(1, 0, draw, 0); }

/* How often each of `ways` came, within five standard deviations. */
static void assert_even(const int *times, int ways) {
    const double p = 1.0 / ways, deviation = sqrt(DRAWS * p * (1 - p));
    for (int i = 0; i < ways; i++) assert_true(fabs(times[i] - DRAWS * p) < 5 * deviation);
}

static void test_keys(void **state) {
    (void)state;
    const RngKey a = augment_key(1, 2, 3, 0);
    const RngKey others[] = {augment_key(2, 2, 3, 0), augment_key(1, 3, 3, 0),
                             augment_key(1, 2, 4, 0), augment_key(1, 2, 3, 1)};
    for (int i = 0; i < 4; i++) assert_memory_not_equal(&a, &others[i], sizeof a);
}

/* Of a picture of 5 x 5 in which each pixel has a number of its own. */
static void test_pictures(void **state) {
    enum { SIDE = 5, N = SIDE * SIDE, SHIFT = 2, WAYS = 2 * SHIFT + 1 };
    int times[2 * WAYS * WAYS] = {0}, scratch[AUGMENT_SCRATCH * N];
    const Augment a = {.flip = true, .shift = SHIFT};
    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        int ids[N], found = -1;
        for (int i = 0; i < N; i++) ids[i] = i + 1;
        augment_picture(&a, ids, N, scratch, key_of(draw));
        for (int way = 0; way < 2 * WAYS * WAYS; way++) {
            const int down = way / 2 / WAYS - SHIFT, right = way / 2 % WAYS - SHIFT;
            bool same = true;
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++) {
                    const int v = y - down, u = way % 2 ? SIDE - 1 - (x - right) : x - right;
                    const bool inside = v >= 0 && v < SIDE && u >= 0 && u < SIDE;
                    same &= ids[y * SIDE + x] == (inside ? v * SIDE + u + 1 : 0);
                }
            if (same) found = way;
        }
        assert_true(found >= 0);
        times[found]++;
    }
    assert_even(times, 2 * WAYS * WAYS);
}

static void test_pictures_as_they_are(void **state) {
    int ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, was[9], scratch[AUGMENT_SCRATCH * 9];
    const Augment none = {.flip = false, .shift = 0};
    (void)state;
    memcpy(was, ids, sizeof was);
    for (int draw = 0; draw < 20; draw++) augment_picture(&none, ids, 9, scratch, key_of(draw));
    assert_memory_equal(ids, was, sizeof was);
}

/* With mirrors all eight come; without, the picture and the one with rows and columns swapped. */
static void test_symmetries(void **state) {
    static const int all[8][9] = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 2, 1, 6, 5, 4, 9, 8, 7},
                                  {7, 8, 9, 4, 5, 6, 1, 2, 3}, {9, 8, 7, 6, 5, 4, 3, 2, 1},
                                  {1, 4, 7, 2, 5, 8, 3, 6, 9}, {3, 6, 9, 2, 5, 8, 1, 4, 7},
                                  {7, 4, 1, 8, 5, 2, 9, 6, 3}, {9, 6, 3, 8, 5, 2, 7, 4, 1}};
    int times[2][8] = {{0}}, scratch[AUGMENT_SCRATCH * 9];
    (void)state;
    for (int draw = 0; draw < 2 * DRAWS; draw++) {
        const Augment a = {.flip = draw % 2};
        int ids[9], found = 0;
        memcpy(ids, all[0], sizeof ids);
        augment_symmetry(&a, ids, 9, scratch, key_of(draw / 2));
        while (found < 8 && memcmp(ids, all[found], sizeof ids) != 0) found++;
        assert_in_range(found, 0, 7);
        times[a.flip][found]++;
    }
    assert_even(times[true], 8);
    times[false][1] = times[false][4];
    assert_even(times[false], 2);
    assert_int_equal(times[false][0] + times[false][1], DRAWS);
}

/* [MIN 1 [SM 2 3 ] 4 ]: six orders of three arguments, and two of those inside. */
static void test_orders_of_arguments(void **state) {
    enum { D = LISTOPS_DIGIT, N = 8 };
    static const int inside[] = {LISTOPS_SM, D + 2, D + 3, LISTOPS_CLOSE};
    int times[12] = {0}, scratch[AUGMENT_SCRATCH * N];
    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        int ids[N] = {LISTOPS_MIN, D + 1, 0, 0, 0, 0, D + 4, LISTOPS_CLOSE}, one = 0, four = 0,
            sm = 0;
        memcpy(ids + 2, inside, sizeof inside);
        listops_shuffle(NULL, ids, N, scratch, key_of(draw));
        assert_int_equal(ids[0], LISTOPS_MIN);
        assert_int_equal(ids[N - 1], LISTOPS_CLOSE);
        while (ids[one] != D + 1) one++;
        while (ids[four] != D + 4) four++;
        while (ids[sm] != LISTOPS_SM) sm++;
        assert_int_equal(ids[sm + 3], LISTOPS_CLOSE);
        assert_int_equal(ids[sm + 1] + ids[sm + 2], 2 * D + 5);
        const int order = 2 * ((one > sm) + (four > sm)) + (one > four);
        times[2 * order + (ids[sm + 1] == D + 3)]++;
    }
    assert_even(times, 12);
}

static void test_values_of_expressions(void **state) {
    int changed = 0, many = 0;
    (void)state;
    for (uint64_t i = 0; many < 300; i++) {
        uint8_t tokens[LONGEST];
        int ids[LONGEST], scratch[AUGMENT_SCRATCH * LONGEST], count[LISTOPS_VOCAB] = {0};
        const int n = listops_candidate(tokens, &listops_lra, rng_key(3), i);
        if (n == 0) continue;
        for (int k = 0; k < n; k++) count[ids[k] = tokens[k]]++;
        const int value = listops_value(ids, n);
        listops_shuffle(NULL, ids, n, scratch, key_of((int)i));
        assert_int_equal(listops_value(ids, n), value);
        bool same = true;
        for (int k = 0; k < n; k++) count[ids[k]]--, same &= ids[k] == tokens[k];
        for (int v = 0; v < LISTOPS_VOCAB; v++) assert_int_equal(count[v], 0);
        changed += !same;
        many++;
    }
    assert_int_equal(changed, many);
}

/* Cut off, or with more ends than beginnings: nothing is read or written beyond it. */
static void test_what_is_no_expression(void **state) {
    int ids[] = {LISTOPS_CLOSE, LISTOPS_SM,    LISTOPS_MIN,
                 LISTOPS_DIGIT, LISTOPS_CLOSE, LISTOPS_DIGIT};
    int was[6], scratch[AUGMENT_SCRATCH * 6];
    (void)state;
    memcpy(was, ids, sizeof was);
    listops_shuffle(NULL, ids, 6, scratch, key_of(1));
    assert_memory_equal(ids, was, sizeof was);
}

static void test_dropped_tokens(void **state) {
    enum { N = 5 };
    int times[N] = {0};
    const Augment a = {.drop = 0.2};
    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        int ids[N] = {1, 2, 3, 4, 5};
        augment_drop(&a, ids, N, NULL, key_of(draw));
        for (int i = 0; i < N; i++) {
            times[i] += ids[i] == TOKEN_MASKED;
            assert_true(ids[i] == TOKEN_MASKED || ids[i] == i + 1);
        }
    }
    assert_even(times, N);
}

/* What is no square is left as it is, and nothing is read behind its end. */
static void test_no_squares(void **state) {
    enum { N = 15 };
    const Augment a = {.flip = true, .shift = 2};
    (void)state;
    for (int draw = 0; draw < 20; draw++) {
        int ids[N], scratch[AUGMENT_SCRATCH * N];
        for (int i = 0; i < N; i++) ids[i] = i + 1;
        for (int i = 0; i < AUGMENT_SCRATCH * N; i++) scratch[i] = -1;
        augment_picture(&a, ids, N, scratch, key_of(draw));
        augment_symmetry(&a, ids, N, scratch, key_of(draw));
        for (int i = 0; i < N; i++) assert_int_equal(ids[i], i + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_pictures_as_they_are),
        cmocka_unit_test(test_symmetries),
        cmocka_unit_test(test_no_squares),
        cmocka_unit_test(test_orders_of_arguments),
        cmocka_unit_test(test_values_of_expressions),
        cmocka_unit_test(test_what_is_no_expression),
        cmocka_unit_test(test_dropped_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
