#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#include "core/aside.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/peak.h"
#include "draws.h"
#include "text.h"

enum { MOST_LANES = 40, REALS = 37 };

static const int teams[] = {1, 2, 3, 8};
enum { TEAMS = sizeof teams / sizeof *teams };

/* ---- lanes_run ---- */

typedef struct Visits {
    int count[1000], thread[1000], team;
} Visits;

/* Lanes write to places of their own, so a thread needs no lock. */
static void visit(void *ctx, int lane, int thread) {
    Visits *v = ctx;
    v->count[lane]++;
    if (omp_get_max_threads() != 1) v->team = omp_get_max_threads();
    v->thread[lane] = thread;
}

static void every_lane_once(void **state) {
    (void)state;
    static const int lanes[] = {0, 1, 2, 3, 7, 8, 9, 40, 1000};
    for (int t = 0; t < TEAMS; t++) {
        assert_int_equal(lanes_open(teams[t]), teams[t]);
        assert_int_equal(lanes_threads(), teams[t]);
        for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
            Visits v = {.team = 1};
            lanes_run(lanes[i], visit, &v);
            assert_int_equal(omp_get_max_threads(),
                             1); /* else OpenBLAS would have a team in a team */
            assert_int_equal(v.team, 1);
            for (int l = 0; l < 1000; l++) {
                assert_int_equal(v.count[l], l < lanes[i]);
                assert_in_range(v.thread[l], 0, teams[t] - 1);
            }
        }
    }
}

static atomic_int met;

static void meet(void *ctx, int lane, int thread) {
    static _Thread_local bool before;
    met += !before;
    before = true;
}

/* Fewer lanes than threads, as updates of few parameters have, end no thread. */
static void threads_stay(void **state) {
    enum { THREADS = 8, ROUNDS = 50 };
    lanes_open(THREADS);
    met = 0;
    for (int i = 0; i < ROUNDS; i++) {
        lanes_run(100, meet, NULL);
        lanes_run(3, meet, NULL);
        lanes_run_sharing(100, meet, NULL);
    }
    assert_in_range(met, 1, THREADS);
}

static void environment_sets_threads(void **state) {
    (void)state;
    setenv("OMP_NUM_THREADS", "3", 1);
    assert_int_equal(lanes_open(0), 3);
    setenv("OMP_NUM_THREADS", "5,2", 1);
    assert_int_equal(lanes_open(0), 5);
    unsetenv("OMP_NUM_THREADS");
    const int own = lanes_open(0);
    assert_in_range(own, 1, 4096);
    static const char *const odd[] = {"", "0", "-2", "many", "3x", "99999999999"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        setenv("OMP_NUM_THREADS", odd[i], 1);
        assert_int_equal(lanes_open(0), own);
    }
    unsetenv("OMP_NUM_THREADS");
}

/* Threads wait for the next job once they are made, so those that measured can be counted. */
static void peak_is_of_processors(void **state) {
    enum { MANY = 200 };
    (void)state;
    lanes_open(MANY);
    const int before = text_count("/proc/self/task");
    assert_true(peak_gflops(MANY) > 0);
    assert_in_range(text_count("/proc/self/task"), 1, before + lanes_processors());
}

/* ---- lanes_share ---- */

enum { MOST_PARTS = 60, MOST_TEAM = 8, ROUNDS = 20 };

/* A lane's parts, each at most once at a time on a thread, whose scratch it has until its finish.
 */
typedef struct Parts {
    struct Lanes *all;
    int jobs[MOST_PARTS], finished;
    bool finishes;
} Parts;

typedef struct Lanes {
    Parts lane[MOST_LANES];
    _Atomic bool busy[MOST_TEAM];
    int scratch[MOST_TEAM];
    int parts;
    _Atomic int wrong;
} Lanes;

static void do_part(const void *ctx, int part, int thread) {
    Parts *p = (Parts *)ctx;
    Lanes *all = p->all;
    if (thread < 0 || thread >= MOST_TEAM || atomic_exchange(&all->busy[thread], true)) {
        all->wrong++;
        return;
    }
    p->jobs[part]++;
    all->scratch[thread] = part;
    if (!p->finishes) all->busy[thread] = false;
}

static void finish_part(const void *ctx, int part, int thread) {
    Parts *p = (Parts *)ctx;
    if (part != p->finished || p->all->scratch[thread] != part) p->all->wrong++;
    p->finished = part + 1;
    p->all->busy[thread] = false;
}

static void share_lane(void *ctx, int lane, int thread) {
    Lanes *all = ctx;
    Parts *p = &all->lane[lane];
    (void)thread;
    for (int round = 0; round < ROUNDS; round++) {
        p->finishes = round % 2, p->finished = 0;
        lanes_share(all->parts, do_part, p->finishes ? finish_part : NULL, p);
        for (int i = 0; i < MOST_PARTS; i++)
            if (p->jobs[i] != (i < all->parts ? round + 1 : 0)) all->wrong++;
        if (p->finishes && p->finished != all->parts) all->wrong++;
    }
}

static void every_part_once(void **state) {
    static const int lanes[] = {1, 2, 5, MOST_LANES}, parts[] = {0, 1, 2, 3, MOST_PARTS};
    (void)state;
    for (int i = 0; i < TEAMS * 4 * 5; i++) {
        Lanes all = {.parts = parts[i % 5]};
        for (int l = 0; l < MOST_LANES; l++) all.lane[l].all = &all;
        lanes_open(teams[i / 20]);
        lanes_run_sharing(lanes[i / 5 % 4], share_lane, &all);
        assert_int_equal(all.wrong, 0);
    }
}

