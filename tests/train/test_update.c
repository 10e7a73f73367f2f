/* What an update sees: dropout masks that are others than those of the update before, and than
 * another seed's; and what its micro-batches leave. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "train/small.h"
#include "train/update.h"

enum { EXAMPLES = 12 };

typedef struct Case {
    Config c;
    Loader f;
    Engine e;
    State s;
    Arena a;
    Update u;
} Case;

/* The update of that number, by weights that are the same each time. Stays where it is. */
static void open_case(Case *x, char **overrides, int n, int64_t number) {
    Err err;
    real *grads = NULL;
    *x = (Case){0};
    if (!config_load(&x->c, scratch("config.json"), overrides, n, &err)) fail_msg("%s", err.text);
    const TrainConf *conf = &x->c.train;
    assert_true(loader_open(&x->f, &x->c, &err));
    for (int pass = 0; pass < 2; pass++) {
        state_layout(&x->s, &x->a, &x->c.model.params, false);
        loader_layout(&x->f, &x->a);
        grads = arena_reals(&x->a, x->c.model.params.total);
        if (pass == 0) assert_true(arena_open(&x->a, x->a.used, &err));
    }
    params_init(&x->c.model.params, x->s.w, 1);
    assert_true(engine_open(&x->e, &x->c.model, conf->batch, conf->lanes, true, &err));
    engine_weights(&x->e, x->s.w);
    x->u = (Update){conf, &x->f, &x->e, &x->s, grads, number};
}

static void close_case(Case *x) {
    engine_close(&x->e);
    loader_close(&x->f);
    arena_close(&x->a);
    config_free(&x->c);
}

static void make_data(const char *train) {
    Config c;
    small_data(EXAMPLES, 5, 5, false);
    small_config(&c, train, false);
    config_free(&c);
}

/* Of all examples. */
static double loss_of(const char *dropout, int seed, int64_t number) {
    char own[32];
    char *overrides[] = {own, (char *)(size_t)dropout};
    Case x;
    snprintf(own, sizeof own, "train.seed=%d", seed);
    open_case(&x, overrides, 2, number);
    assert_true(update_gradients(&x.u));
    assert_true(x.u.work.samples == EXAMPLES);
    const double loss = x.u.loss;
    close_case(&x);
    return loss;
}

static bool same(double a, double b) { return fabs(a - b) <= 1e-5 * fabs(a); }

static void test_masks(void **state) {
    static const char *const none = "model.dropout=0", *const half = "model.dropout=0.5";
    (void)state;
    make_data("\"batch\":12,\"steps\":12");
    assert_true(same(loss_of(none, 1, 1), loss_of(none, 1, 2)));
    assert_true(same(loss_of(none, 1, 1), loss_of(none, 2, 1)));
    assert_true(same(loss_of(half, 1, 1), loss_of(half, 1, 1)));
    assert_false(same(loss_of(half, 1, 1), loss_of(half, 1, 2)));
    assert_false(same(loss_of(half, 1, 1), loss_of(half, 2, 1)));
}

/* Those of batch norm take in each micro-batch of an update, one after another. */
static void test_running_statistics(void **state) {
    char *overrides[] = {(char[]){"model.norm=batch"}};
    Case whole, parts;
    (void)state;
    make_data("\"batch\":4,\"accumulate\":3,\"steps\":12");
    open_case(&whole, overrides, 1, 2);
    assert_true(update_gradients(&whole.u));
    open_case(&parts, overrides, 1, 2);
    engine_begin_update(&parts.e);
    const Batch *b = &parts.f.batch;
    for (int micro = 0; micro < 3; micro++) {
        loader_train(&parts.f, 2, micro);
        engine_step(&parts.e, b->samples, b->n, 1, rng_key(1), parts.u.grads, &b->out, NULL);
    }
    const size_t n = (size_t)whole.c.model.nnorms * 2 * (size_t)whole.c.model.conf.d;
    assert_memory_equal(whole.e.running, parts.e.running, n * sizeof(real));
    close_case(&whole);
    close_case(&parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks),
                                       cmocka_unit_test(test_running_statistics)};
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
