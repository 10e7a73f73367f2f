#include "train/evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "train/fixture.h"

static void open_feed(Fixture *x, const char *train, bool pairs) {
    *x = (Fixture){0};
    small_config(&x->c, train, pairs);
    fixture_open_loader(x);
}

static void test_an_epoch_is_a_permutation(void **state) {
    int order[2][22];
    Fixture x;
    (void)state;
    small_data(23, 5, 5, false);
    open_feed(&x, "\"batch\":3,\"accumulate\":2", false);
    assert_int_equal(loader_updates_per_epoch(&x.f), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[23] = {0}, n = 0;
        for (int u = 1; u <= 3; u++)
            for (int micro = 0; micro < 2; micro++) {
                loader_train(&x.f, epoch * 3 + u, micro);
                assert_int_equal(x.f.batch.n, 3);
                for (int i = 0; i < 3; i++) seen[order[epoch][n++] = x.f.batch.examples[i]]++;
            }
        for (int i = 0; i < 23; i++) assert_in_range(seen[i], 0, 1);
    }
    assert_memory_not_equal(order[0], order[1], 18 * sizeof(int));
    /* Which examples an update sees does not depend on what was asked for before. */
    for (int n = 0; n < 2; n++) {
        loader_train(&x.f, n == 0 ? 5 : 2, 1);
        assert_memory_equal(x.f.batch.examples, &order[n == 0][9], 3 * sizeof(int));
    }
    fixture_close(&x);
}

static void test_another_seed_is_another_order(void **state) {
    int order[2][20];
    (void)state;
    small_data(23, 5, 5, false);
    for (int seed = 0; seed < 2; seed++) {
        Fixture x;
        open_feed(&x, seed ? "\"batch\":20,\"seed\":2" : "\"batch\":20", false);
        loader_train(&x.f, 1, 0);
        memcpy(order[seed], x.f.batch.examples, sizeof order[seed]);
        fixture_close(&x);
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
}

static void check_sample(const Loader *f, int split, int i) {
    const Dataset *d = &f->split[split];
    const Sample *s = &f->batch.samples[i];
    assert_int_equal(s->label, d->labels[f->batch.examples[i]]);
    for (int j = 0; j < d->per_example; j++) {
        int ids[SMALL_LENGTH], document = dataset_document(d, f->batch.examples[i], j);
        assert_int_equal(s->length[j], dataset_tokens(d, document, SMALL_LENGTH, ids));
        assert_memory_equal(s->ids[j], ids, (size_t)s->length[j] * sizeof(int));
    }
}

static void test_batches_of_a_split(void **state) {
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++) {
        Fixture x;
        small_data(9, 7, 5, pairs);
        open_feed(&x, "\"batch\":4", pairs);
        for (int from = 0, n = 0; from < 7; from += 4, n++) {
            double tokens = 0, flops = 0;
            loader_split(&x.f, SPLIT_VAL, from);
            assert_int_equal(x.f.batch.n, from == 0 ? 4 : 3);
            for (int i = 0; i < x.f.batch.n; i++) {
                assert_int_equal(x.f.batch.examples[i], from + i);
                check_sample(&x.f, SPLIT_VAL, i);
                flops += model_head_flops(&x.c.model);
                for (int j = 0; j <= pairs; j++) {
                    tokens += x.f.batch.samples[i].length[j];
                    flops += model_flops(&x.c.model, x.f.batch.samples[i].length[j]);
                }
            }
            assert_true(x.f.batch.tokens == tokens);
            assert_true(fabs(x.f.batch.flops - flops) < 1e-9 * flops);
        }
        fixture_close(&x);
    }
}

/* What document j of a sample is in an epoch, by the task's function on all of it. */
static void check_augmented(const Loader *f, const Sample *s, int64_t epoch, int j) {
    int ids[2 * SMALL_LENGTH], scratch[AUGMENT_SCRATCH * 2 * SMALL_LENGTH];
    const Dataset *d = &f->split[SPLIT_TRAIN];
    const int n = dataset_tokens(d, dataset_document(d, s->number, j), 2 * SMALL_LENGTH, ids);
    f->c->task->augment(&f->c->augmentation, ids, n, scratch, augment_key(1, epoch, s->number, j));
    assert_int_equal(s->length[j], n < SMALL_LENGTH ? n : SMALL_LENGTH);
    assert_memory_equal(s->ids[j], ids, (size_t)s->length[j] * sizeof *ids);
}

/* In two epochs; returns how many examples they had. */
static int check_epochs(Fixture *x, int documents) {
    const int64_t an_epoch = loader_updates_per_epoch(&x->f);
    int seen = 0;
    for (int64_t u = 1; u <= 2 * an_epoch; u++)
        for (int micro = 0; micro < x->c.train.accumulate; micro++) {
            loader_train(&x->f, u, micro);
            for (int i = 0; i < x->f.batch.n; i++) {
                for (int j = 0; j < documents; j++)
                    check_augmented(&x->f, &x->f.batch.samples[i], (u - 1) / an_epoch, j);
                seen++;
            }
        }
    return seen;
}

static void test_augmented_examples(void **state) {
    static const char *const train[] = {"\"batch\":4", "\"batch\":1,\"accumulate\":2"};
    (void)state;
    for (int pairs = 0; pairs < 2; pairs++)
        for (int way = 0; way < 2; way++) {
            Fixture x = {0};
            small_data(60, 7, 5, pairs);
            small_config(&x.c, train[way], pairs);
            x.c.augment = true;
            x.c.augmentation.drop = 0.4;
            fixture_open_loader(&x);
            assert_int_equal(check_epochs(&x, 1 + pairs), 2 * 60);
            loader_split(&x.f, SPLIT_TRAIN, 3);
            check_sample(&x.f, SPLIT_TRAIN, 0);
            fixture_close(&x);
        }
}

