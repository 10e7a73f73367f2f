/* Dealing samples to lanes, and lanes to ranks: level, and the same for any number of ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/rng.h"
#include "model/deal.h"

enum { MOST_RANKS = 7, MOST_BATCH = 64, LANES = 32, DRAWS = 50 };

/* What a sample takes, by a number from 0 to 1: the same, or as texts' lengths are, many short ones
 * and a few that are cut. */
typedef double Work(double u);
static double same(double u) { return 1 + 0 * u; }
static double ragged(double u) { return fmin(120 - 900 * log(1 - u), 4096); }

typedef struct Trial {
    Arena a;
    Deal d;
    int lanes;
} Trial;

static void deal(Trial *t, Work *work, int draw, int B, int ranks) {
    Err err = {0};
    Arena plan = {0};
    deal_layout(&t->d, &plan, MOST_BATCH, LANES, ranks);
    t->a = (Arena){0};
    assert_true(arena_open(&t->a, plan.used, &err));
    deal_layout(&t->d, &t->a, MOST_BATCH, LANES, ranks);
    const RngKey key = rng_subkey(rng_key(1), (uint64_t)draw);
    for (int i = 0; i < B; i++) t->d.work[i] = work(rng_uniform(key, (uint64_t)i));
    t->lanes = deal_lanes(&t->d, B);
}

static double of_rank(const Deal *d, int B, int rank) {
    double sum = 0;
    for (int i = 0; i < B; i++) sum += d->rank_of[i] == rank ? d->work[i] : 0;
    return sum;
}

/* What the busiest rank has, above the mean of all, as a share of it. */
static double excess(const Deal *d, int B) {
    double all = 0, most = 0;
    for (int r = 0; r < d->ranks; r++) {
        const double sum = of_rank(d, B, r);
        all += sum;
        if (sum > most) most = sum;
    }
    return most / (all / d->ranks) - 1;
}

static void each_once(void **state) {
    (void)state;
    static const int batches[] = {1, 2, 3, 25, 32, 50, 64};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            Trial t;
            const int B = batches[b];
            bool seen[MOST_BATCH] = {false};
            deal(&t, ragged, ranks, B, ranks);
            assert_int_equal(t.lanes, B < LANES ? B : LANES);
            assert_int_equal(t.d.lane_start[0], 0);
            for (int l = 0; l < t.lanes; l++)
                for (int i = t.d.lane_start[l]; i < t.d.lane_start[l + 1]; i++) {
                    const int sample = t.d.order[i];
                    assert_false(seen[sample]);
                    seen[sample] = true;
                    assert_int_equal(t.d.lane_of[sample], l);
                    if (ranks == 1) continue;
                    const int rank = t.d.rank_of[sample];
                    assert_true(t.d.cuts[rank] <= l && l < t.d.cuts[rank + 1]);
                }
            assert_int_equal(t.d.lane_start[t.lanes], B);
            arena_close(&t.a);
        }
}

/* Sums have to be added in the same order, whoever makes them. */
static void lanes_do_not_depend_on_ranks(void **state) {
    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        Trial one, many;
        deal(&one, ragged, draw, 25, 1);
        deal(&many, ragged, draw, 25, 2 + draw % (MOST_RANKS - 1));
        for (int i = 0; i < 25; i++) {
            assert_int_equal(one.d.lane_of[i], many.d.lane_of[i]);
            assert_int_equal(one.d.order[i], many.d.order[i]);
        }
        arena_close(&one.a), arena_close(&many.a);
    }
}

static double mean_excess(Work *work, int B, int ranks) {
    double sum = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        Trial t;
        deal(&t, work, draw, B, ranks);
        sum += excess(&t.d, B);
        arena_close(&t.a);
    }
    return sum / DRAWS;
}

/* Powers of two are; other cuts fall where the tree has none, and a text may be a sixth of a batch.
 */
static void ranks_are_level(void **state) {
    (void)state;
    static const double bound[] = {[2] = 0.005, [3] = 0.2, [4] = 0.04, [8] = 0.25};
    for (int ranks = 2; ranks <= 8; ranks++) {
        const double texts = mean_excess(ragged, 25, ranks);
        print_message("25 texts, %d ranks: the busiest has %.2f %% too much\n", ranks, 100 * texts);
        if (bound[ranks] > 0) assert_true(texts < bound[ranks]);
    }
    assert_true(mean_excess(same, 64, 2) < 1e-12);
    assert_true(mean_excess(same, 64, 4) < 1e-12);
    assert_true(mean_excess(same, 50, 2) < 1e-12);
}

