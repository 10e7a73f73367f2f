/* Masked training: which tokens are masked, and that an update's gradient is the mean over them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/token.h"
#include "train/evaluate.h"
#include "train/fixture.h"
#include "train/update.h"

static void open_fixture(Fixture *x, const char *train, bool pairs) {
    char all[256];
    *x = (Fixture){0};
    snprintf(all, sizeof all, "\"objective\":\"masked\",\"mask\":0.3,%s", train);
    small_config(&x->c, all, pairs);
    fixture_open_loader(x);
}

static void test_each_token_as_often(void **state) {
    enum { N = 23, MASKED = 7, DRAWS = 20000 };
    int times[N] = {0};
    (void)state;
    for (int draw = 0; draw < DRAWS; draw++) {
        int ids[N] = {0}, n = 0;
        lm_mask(ids, N, MASKED, rng_subkey(rng_key(1), (uint64_t)draw));
        for (int i = 0; i < N; i++) {
            times[i] += ids[i] == TOKEN_MASKED;
            n += ids[i] == TOKEN_MASKED;
        }
        assert_int_equal(n, MASKED);
    }
    const double p = (double)MASKED / N, deviation = sqrt(DRAWS * p * (1 - p));
    for (int i = 0; i < N; i++) assert_true(fabs(times[i] - DRAWS * p) < 5 * deviation);
}

/* Of each document of sample i so many as the model says; targets are what the file has. */
static int check_sample(const Loader *f, int split, int i) {
    const Dataset *d = &f->split[split];
    const Sample *s = &f->batch.samples[i];
    int all = 0;
    for (int j = 0; j < d->per_example; j++) {
        int ids[SMALL_LENGTH], masked = 0;
        const int document = dataset_document(d, f->batch.examples[i], j);
        const int n = dataset_tokens(d, document, SMALL_LENGTH, ids);
        assert_int_equal(s->length[j], n);
        assert_memory_equal(s->targets[j], ids, (size_t)n * sizeof *ids);
        for (int k = 0; k < n; k++) {
            masked += s->ids[j][k] == TOKEN_MASKED;
            assert_true(s->ids[j][k] == TOKEN_MASKED || s->ids[j][k] == ids[k]);
        }
        assert_int_equal(masked, n < 2 ? 1 : (int)(0.3 * n + 0.5));
        all += masked;
    }
    assert_int_equal(f->batch.answers[i], all);
    return all;
}

static void test_masks_of_batches(void **state) {
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        Fixture x;
        double answers = 0;
        small_data(12, 7, 5, pairs);
        open_fixture(&x, "\"batch\":3,\"accumulate\":2", pairs);
        for (int micro = 0; micro < 2; micro++) {
            loader_train(&x.f, 2, micro);
            for (int i = 0; i < 3; i++) answers += check_sample(&x.f, SPLIT_TRAIN, i);
        }
        assert_true(loader_answers(&x.f, 2) == answers);
        loader_split(&x.f, SPLIT_VAL, 6);
        assert_int_equal(x.f.batch.n, 1);
        check_sample(&x.f, SPLIT_VAL, 0);
        fixture_close(&x);
    }
}

/* A number for the masks of all training examples in an epoch, or of validation after it. */
static uint64_t hash_of_masks(const char *train, int epoch, bool validation) {
    uint64_t hash = 0;
    Fixture x;
    open_fixture(&x, train, false);
    const int64_t an_epoch = loader_updates_per_epoch(&x.f);
    for (int64_t u = 1; u <= an_epoch; u++)
        for (int micro = 0; micro < x.c.train.accumulate; micro++) {
            loader_train(&x.f, epoch * an_epoch + u, micro);
            const int n = validation ? 1 : x.f.batch.n;
            if (validation) loader_split(&x.f, SPLIT_VAL, 2);
            for (int i = 0; i < n; i++)
                for (int k = 0; k < x.f.batch.samples[i].length[0]; k++)
                    if (x.f.batch.samples[i].ids[0][k] == TOKEN_MASKED)
                        hash += rng_u64(rng_key((uint64_t)x.f.batch.examples[i]), (uint64_t)k);
        }
    fixture_close(&x);
    return hash;
}