static void expect_refusal(const char *train, bool pairs, int code, const char *what) {
    Config c;
    Loader f;
    Err err;
    small_config(&c, train, pairs);
    assert_false(loader_open(&f, &c, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    config_free(&c);
}

static void test_refusals(void **state) {
    (void)state;
    small_data(9, 7, 5, false);
    expect_refusal("\"batch\":5,\"accumulate\":2", false, EX_CONFIG, "has 9");
    expect_refusal("\"batch\":5", true, EX_DATAERR, "those of task retrieval");
}

/* Equal to the last bit, however examples are grouped and whoever computes them. */
static void test_evaluation(void **state) {
    static const char *const train[] = {"\"batch\":1", "\"batch\":4", "\"batch\":7,\"lanes\":3"};
    Score first = {0};
    (void)state;
    small_data(9, 7, 5, false);
    for (int i = 0; i < 3; i++) {
        Fixture x;
        Engine e;
        Score score;
        Err err;
        open_feed(&x, train[i], false);
        lanes_open(i + 1);
        real *w = mem_alloc(x.c.model.params.total, sizeof *w);
        params_init(&x.c.model.params, w, 1);
        assert_true(engine_open(&e, &x.c.model, x.c.train.batch, x.c.train.lanes, true, &err));
        engine_weights(&e, w);
        assert_true(evaluate(&score, &e, &x.f, SPLIT_VAL, "testing", NULL, &err));
        if (i == 0) first = score;
        assert_true(score.loss == first.loss && score.accuracy == first.accuracy);
        assert_true(score.loss > 0 && fabs(score.accuracy * 7 - round(score.accuracy * 7)) < 1e-9);
        engine_close(&e);
        mem_free(w);
        fixture_close(&x);
    }
}

typedef struct Seen {
    int n;
    const AttnTrace *traces;
} Seen;

/* Examples in order; the clusters of each hold tokens of it. */
static void look(void *ctx, const Batch *b) {
    Seen *s = ctx;
    for (int i = 0; i < b->n; i++) {
        assert_int_equal(b->examples[i], s->n++);
        assert_in_range(s->traces[i].clusters[0], 0, b->samples[i].length[0] - 1);
    }
}

static void test_a_watched_evaluation(void **state) {
    Fixture x;
    Engine e;
    Score score;
    Err err;
    int clusters[4 * 3 * SMALL_LENGTH];
    AttnTrace traces[4];
    (void)state;
    small_data(9, 7, 5, false);
    open_feed(&x, "\"batch\":4", false);
    real *w = mem_alloc(x.c.model.params.total, sizeof *w);
    params_init(&x.c.model.params, w, 1);
    assert_true(engine_open(&e, &x.c.model, 4, 4, false, &err));
    engine_weights(&e, w);
    for (int i = 0; i < 4; i++)
        traces[i] = (AttnTrace){.clusters = clusters + i * 3 * SMALL_LENGTH};
    Seen seen = {.traces = traces};
    const Watch watch = {look, &seen, traces, 6};
    assert_true(evaluate(&score, &e, &x.f, SPLIT_VAL, "testing", &watch, &err));
    assert_int_equal(seen.n, 6);
    assert_true(fabs(score.accuracy * 6 - round(score.accuracy * 6)) < 1e-9);
    engine_close(&e);
    mem_free(w);
    fixture_close(&x);
}

/* The same examples as with all splits, where the others' files are gone. */
static void test_one_split(void **state) {
    Config c;
    Loader f;
    Err err;
    (void)state;
    small_data(9, 7, 5, false);
    small_config(&c, "\"batch\":20", false); /* more than training could take */
    assert_int_equal(remove(scratch("data/train.safetensors")), 0);
    assert_true(loader_open_split(&f, &c, SPLIT_VAL, &err));
    assert_int_equal(f.examples[SPLIT_VAL], 7);
    assert_int_equal(f.examples[SPLIT_TRAIN] + f.examples[SPLIT_TEST], 0);
    loader_close(&f);
    assert_false(loader_open_split(&f, &c, SPLIT_TRAIN, &err));
    assert_int_equal(err.code, EX_NOINPUT);
    config_free(&c);
}

static void test_one_split_of_two_views(void **state) {
    Fixture x;
    Loader f;
    Err err;
    (void)state;
    small_data(30, 7, 5, false);
    open_feed(&x, "\"batch\":2", false);
    x.c.holdout = 0.3;
    for (int split = SPLIT_TRAIN; split <= SPLIT_VAL; split++) {
        Loader all;
        assert_true(loader_open(&all, &x.c, &err));
        assert_true(loader_open_split(&f, &x.c, split, &err));
        assert_int_equal(f.examples[split], split == SPLIT_VAL ? 9 : 21);
        for (int i = 0; i < f.examples[split]; i++)
            assert_int_equal(loader_index(&f, split, i), loader_index(&all, split, i));
        loader_close(&f);
        loader_close(&all);
    }
    fixture_close(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_epoch_is_a_permutation),
        cmocka_unit_test(test_another_seed_is_another_order),
        cmocka_unit_test(test_batches_of_a_split),
        cmocka_unit_test(test_augmented_examples),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_a_watched_evaluation),
        cmocka_unit_test(test_one_split),
        cmocka_unit_test(test_one_split_of_two_views),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