/* One of two parts waits for the other to begin, but not for ever. */
typedef struct Pair {
    _Atomic bool begun[2], together;
} Pair;

static void meet_part(const void *ctx, int part, int thread) {
    Pair *p = (Pair *)ctx;
    const double until = clock_seconds() + 60;
    (void)thread;
    p->begun[part] = true;
    while (!p->begun[!part] && clock_seconds() < until) sched_yield();
    p->together = p->begun[!part];
}

static void share_pair(void *ctx, int lane, int thread) {
    (void)lane, (void)thread;
    lanes_share(2, meet_part, NULL, ctx);
}

static void free_threads_help(void **state) {
    (void)state;
    for (int threads = 2; threads <= 3; threads++) {
        Pair p = {{false, false}, false};
        lanes_open(threads);
        lanes_run_sharing(1, share_pair, &p);
        assert_true(p.together);
    }
}

/* ---- lanes_sum ---- */

typedef struct Terms {
    const real *x; /* (lanes,REALS) */
    size_t from, to;
    bool clean;
} Terms;

static void add_lane(void *ctx, int lane, int thread, real *sum) {
    Terms *t = ctx;
    (void)thread;
    for (size_t i = t->from; i < t->to; i++) {
        if (sum[i] != 0) t->clean = false;
        sum[i] += t->x[(size_t)lane * REALS + i];
    }
}

static void open_pool(LanePool *p, Arena *a, int lanes) {
    Arena plan = {0};
    Err err;
    lanepool_layout(p, &plan, lanes, REALS);
    assert_true(arena_open(a, plan.used, &err));
    memset(a->base, 0xff, a->cap);
    lanepool_layout(p, a, lanes, REALS);
}

static void sum_into(real *total, const real *x, LanePool *p, int lanes, size_t from, size_t to) {
    Terms t = {x, from, to, true};
    for (int i = 0; i < REALS; i++) total[i] = (real)i;
    lanes_sum(p, lanes, add_lane, &t, total, from, to);
    assert_true(t.clean);
}

/* Whole numbers, which add up without rounding, in any order. */
static void sums_are_exact(void **state) {
    (void)state;
    Arena a;
    LanePool p;
    Draws d = draws_open("lanes", 1);
    real x[MOST_LANES * REALS], total[REALS];
    for (int i = 0; i < MOST_LANES * REALS; i++) x[i] = (real)draw_int(&d, -1000, 1000);
    open_pool(&p, &a, MOST_LANES);
    for (int t = 0; t < TEAMS; t++) {
        lanes_open(teams[t]);
        for (int lanes = 1; lanes <= MOST_LANES; lanes++) {
            const size_t from = lanes % 3 ? 0 : 5, to = lanes % 4 ? REALS : REALS - 4;
            sum_into(total, x, &p, lanes, from, to);
            for (int i = 0; i < REALS; i++) {
                real expected = (real)i;
                for (int l = 0; l < lanes && (size_t)i >= from && (size_t)i < to; l++)
                    expected += x[l * REALS + i];
                assert_true(total[i] == expected);
            }
        }
    }
    arena_close(&a);
}

/* Numbers that do not: the bits are those of one thread, and a pairwise sum's error is small. */
static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    Arena a;
    LanePool p;
    Draws d = draws_open("lanes", 2);
    real x[MOST_LANES * REALS], one[REALS], total[REALS];
    draw_normals(&d, x, MOST_LANES * REALS, 0, 1);
    open_pool(&p, &a, MOST_LANES);
    for (int lanes = 1; lanes <= MOST_LANES; lanes++) {
        lanes_open(1);
        sum_into(one, x, &p, lanes, 0, REALS);
        for (int i = 0; i < REALS; i++) {
            double expected = i;
            for (int l = 0; l < lanes; l++) expected += (double)x[l * REALS + i];
            assert_true(fabs((double)one[i] - expected) < 1e-5 * (1 + fabs(expected)));
        }
        for (int t = 1; t < TEAMS; t++)
            for (int repeat = 0; repeat < 5; repeat++) {
                lanes_open(teams[t]);
                sum_into(total, x, &p, lanes, 0, REALS);
                assert_memory_equal(total, one, sizeof one);
            }
    }
    arena_close(&a);
}

/* Two threads that meet: neither ends before the other has come. */
typedef struct Meeting {
    _Atomic bool here, there;
} Meeting;

static void meet_aside(void *ctx) {
    Meeting *m = ctx;
    m->there = true;
    while (!m->here) continue;
}

static void a_job_aside(void **state) {
    (void)state;
    Meeting m = {0};
    Aside *a = aside_start(meet_aside, &m);
    assert_false(aside_done(a, 0));
    while (!m.there) continue;
    assert_false(aside_done(a, 0.01));
    m.here = true;
    assert_true(aside_done(a, 60));
    aside_end(a);
    aside_end(aside_start(meet_aside, &m)); /* which waits for it */
    aside_end(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_is_of_processors), cmocka_unit_test(every_lane_once),
        cmocka_unit_test(threads_stay),          cmocka_unit_test(environment_sets_threads),
        cmocka_unit_test(sums_are_exact),        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(a_job_aside),           cmocka_unit_test(every_part_once),
        cmocka_unit_test(free_threads_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
