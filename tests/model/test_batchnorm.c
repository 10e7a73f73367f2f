/* Batch norm's running statistics: what a step makes of them, when they are written, and evaluation
 * with them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "tiny.h"

static const TinyConf plain = {.norm = "batch", .B = 5, .max_length = 9, .depth = 2};

static Engine open_engine(const Tiny *t) {
    Engine e;
    Err err;
    if (!engine_open(&e, &t->m, t->B, 3, true, &err)) fail_msg("%s", err.text);
    return e;
}

static int tokens(const Tiny *t) {
    int n = 0;
    for (int i = 0; i < t->B; i++)
        for (int j = 0; j < t->m.task.per_example; j++)
            n += model_tokens(&t->m, t->samples[i].length[j]);
    return n;
}

/* Each element of every running mean, and of the variance that goes with it. */
#define FOR_STATISTICS(t, mean, var)                                                               \
    for (int norm_ = 0; norm_ < (t)->m.nnorms; norm_++)                                            \
        for (size_t mean = (t)->m.norms[norm_].mean, var = (t)->m.norms[norm_].var,                \
                    end_ = mean + (size_t)(t)->m.conf.d;                                           \
             mean < end_; mean++, var++)

static bool close_to(real a, double b) {
    return fabs((double)a - b) <= (sizeof(real) == 8 ? 1e-12 : 2e-5) * (1 + fabs(b));
}

/* Only by commit, and from where begin stood: a step that is abandoned leaves no trace. */
static void written_by_commit_alone(void **state) {
    (void)state;
    Tiny t;
    tiny_open(&t, plain, draws_open("commit", 1));
    Engine e = open_engine(&t);
    const size_t bytes = t.m.params.total * sizeof(real);
    real *before = memcpy(mem_alloc(bytes, 1), t.w, bytes), *once = mem_alloc(bytes, 1);
    tiny_step(&t, &e, 1);
    assert_memory_equal(t.w, before, bytes);
    engine_commit(&e, t.w);
    memcpy(once, t.w, bytes);
    assert_memory_not_equal(once, before, bytes);
    memcpy(t.w, before, bytes);
    tiny_step(&t, &e, 1); /* abandoned */
    tiny_step(&t, &e, 1);
    engine_commit(&e, t.w);
    assert_memory_equal(t.w, once, bytes);
    FOR_STATISTICS(&t, mean, var) before[mean] = t.w[mean], before[var] = t.w[var];
    assert_memory_equal(t.w, before, bytes); /* nothing but statistics changed */
    mem_free(before), mem_free(once);
    engine_close(&e);
    tiny_close(&t);
}

/* From two steps on the same batch: after each, running = 0.9 running + 0.1 new with the same
 * `new`. */
static void running_average_of_the_batch(void **state) {
    (void)state;
    Tiny t;
    tiny_open(&t, plain, draws_open("average", 1));
    Engine e = open_engine(&t);
    const size_t bytes = t.m.params.total * sizeof(real);
    FOR_STATISTICS(&t, mean, var) t.w[mean] = REAL(0.25), t.w[var] = REAL(1.5);
    real *one = mem_alloc(bytes, 1);
    tiny_step(&t, &e, 1);
    engine_commit(&e, t.w);
    memcpy(one, t.w, bytes);
    /* Two micro-batches of one update. */
    FOR_STATISTICS(&t, mean, var) t.w[mean] = REAL(0.25), t.w[var] = REAL(1.5);
    tiny_step(&t, &e, 1);
    engine_step(&e, t.samples, t.B, 1, rng_key(8), t.grads, &t.out, NULL);
    engine_commit(&e, t.w);
    FOR_STATISTICS(&t, mean, var) {
        const double m = ((double)one[mean] - 0.9 * 0.25) / 0.1;
        const double v = ((double)one[var] - 0.9 * 1.5) / 0.1;
        assert_true(v > -1e-5);
        assert_true(close_to(t.w[mean], 0.9 * (double)one[mean] + 0.1 * m));
        assert_true(close_to(t.w[var], 0.9 * (double)one[var] + 0.1 * v));
    }
    mem_free(one);
    engine_close(&e);
    tiny_close(&t);
}

