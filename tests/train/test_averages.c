/* A run with averaged weights: the weights that train are those of a run without; the averages are
 * of the weights after each update, and are what validates and is tested. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "io/text.h"
#include "optim/average.h"
#include "train/evaluate.h"
#include "train/run.h"
#include "train/small.h"
#include "train/train.h"
#include "train/trained.h"

#define EPS (sizeof(real) == 8 ? DBL_EPSILON : (double)FLT_EPSILON)

enum { UPDATES = 14 };
#define KEYS "\"batch\":4,\"steps\":14,\"lr\":0.05,\"eval_every\":4,\"log_every\":100"
#define AVERAGED KEYS ",\"ema\":0.6"

typedef struct Fixture {
    Config c;
    State s;
    Arena a;
} Fixture;

static void open_fixture(Fixture *x, const char *keys, const char *norm) {
    Err err;
    char *const override = text_format("model.norm=%s", norm);
    *x = (Fixture){0};
    small_config(&x->c, keys, false);
    config_free(&x->c);
    if (!config_load(&x->c, scratch("config.json"), &override, 1, &err)) fail_msg("%s", err.text);
    mem_free(override);
    for (int pass = 0; pass < 2; pass++) {
        state_layout(&x->s, &x->a, &x->c.model.params, x->c.train.ema > 0);
        if (pass == 0) assert_true(arena_open(&x->a, x->a.used, &err));
    }
}

static void close_fixture(Fixture *x) {
    arena_close(&x->a);
    config_free(&x->c);
}

/* Trains on, and reads the state that this leaves. */
static void train(Fixture *x, const char *dir, int stop_at) {
    const TrainRequest r = {.dir = scratch(dir), .command = "", .stop_at = stop_at, .brief = true};
    char last[1100];
    TrainEnd end;
    Err err;
    if (!train_run(&x->c, &r, &end, &err)) fail_msg("%s", err.text);
    snprintf(last, sizeof last, "%s/last.safetensors", scratch(dir));
    if (!state_load(&x->s, x->c.resolved, last, &err)) fail_msg("%s", err.text);
}

static size_t bytes_of(const State *s) { return s->params->total * sizeof(real); }

static void add(double *average, const real *w, size_t n, int t) {
    const double decay = average_decay(0.6, t);
    for (size_t i = 0; i < n; i++) average[i] = decay * average[i] + (1 - decay) * (double)w[i];
}

static void assert_close(const State *s, const double *average) {
    for (size_t i = 0; i < s->params->total; i++)
        assert_true(fabs(average[i] - (double)s->ema[i]) < 16 * EPS);
}

/* Each update in a process of its own, so that weights are seen after every one. */
static void check_averages(const char *norm) {
    Fixture with, without;
    open_fixture(&without, KEYS, norm);
    open_fixture(&with, AVERAGED, norm);
    const size_t n = with.s.params->total;
    double *average = mem_alloc(n, sizeof *average);
    params_init(with.s.params, with.s.w, 1);
    for (size_t i = 0; i < n; i++) average[i] = (double)with.s.w[i];
    for (int t = 1; t <= UPDATES; t++) {
        train(&without, "without", t);
        train(&with, "with", t);
        assert_memory_equal(with.s.w, without.s.w, bytes_of(&with.s));
        assert_memory_equal(with.s.adamw.v, without.s.adamw.v, bytes_of(&with.s));
        add(average, without.s.w, n, t);
        assert_close(&with.s, average);
    }
    train(&with, "at-once", 0);
    assert_true(with.s.update == UPDATES);
    assert_close(&with.s, average);
    mem_free(average);
    close_fixture(&with);
    close_fixture(&without);
    scratch_remove(scratch("with"));
    scratch_remove(scratch("without"));
    scratch_remove(scratch("at-once"));
}

static void averages_are_of_every_update(void **state) {
    (void)state;
    small_data(24, 9, 5, false);
    check_averages("layer");
    check_averages("batch");
}

/* What the programs measure that open a run later. */
static Score score_of(const char *dir, bool last, int split, bool averaged) {
    char place[1024], *const words[] = {place, NULL};
    const TrainedRequest r = {.line = {words, 1, 0}, .last = last, .split = split};
    Trained t;
    Score score;
    Err err;
    snprintf(place, sizeof place, "%s", scratch(dir));
    if (!trained_open(&t, &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(t.averaged, averaged);
    if (!evaluate(&score, &t.engine, &t.loader, split, "", NULL, &err)) fail_msg("%s", err.text);
    trained_close(&t);
    return score;
}

static void check_lines(const char *dir, bool averaged) {
    Run r;
    Err err;
    if (!run_read(&r, scratch(dir), true, &err)) fail_msg("%s", err.text);
    const RunLine *best = run_best(&r);
    for (int which = 0; which < RUN_TESTS; which++) {
        const Score score = score_of(dir, which == RUN_LAST, SPLIT_TEST, averaged);
        assert_true(r.tested[which]);
        assert_true(fabs(score.loss - r.test[which].value[RUN_LOSS]) < 1e-8 * score.loss);
    }
    const Score score = score_of(dir, false, SPLIT_VAL, averaged);
    assert_true(fabs(score.loss - best->value[RUN_LOSS]) < 1e-8 * score.loss);
    run_free(&r);
}

static void averages_are_what_is_measured(void **state) {
    Fixture with, without;
    (void)state;
    small_data(24, 9, 5, false);
    open_fixture(&without, KEYS, "batch");
    open_fixture(&with, AVERAGED, "batch");
    train(&without, "without", 0);
    train(&with, "with", 0);
    check_lines("without", false);
    check_lines("with", true);
    assert_true(score_of("with", true, SPLIT_TEST, true).loss !=
                score_of("without", true, SPLIT_TEST, false).loss);
    close_fixture(&with);
    close_fixture(&without);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_are_of_every_update),
        cmocka_unit_test(averages_are_what_is_measured),
    };
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
