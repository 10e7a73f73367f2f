/* An update is what its config says: rate, clipping, decay, averages. One that is left out leaves
 * weights, their averages, moments and means as they were, and neither AdamW nor the averages count
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "optim/average.h"
#include "optim/schedule.h"
#include "train/small.h"
#include "train/train.h"
#include "train/update.h"

typedef struct Fixture {
    Config c;
    State s, other;
    Arena a;
} Fixture;

static void open_fixture(Fixture *x) {
    Err err;
    *x = (Fixture){0};
    small_data(12, 5, 5, false);
    small_config(&x->c,
                 "\"batch\":4,\"steps\":12,\"nan\":\"skip\",\"log_every\":100,\"ema\":0.9,"
                 "\"clip\":0.05,\"schedule\":\"cosine\",\"warmup\":2,\"weight_decay\":0.1",
                 false);
    for (int pass = 0; pass < 2; pass++) {
        state_layout(&x->s, &x->a, &x->c.model.params, true);
        state_layout(&x->other, &x->a, &x->c.model.params, true);
        if (pass == 0) assert_true(arena_open(&x->a, x->a.used, &err));
    }
}

static void close_fixture(Fixture *x) {
    arena_close(&x->a);
    config_free(&x->c);
}

static void train(const Fixture *x, int stop_at) {
    const TrainRequest r = {
        .dir = scratch("run"), .command = "", .stop_at = stop_at, .brief = true};
    TrainEnd end;
    Err err;
    if (!train_run(&x->c, &r, &end, &err)) fail_msg("%s", err.text);
}

static void load(const Fixture *x, State *s) {
    Err err;
    if (!state_load(s, x->c.resolved, scratch("run/last.safetensors"), &err))
        fail_msg("%s", err.text);
}

static void save(const Fixture *x, const State *s) {
    Err err;
    if (!state_save(s, x->c.resolved, scratch("run/last.safetensors"), &err))
        fail_msg("%s", err.text);
}

static void assert_same_numbers(const State *a, const State *b) {
    const size_t bytes = a->params->total * sizeof(real);
    assert_memory_equal(a->w, b->w, bytes);
    assert_memory_equal(a->ema, b->ema, bytes);
    assert_memory_equal(a->adamw.m, b->adamw.m, bytes);
    assert_memory_equal(a->adamw.v, b->adamw.v, bytes);
    assert_memory_equal(&a->tally, &b->tally, sizeof a->tally);
}

static void assert_guard(const State *s, double skipped, double in_a_row) {
    const Guard want = {skipped, in_a_row, 0, 1};
    assert_memory_equal(&s->guard, &want, sizeof want);
}

/* The update after the state, by hand; `step` is AdamW's. */
static void update_by_hand(const Fixture *x, State *s, int64_t step) {
    Loader f;
    Engine e;
    Arena a = {0};
    Err err;
    assert_true(loader_open(&f, &x->c, &err));
    real *grads = NULL;
    for (int pass = 0; pass < 2; pass++) {
        loader_layout(&f, &a);
        grads = arena_reals(&a, s->params->total);
        if (pass == 0) assert_true(arena_open(&a, a.used, &err));
    }
    assert_true(engine_open(&e, &x->c.model, 4, x->c.train.lanes, true, &err));
    engine_weights(&e, s->w);
    Update u = {&x->c.train, &f, &e, s, grads, s->update + 1};
    assert_true(update_gradients(&u));
    const TrainConf *conf = &x->c.train;
    const double lr = conf->lr * schedule_factor(conf->schedule, u.number, conf->warmup, 12),
                 factor = clip_factor(adamw_grad_norm(&s->adamw, grads), conf->clip);
    assert_true(lr < conf->lr && factor < 1);
    adamw_update(&s->adamw, &conf->adamw, s->w, grads, lr, factor, step);
    average_update(s->params, s->ema, s->w, (1 + (double)step) / (10 + (double)step));
    engine_close(&e);
    loader_close(&f);
    arena_close(&a);
}

static void test_skip(void **state) {
    Fixture x;
    (void)state;
    open_fixture(&x);
    train(&x, 1);
    load(&x, &x.s);
    const Param *tok = params_find(x.s.params, "tok.weight");
    const size_t bytes = tok->n * sizeof(real);
    real *sound = mem_alloc(tok->n, sizeof *sound);
    memcpy(sound, x.s.w + tok->at, bytes);
    for (size_t i = 0; i < tok->n; i++)
        x.s.w[tok->at + i] = (real)(sizeof(real) == 8 ? 1e308 : 3e38);
    save(&x, &x.s);
    train(&x, 2); /* the third would be validated */
    load(&x, &x.other);
    assert_same_numbers(&x.s, &x.other);
    assert_int_equal(x.other.update, 2);
    assert_guard(&x.other, 1, 1);

    memcpy(x.other.w + tok->at, sound, bytes);
    save(&x, &x.other);
    train(&x, 3);
    load(&x, &x.s);
    update_by_hand(&x, &x.other, 2);
    assert_memory_equal(x.s.w, x.other.w, x.s.params->total * sizeof(real));
    assert_memory_equal(x.s.ema, x.other.ema, x.s.params->total * sizeof(real));
    assert_int_equal(x.s.update, 3);
    assert_guard(&x.s, 1, 0);
    assert_true(x.s.tally.updates == 2);
    mem_free(sound);
    close_fixture(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_skip)};
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