/* Halves of the tree that are level need a single sum of each rank. */
static void texts_are_cut_where_the_tree_is(void **state) {
    (void)state;
    int whole = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        Trial t;
        deal(&t, ragged, draw, 25, 2);
        whole += t.d.cuts[1] == 16;
        arena_close(&t.a);
    }
    print_message("25 texts are cut at the 16th lane in %d of %d draws\n", whole, DRAWS);
    assert_true(whole > DRAWS / 2);
}

/* ---- ranks of another pace ---- */

/* So many batches after the first, of ranks that do `speed` work a second. */
static void learn(Trial *t, int B, const double *speed, int batches) {
    t->d.learns = true;
    for (int i = 0; i < batches; i++) {
        for (int r = 0; r < t->d.ranks; r++) t->d.seconds[r] = of_rank(&t->d, B, r) / speed[r];
        deal_learn(&t->d, B);
        deal_lanes(&t->d, B);
    }
}

static void faster_ranks_get_more(void **state) {
    (void)state;
    static const double speed[3] = {10, 30, 20};
    Trial t;
    deal(&t, same, 0, 60, 3);
    for (int r = 0; r < 3; r++) assert_true(fabs(of_rank(&t.d, 60, r) - 20) <= 1.01);
    learn(&t, 60, speed, 1);
    for (int r = 0; r < 3; r++)
        assert_true(fabs(of_rank(&t.d, 60, r) - speed[r]) <= 1.01); /* lanes of two */
    arena_close(&t.a);
}

static void paces_move_slowly(void **state) {
    (void)state;
    static const double before[2] = {10, 10}, after[2] = {10, 2};
    Trial t;
    deal(&t, same, 0, 64, 2);
    learn(&t, 64, before, 1);
    assert_true(t.d.pace[0] == 10 && t.d.pace[1] == 10);
    learn(&t, 64, after, 1);
    assert_true(t.d.pace[0] == 10 && fabs(t.d.pace[1] - 9) < 1e-12);
    t.d.learns = false;
    deal_learn(&t.d, 64);
    assert_true(t.d.pace[0] == 10 && fabs(t.d.pace[1] - 9) < 1e-12 && t.d.learns);
    learn(&t, 64, after, 40);
    assert_true(fabs(t.d.pace[1] - 2) < 0.1);
    arena_close(&t.a);
}

/* A lane cannot be shared: the slow rank has none, but is tried again. */
static void a_rank_without_work_gets_some_again(void **state) {
    (void)state;
    static const double speed[2] = {100, 1};
    int without = 0;
    Trial t;
    deal(&t, same, 0, 4, 2);
    learn(&t, 4, speed, 1);
    for (; of_rank(&t.d, 4, 1) == 0 && without < 200; without++) learn(&t, 4, speed, 1);
    print_message("a rank of a hundredth of the pace has nothing for %d batches\n", without);
    assert_in_range(without, 10, 100);
    arena_close(&t.a);
}

/* Of 4 lanes the slow rank would take longer for one than the fast one for all. */
static void who_is_done_last_counts(void **state) {
    (void)state;
    static const double speed[2] = {1, 0.2};
    Trial t;
    deal(&t, same, 0, 4, 2);
    learn(&t, 4, speed, 1);
    assert_int_equal(t.d.cuts[1], 4);
    arena_close(&t.a);
}

/* The 17th lane is the better cut by time alone, but comes to four sums in place of one. */
static void sums_cost_too(void **state) {
    (void)state;
    static const double speed[2] = {33.2, 30.8};
    Trial t;
    deal(&t, same, 0, 32, 2);
    learn(&t, 32, speed, 1);
    assert_int_equal(t.d.cuts[1], 16);
    t.d.sum_seconds = 1e-9;
    deal_lanes(&t.d, 32);
    assert_int_equal(t.d.cuts[1], 17);
    arena_close(&t.a);
}

static void lanes_do_not_depend_on_pace(void **state) {
    (void)state;
    static const double speed[3] = {10, 30, 20};
    for (int draw = 0; draw < DRAWS; draw++) {
        Trial one, many;
        deal(&one, ragged, draw, 25, 1);
        deal(&many, ragged, draw, 25, 3);
        learn(&many, 25, speed, 2);
        for (int i = 0; i < 25; i++) assert_int_equal(one.d.order[i], many.d.order[i]);
        arena_close(&one.a), arena_close(&many.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_once),
        cmocka_unit_test(lanes_do_not_depend_on_ranks),
        cmocka_unit_test(ranks_are_level),
        cmocka_unit_test(texts_are_cut_where_the_tree_is),
        cmocka_unit_test(faster_ranks_get_more),
        cmocka_unit_test(paces_move_slowly),
        cmocka_unit_test(a_rank_without_work_gets_some_again),
        cmocka_unit_test(who_is_done_last_counts),
        cmocka_unit_test(sums_cost_too),
        cmocka_unit_test(lanes_do_not_depend_on_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