static void test_what_masks_depend_on(void **state) {
    (void)state;
    small_data(12, 7, 5, false);
    const uint64_t first = hash_of_masks("\"batch\":6", 0, false);
    assert_true(hash_of_masks("\"batch\":2", 0, false) == first);
    assert_true(hash_of_masks("\"batch\":3,\"accumulate\":2", 0, false) == first);
    assert_true(hash_of_masks("\"batch\":6", 1, false) != first);
    assert_true(hash_of_masks("\"batch\":6,\"seed\":2", 0, false) != first);
    const uint64_t validation = hash_of_masks("\"batch\":6", 0, true);
    assert_true(hash_of_masks("\"batch\":6", 3, true) == validation);
    assert_true(hash_of_masks("\"batch\":6,\"seed\":2", 0, true) != validation);
}

/* The norm of update 1's gradient; and of the sum of its first micro-batch's, over `answers`. */
static double norm_of_update(const char *train, bool pairs, double answers, double *sum) {
    Fixture x;
    Engine e;
    Err err;
    State s;
    Arena a = {0};
    open_fixture(&x, train, pairs);
    state_layout(&s, &a, &x.c.model.params, false);
    assert_true(arena_open(&a, a.used, &err));
    state_layout(&s, &a, &x.c.model.params, false);
    params_init(s.params, s.w, 1);
    real *grads = mem_alloc(s.params->total, sizeof *grads);
    assert_true(engine_open(&e, &x.c.model, x.c.train.batch, 4, true, &err));
    engine_weights(&e, s.w);
    Update u = {&x.c.train, &x.f, &e, &s, grads, 1};
    assert_true(update_gradients(&u));
    assert_true(u.answers == answers && fabs(u.loss / u.answers - log(pairs ? 257 : 16)) < 1.5);
    memset(grads, 0, s.params->total * sizeof *grads);
    loader_train(&x.f, 1, 0);
    engine_step(&e, x.f.batch.samples, x.f.batch.n, 1, rng_key(1), grads, &x.f.batch.out, NULL);
    *sum = adamw_grad_norm(&s.adamw, grads) / answers;
    engine_close(&e);
    mem_free(grads);
    arena_close(&a);
    fixture_close(&x);
    return u.norm;
}

static void test_the_mean_over_masked_tokens(void **state) {
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        Fixture x;
        double sum, part;
        small_data(12, 7, 5, pairs);
        open_fixture(&x, "\"batch\":6", pairs);
        const double answers = loader_answers(&x.f, 1);
        fixture_close(&x);
        const double norm = norm_of_update("\"batch\":6", pairs, answers, &sum);
        assert_true(fabs(norm - sum) < 1e-5 * norm);
        const double same = norm_of_update("\"batch\":2,\"accumulate\":3", pairs, answers, &part);
        assert_true(fabs(norm - same) < 1e-5 * norm);
    }
}

static void test_evaluation_is_a_token(void **state) {
    Fixture x;
    Engine e;
    Score score, again;
    Err err;
    (void)state;
    small_data(12, 7, 5, false);
    for (int batch = 1; batch <= 7; batch += 6) {
        char train[32];
        snprintf(train, sizeof train, "\"batch\":%d", batch);
        open_fixture(&x, train, false);
        real *w = mem_alloc(x.c.model.params.total, sizeof *w);
        params_init(&x.c.model.params, w, 1);
        assert_true(engine_open(&e, &x.c.model, batch, 4, false, &err));
        engine_weights(&e, w);
        assert_true(evaluate(batch == 1 ? &score : &again, &e, &x.f, SPLIT_VAL, "", NULL, &err));
        engine_close(&e);
        mem_free(w);
        fixture_close(&x);
    }
    assert_true(score.loss == again.loss && score.accuracy == again.accuracy);
    assert_true(score.accuracy <= 1 && fabs(score.loss - log(16)) < 1.5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_token_as_often),
        cmocka_unit_test(test_masks_of_batches),
        cmocka_unit_test(test_what_masks_depend_on),
        cmocka_unit_test(test_the_mean_over_masked_tokens),
        cmocka_unit_test(test_evaluation_is_a_token),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