/* The batch's mean and unbiased variance, made the running ones after correction, give what the
 * step gave. */
static void check_evaluation(TinyConf conf) {
    Tiny t;
    tiny_open(&t, conf, draws_open("evaluation", 1));
    Engine e = open_engine(&t);
    FOR_STATISTICS(&t, mean, var) t.w[mean] = 0, t.w[var] = 0;
    tiny_step(&t, &e, 1);
    real logits[64];
    const size_t n = (size_t)(t.B * t.m.task.classes);
    assert_true(n <= 64);
    memcpy(logits, t.out.logits, n * sizeof(real));
    engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
    bool same = true;
    for (size_t i = 0; i < n; i++) same &= fabs((double)(t.out.logits[i] - logits[i])) < 1e-3;
    assert_false(same); /* the weights' statistics are not the batch's */
    engine_commit(&e, t.w);
    const double population = tokens(&t), biased = (population - 1) / population;
    FOR_STATISTICS(&t, mean, var) {
        t.w[mean] *= 10;
        t.w[var] = (real)(10 * (double)t.w[var] * biased);
    }
    engine_weights(&e, t.w);
    engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
    const double bar = sizeof(real) == 8 ? 1e-11 : 1e-3;
    for (size_t i = 0; i < n; i++)
        assert_true(fabs((double)(t.out.logits[i] - logits[i])) <=
                    bar * (1 + fabs((double)logits[i])));
    engine_close(&e);
    tiny_close(&t);
}

static void evaluation_uses_running_statistics(void **state) {
    (void)state;
    TinyConf conf = plain;
    conf.attention = "\"type\":\"full\""; /* no cluster can turn over by rounding */
    for (int i = 0; i < 8; i++) {
        conf.post_norm = i & 1;
        conf.per_example = 1 + (i >> 1 & 1);
        conf.pooling = i >> 2 & 1 ? "cls" : "mean";
        check_evaluation(conf);
    }
}

/* An evaluation amid an update does not disturb it. */
static void evaluation_leaves_no_trace(void **state) {
    (void)state;
    Tiny t;
    tiny_open(&t, plain, draws_open("trace", 1));
    Engine e = open_engine(&t);
    const size_t bytes = t.m.params.total * sizeof(real);
    real *once = mem_alloc(bytes, 1), *grads = mem_alloc(bytes, 1);
    real *before = memcpy(mem_alloc(bytes, 1), t.w, bytes);
    tiny_step(&t, &e, 1);
    memcpy(grads, t.grads, bytes);
    engine_commit(&e, t.w);
    memcpy(once, t.w, bytes);
    memcpy(t.w, before, bytes);
    engine_weights(&e, t.w);
    engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
    tiny_step(&t, &e, 1);
    engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
    engine_commit(&e, t.w);
    assert_memory_equal(t.w, once, bytes);
    assert_memory_equal(t.grads, grads, bytes);
    mem_free(once), mem_free(grads), mem_free(before);
    engine_close(&e);
    tiny_close(&t);
}

/* It has no unbiased variance: the running one stays, the mean moves. Nothing comes back through
 * its norms, no rounding either. */
static void population_of_one(void **state) {
    (void)state;
    Tiny t;
    tiny_open(&t, (TinyConf){.norm = "batch", .B = 1, .max_length = 1}, draws_open("one", 1));
    Engine e = open_engine(&t);
    bool moved = false;
    tiny_step(&t, &e, 1);
    assert_true(isfinite(tiny_loss(&t)));
    for (size_t i = 0; i < t.m.embedding_reals; i++) assert_true(t.grads[i] == 0);
    engine_commit(&e, t.w);
    FOR_STATISTICS(&t, mean, var) {
        assert_true(t.w[var] == 1);
        moved |= t.w[mean] != 0;
    }
    assert_true(moved);
    engine_close(&e);
    tiny_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_by_commit_alone),
        cmocka_unit_test(running_average_of_the_batch),
        cmocka_unit_test(evaluation_uses_running_statistics),
        cmocka_unit_test(evaluation_leaves_no_trace),
        cmocka_unit_test(population_of_one),
    };
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
