/* Memory of what attention chose, and its tensors: of clusters, and of groups by head and round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/traces.h"

enum { CLUSTERS = 3, SLOTS = 4, ROUNDS = 2, HEADS = 5, DEPTH = 2, TOKENS = 7 };

static void clusters(const void *self, int *C, int *k) {
    (void)self;
    *C = CLUSTERS, *k = SLOTS;
}

static void groups(const void *self, int *rounds, bool *keys) {
    (void)self;
    *rounds = ROUNDS, *keys = true;
}

static Model model(const AttnMech *m, int per) {
    return (Model){.mech = m,
                   .max_tokens = 9,
                   .conf = {.depth = DEPTH, .heads = HEADS},
                   .task = {.per_example = per}};
}

static const StTensor *named(const StTensor *t, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(t[i].name, name)) return &t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Every trace writes what it is told to; the tensors have it where it belongs. */
static void check_groups(const char *name, bool keys, int per) {
    enum { EXAMPLES = 3 };
    const AttnMech m = {.groups = groups};
    const Model model_of = model(&m, per);
    StTensor t[3 * DEPTH];
    char names[3 * DEPTH][96];
    Traces traces;
    traces_open(&traces, &model_of, EXAMPLES * per, TOKENS, TRACES_CHOICES);
    for (int i = 0; i < EXAMPLES * per * DEPTH; i++) {
        AttnTrace *trace = &traces.trace[i];
        assert_null(trace->clusters);
        assert_int_equal(trace->stride, TOKENS);
        for (int j = 0; j < HEADS * ROUNDS * TOKENS; j++)
            if (j % TOKENS < TOKENS - 1)
                (keys ? trace->groups_key : trace->groups)[j] = 1000 * i + j;
    }
    const int n = traces_tensors(&traces, &model_of, t, names);
    assert_int_equal(n, 2 * DEPTH);
    for (int block = 0; block < DEPTH; block++) {
        char full[32];
        snprintf(full, sizeof full, "%s.%d", name, block);
        const StTensor *x = named(t, n, full);
        const int64_t single[] = {EXAMPLES, HEADS, ROUNDS, TOKENS},
                      pairs[] = {EXAMPLES, 2, HEADS, ROUNDS, TOKENS};
        assert_int_equal(x->ndim, per == 2 ? 5 : 4);
        assert_memory_equal(x->shape, per == 2 ? pairs : single, sizeof(int64_t) * (size_t)x->ndim);
        const int *data = x->data, each = HEADS * ROUNDS * TOKENS;
        assert_int_equal(x->bytes, (size_t)(EXAMPLES * per * each) * sizeof *data);
        for (int d = 0; d < EXAMPLES * per; d++)
            for (int j = 0; j < each; j++)
                assert_int_equal(data[d * each + j],
                                 j % TOKENS < TOKENS - 1 ? 1000 * (d * DEPTH + block) + j : -1);
    }
    traces_close(&traces);
}

static void groups_by_head_and_round(void **state) {
    (void)state;
    for (int per = 1; per <= 2; per++) {
        check_groups("groups", false, per);
        check_groups("groups_key", true, per);
    }
}

static void clusters_of_all_heads(void **state) {
    (void)state;
    const AttnMech m = {.clusters = clusters};
    const Model model_of = model(&m, 1);
    StTensor t[3 * DEPTH];
    char names[3 * DEPTH][96];
    Traces traces;
    traces_open(&traces, &model_of, 2, TOKENS, TRACES_CHOICES | TRACES_AFFINITIES);
    for (int i = 0; i < 2 * DEPTH; i++) traces.trace[i].clusters[CLUSTERS * SLOTS - 1] = i;
    for (int i = 0; i + 1 < 2 * DEPTH; i++)
        assert_ptr_equal(traces.trace[i + 1].affinities, traces.trace[i].affinities + 9 * CLUSTERS);
    const int n = traces_tensors(&traces, &model_of, t, names);
    assert_int_equal(n, DEPTH);
    const int *data = named(t, n, "clusters.1")->data;
    assert_int_equal(data[0], -1);
    assert_int_equal(data[CLUSTERS * SLOTS - 1], 1);
    assert_int_equal(data[2 * CLUSTERS * SLOTS - 1], DEPTH + 1);
    traces_close(&traces);
}

/* Who looks at inputs alone has no memory for choices. */
static void choices_that_are_not_wanted(void **state) {
    (void)state;
    const AttnMech m = {.clusters = clusters, .groups = groups};
    const Model model_of = model(&m, 1);
    Traces traces;
    traces_open(&traces, &model_of, 2, TOKENS, TRACES_INPUTS);
    assert_null(traces.trace[0].clusters);
    assert_null(traces.trace[0].groups);
    assert_non_null(traces.trace[0].input);
    traces_close(&traces);
}

/* A mechanism without choices has traces all the same, for its digest. */
static void nothing_to_tell(void **state) {
    (void)state;
    const AttnMech m = {0};
    const Model model_of = model(&m, 1);
    Traces traces;
    traces_open(&traces, &model_of, 2, TOKENS, TRACES_CHOICES | TRACES_AFFINITIES);
    assert_non_null(traces.trace);
    assert_null(traces.trace[0].clusters);
    assert_null(traces.trace[0].affinities);
    assert_int_equal(traces_tensors(&traces, &model_of, NULL, NULL), 0);
    traces_close(&traces);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_by_head_and_round),
        cmocka_unit_test(clusters_of_all_heads),
        cmocka_unit_test(choices_that_are_not_wanted),
        cmocka_unit_test(nothing_to_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
