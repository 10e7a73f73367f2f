/* How near attention comes to exact attention: exact where it must be, else as plainly computed;
 * and a query sees those keys whose values reach its output, and no others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/nearness.h"
#include "tiny.h"

enum { N = 37, HEADS = 2, WIDTH = 8, E = WIDTH / HEADS };
#define BAR (sizeof(real) == 8 ? 1e-12 : 2e-5)

typedef struct Case {
    Tiny tiny;
    Arena memory;
    NearScratch scratch;
    Nearness near[HEADS];
    real *X, *wt;
} Case;

static void open_case(Case *c, const char *attention, const char *positions) {
    Draws d = draws_open("nearness", 1);
    Err err;
    *c = (Case){0};
    tiny_open(&c->tiny,
              (TinyConf){.heads = HEADS,
                         .d = WIDTH,
                         .max_length = N,
                         .attention = attention,
                         .positions = positions},
              d);
    const Model *m = &c->tiny.m;
    nearness_layout(&c->scratch, &c->memory, m);
    if (!arena_open(&c->memory, c->memory.used, &err)) fail_msg("%s", err.text);
    nearness_layout(&c->scratch, &c->memory, m);
    c->X = mem_alloc((size_t)(N * WIDTH), sizeof *c->X);
    c->wt = mem_alloc(m->params.total, sizeof *c->wt);
    draw_normals(&d, c->X, (size_t)(N * WIDTH), 0, 1);
}

static void run(Case *c) {
    const Model *m = &c->tiny.m;
    params_transpose(&m->params, c->wt, c->tiny.w);
    const Pass p = {.m = m, .w = c->tiny.w, .wt = c->wt};
    nearness_of(c->near, &p, &c->scratch, 0, c->X, N);
}

static void close_case(Case *c) {
    tiny_close(&c->tiny);
    arena_close(&c->memory);
    mem_free(c->X), mem_free(c->wt);
}

/* ---- exact ---- */

static void all_is_seen(void **state) {
    (void)state;
    static const char *const all[] = {"\"type\":\"full\"",
                                      "\"type\":\"naive\"",
                                      "\"type\":\"local\",\"window\":100",
                                      "\"type\":\"i-clustered\",\"clusters\":3,\"top_k\":100",
                                      "\"type\":\"lsh\",\"chunk\":100",
                                      "\"type\":\"smyrf\",\"cluster_size\":100,\"rounds\":1",
                                      "\"type\":\"nystrom\",\"landmarks\":100,\"conv_kernel\":0"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int rope = 0; rope < 2; rope++) {
            Case c;
            open_case(&c, all[i], rope ? "rope" : "learned");
            run(&c);
            for (int h = 0; h < HEADS; h++) {
                if (!(nearness_error(&c.near[h]) < BAR))
                    fail_msg("%s: error %g", all[i], nearness_error(&c.near[h]));
                if (!c.tiny.m.mech->subset)
                    assert_true(isnan(nearness_kept(&c.near[h])));
                else if (!(fabs(nearness_kept(&c.near[h]) - 1) < BAR))
                    fail_msg("%s: kept %g", all[i], nearness_kept(&c.near[h]));
            }
            close_case(&c);
        }
}

/* ---- as plainly computed: a window of three tokens ---- */

static double projected(const Case *c, AttnProjection p, int n, int j) {
    const LinearAt *at = &c->tiny.m.blocks[0].attn[p];
    double sum = (double)c->tiny.w[at->b + (size_t)j];
    for (int i = 0; i < WIDTH; i++)
        sum += (double)c->X[n * WIDTH + i] * (double)c->tiny.w[at->w + (size_t)(j * WIDTH + i)];
    return sum;
}

/* Of a query: weights on all keys, and their sum on those from..to. */
static double weigh(const Case *c, int head, int n, int from, int to, double *weight) {
    double sum = 0, part = 0;
    for (int j = 0; j < N; j++) {
        double s = 0;
        for (int x = head * E; x < head * E + E; x++)
            s += projected(c, ATTN_Q, n, x) * projected(c, ATTN_K, j, x);
        sum += weight[j] = exp(s / sqrt(E));
        if (j >= from && j <= to) part += weight[j];
    }
    for (int j = 0; j < N; j++) weight[j] /= sum;
    return part / sum;
}

static void a_window_by_hand(void **state) {
    (void)state;
    Case c;
    open_case(&c, "\"type\":\"local\",\"window\":2", "learned");
    run(&c);
    for (int head = 0; head < HEADS; head++) {
        double off = 0, all = 0, kept = 0, weight[N];
        for (int n = 0; n < N; n++) {
            const double part = weigh(&c, head, n, n - 1, n + 1, weight);
            kept += part / N;
            for (int x = head * E; x < head * E + E; x++) {
                double exact = 0, near = 0;
                for (int j = 0; j < N; j++) {
                    const double v = weight[j] * projected(&c, ATTN_V, j, x);
                    exact += v;
                    if (abs(j - n) <= 1) near += v / part;
                }
                off += (near - exact) * (near - exact), all += exact * exact;
            }
        }
        assert_true(fabs(nearness_kept(&c.near[head]) - kept) < BAR);
        assert_true(fabs(nearness_error(&c.near[head]) - sqrt(off / all)) < BAR * 10);
        assert_true(c.near[head].queries == N);
    }
    close_case(&c);
}

/* ---- what is seen ---- */

