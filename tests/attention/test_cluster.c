/* Clustering against a slow reading of the method's step 4. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/cluster.h"
#include "draws.h"
#include "ops/linear.h"

enum { MOST = 1 << 14 };

/* Whether score a, at index i, comes before score b at index j. */
static bool before(real a, int i, real b, int j) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? i < j : isnan(b);
    return a > b || (a == b && i < j);
}

/* ---- the reference: takes the best that is left, again and again ---- */

typedef struct Choice {
    int list[MOST], size[MOST];
} Choice;

static void slow_topk(Choice *r, const real *score, int N, int C, int k) {
    for (int c = 0; c < C; c++) {
        bool *taken = calloc((size_t)N, sizeof *taken);
        if (!taken) abort();
        for (r->size[c] = 0; r->size[c] < k && r->size[c] < N; r->size[c]++) {
            int best = -1;
            for (int n = 0; n < N; n++)
                if (!taken[n] &&
                    (best < 0 || before(score[n * C + c], n, score[best * C + c], best)))
                    best = n;
            taken[best] = true;
            r->list[c * k + r->size[c]] = best;
        }
        free(taken);
    }
}

static int best_cluster(const real *row, const int *size, int C, int k) {
    int best = -1;
    for (int c = 0; c < C; c++)
        if (size[c] < k && (best < 0 || before(row[c], c, row[best], best))) best = c;
    return best;
}

static void slow_sa_topk(Choice *r, const real *score, int N, int C, int k) {
    bool *taken = calloc((size_t)N, sizeof *taken);
    const int none[MOST] = {0};
    if (!taken) abort();
    memset(r->size, 0, (size_t)C * sizeof *r->size);
    for (int i = 0; i < N; i++) {
        int best = -1;
        real top = 0;
        for (int n = 0; n < N; n++) {
            const real own = score[n * C + best_cluster(score + n * C, none, C, 1)];
            if (!taken[n] && (best < 0 || before(own, n, top, best))) best = n, top = own;
        }
        taken[best] = true;
        const int c = best_cluster(score + best * C, r->size, C, k);
        if (c >= 0) r->list[c * k + r->size[c]++] = best;
    }
    free(taken);
}

/* ---- comparison ---- */

static void check(const real *score, int N, int C, int k, const char *what) {
    static Choice slow;
    static int list[MOST], size[MOST];
    const int ld = N + 3;
    real *by_cluster = calloc((size_t)(C * ld), sizeof *by_cluster);
    if (!by_cluster) abort();
    transpose(by_cluster, ld, score, C, N, C);
    Arena a = {0};
    ClusterScratch s;
    Err err;
    cluster_layout(&s, &a, N);
    const size_t bytes = a.used;
    assert_true(arena_open(&a, bytes, &err));
    memset(a.base, 0xff, bytes);
    cluster_layout(&s, &a, N);
    for (int rule = 0; rule < 2; rule++) {
        memset(&slow, 0xff, sizeof slow);
        memset(list, 0x55, sizeof list);
        memset(size, 0x55, sizeof size);
        (rule == CLUSTER_TOPK ? slow_topk : slow_sa_topk)(&slow, score, N, C, k);
        for (int c = 0; c < C && rule == CLUSTER_TOPK; c++)
            size[c] = cluster_top_k(list + c * k, by_cluster + c * ld, &s, N, k);
        if (rule != CLUSTER_TOPK) cluster_sa_top_k(list, size, by_cluster, ld, &s, N, C, k);
        const size_t slots = (size_t)C * (size_t)k;
        if (memcmp(list, slow.list, slots * sizeof *list) != 0 ||
            memcmp(size, slow.size, (size_t)C * sizeof *size) != 0)
            fail_msg("%s, rule %d, N %d, C %d, k %d: other clusters", what, rule, N, C, k);
        assert_int_equal(list[slots], 0x55555555);
    }
    arena_close(&a);
    free(by_cluster);
}

static real special(Draws *d) {
    static const double odd[] = {0, -0.0, 1, -1, 1e-30, -1e-30, 1e30, -1e30};
    const int i = draw_int(d, 0, 10);
    if (i == 8) return (real)NAN;
    if (i == 9) return (real)INFINITY;
    return i == 10 ? (real)-INFINITY : (real)odd[i];
}

typedef enum Kind { DISTINCT, TIED, EQUAL, SPECIAL, ALL_NAN, POSITIVE, KINDS } Kind;
static const char *const kinds[] = {"distinct", "tied", "equal", "special", "NaN", "positive"};

static void fill(real *x, int n, Kind kind, Draws *d) {
    draw_normals(d, x, (size_t)n, 0, 1);
    for (int i = 0; i < n; i++) {
        if (kind == TIED) x[i] = (real)(0.5 * (int)(2 * x[i]));
        if (kind == EQUAL) x[i] = REAL(0.25);
        if (kind == SPECIAL) x[i] = special(d);
        if (kind == ALL_NAN) x[i] = (real)NAN;
        if (kind == POSITIVE) x[i] = (real)(1 + 1e-6 * (double)x[i]); /* differ in the last bits */
    }
}

/* N < k, C k < N, one of each, and anything. */
static void random_scores(void **state) {
    (void)state;
    static const int edges[][3] = {{1, 1, 1}, {1, 5, 3}, {3, 1, 8}, {30, 4, 3},
                                   {8, 4, 2}, {9, 4, 2}, {3, 9, 1}, {300, 3, 100}};
    const int nedges = sizeof edges / sizeof *edges;
    real *x = malloc(MOST * sizeof *x);
    if (!x) abort();
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 100; i++) {
            Draws d = draws_open(kinds[kind], (uint64_t)i);
            const bool edge = i < nedges;
            const int N = edge ? edges[i][0] : draw_size(&d, 90);
            const int C = edge ? edges[i][1] : draw_size(&d, 12);
            const int k = edge ? edges[i][2] : draw_size(&d, 40);
            fill(x, N * C, (Kind)kind, &d);
            check(x, N, C, k, kinds[kind]);
        }
    free(x);
}

/* The affinities that come up: sums of softmaxes, near 0, near each other. */
static void close_scores(void **state) {
    (void)state;
    enum { N = 500, C = 3 };
    real x[N * C];
    Draws d = draws_open("close", 1);
    for (int i = 0; i < N * C; i++)
        x[i] = (real)(1e-3 * (1 + 1e-6 * draw_int(&d, 0, 20)) * (draw_int(&d, 0, 1) ? 1 : 0.5));
    check(x, N, C, 150, "close");
    check(x, N, C, N, "close");
}

static void zeros_are_equal(void **state) {
    (void)state;
    const real x[4] = {REAL(-0.0), 0, REAL(-0.0), 0};
    check(x, 4, 1, 2, "zeros");
    check(x, 2, 2, 1, "zeros");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_scores),
        cmocka_unit_test(close_scores),
        cmocka_unit_test(zeros_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