/* Column 0 of X reaches values alone. */
static void separate_values(const Case *c) {
    const Model *m = &c->tiny.m;
    for (int p = ATTN_Q; p <= ATTN_V; p++)
        for (int j = 0; j < WIDTH && m->mech->projections & ATTN_HAS(p); j++)
            c->tiny.w[m->blocks[0].attn[p].w + (size_t)(j * WIDTH)] = p == ATTN_V;
    const Param *phi = params_find(&m->params, "blocks.0.attn.phi.weight");
    if (phi) c->tiny.w[phi->at] = 0;
}

/* Mechanisms whose queries see a subset of the keys by themselves. */
static const char *const subsets[] = {
    "\"type\":\"local\",\"window\":6",
    "\"type\":\"lsh\",\"chunk\":4,\"buckets\":4",
    "\"type\":\"lsh\",\"chunk\":3,\"buckets\":4,\"rounds\":3",
    "\"type\":\"smyrf\",\"cluster_size\":5,\"rounds\":2",
    "\"type\":\"cast\",\"clusters\":4,\"cluster_size\":9,\"summaries\":false",
    ("\"type\":\"cast\",\"clusters\":4,\"cluster_size\":9,\"summaries\":false,"
     "\"mechanism\":\"sa_topk\"")};
enum { SUBSETS = sizeof subsets / sizeof *subsets };

static void subsets_are_tried(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        const char *name = attn_table[i]->name;
        char type[64];
        bool tried = !strcmp(name, "i-clustered"); /* it sees all keys by clusters as well: below */
        snprintf(type, sizeof type, "\"type\":\"%s\"", name);
        for (int k = 0; k < SUBSETS; k++) tried |= !strncmp(subsets[k], type, strlen(type));
        if (tried != attn_table[i]->subset)
            fail_msg("%s: subset is %d; a row of `subsets` goes with it", name,
                     attn_table[i]->subset);
    }
}

/* A key whose value changes reaches the queries that see it. */
static void seen_keys_reach(void **state) {
    (void)state;
    for (size_t i = 0; i < SUBSETS; i++) {
        Case c;
        real before[N * WIDTH];
        open_case(&c, subsets[i], "learned");
        separate_values(&c);
        run(&c);
        memcpy(before, c.scratch.r, sizeof before);
        for (int key = 0; key < N; key++) {
            const real was = c.X[key * WIDTH];
            c.X[key * WIDTH] += (real)1e4;
            run(&c);
            c.X[key * WIDTH] = was;
            const AttnTrace trace = {.stride = N, .seen = c.scratch.seen};
            for (int at = 0; at < HEADS * N; at++) {
                const int head = at / N, n = at % N;
                const size_t row = (size_t)(n * WIDTH + head * E);
                const bool reached = memcmp(before + row, c.scratch.r + row, E * sizeof(real)) != 0;
                const bool sees = attn_trace_seen(&trace, head, n)[key / 64] >> key % 64 & 1;
                if (reached != sees)
                    fail_msg("%s: head %d, query %d, key %d: reached %d, seen %d", subsets[i], head,
                             n, key, reached, sees);
            }
        }
        close_case(&c);
    }
}

/* Of one cluster the keys that its mean query scores highest. */
static void top_keys_of_all_queries(void **state) {
    (void)state;
    enum { TOP = 5 };
    Case c;
    open_case(&c, "\"type\":\"i-clustered\",\"clusters\":1,\"top_k\":5", "learned");
    run(&c);
    const AttnTrace trace = {.stride = N, .seen = c.scratch.seen};
    for (int head = 0; head < HEADS; head++) {
        double score[N] = {0}, kept = 0, weight[N];
        for (int j = 0; j < N; j++)
            for (int n = 0; n < N; n++)
                for (int x = head * E; x < head * E + E; x++)
                    score[j] += projected(&c, ATTN_Q, n, x) * projected(&c, ATTN_K, j, x);
        for (int n = 0; n < N; n++) weigh(&c, head, n, 0, -1, weight);
        for (int j = 0; j < N; j++) {
            int better = 0;
            for (int k = 0; k < N; k++) better += score[k] > score[j];
            assert_int_equal(attn_trace_seen(&trace, head, 3)[0] >> j & 1, better < TOP);
            for (int n = 0; n < N && better < TOP; n++)
                kept += weigh(&c, head, n, j, j, weight) / N;
        }
        assert_true(fabs(nearness_kept(&c.near[head]) - kept) < BAR);
    }
    close_case(&c);
}

/* ---- sums ---- */

static void sums_are_of_squares_and_queries(void **state) {
    (void)state;
    const Nearness a = {9, 100, 2, 4, 10, 40}, b = {7, 300, 1, 8, 20, 80};
    Nearness sum = {0};
    nearness_add(&sum, &a), nearness_add(&sum, &b);
    assert_true(nearness_error(&sum) == sqrt(16.0 / 400));
    assert_true(nearness_kept(&sum) == 0.25);
    assert_true(nearness_flops(&sum) == 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_seen),
        cmocka_unit_test(a_window_by_hand),
        cmocka_unit_test(subsets_are_tried),
        cmocka_unit_test(seen_keys_reach),
        cmocka_unit_test(top_keys_of_all_queries),
        cmocka_unit_test(sums_are_of_squares_and_queries),
    };
    return cmocka_run_group_tests_name("nearness", tests, NULL, NULL);
}
