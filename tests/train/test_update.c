/* Which dropout masks an update has: others than the update before, and than another seed's. */
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

/* Of all examples, by weights that are the same each time. */
static double loss_of(const char *dropout, int seed, int64_t number) {
    char own[32];
    char *overrides[] = {own, (char *)(size_t)dropout};
    Config c;
    Loader f;
    Engine e;
    State s = {0};
    Arena a = {0};
    Err err;
    real *grads = NULL;
    snprintf(own, sizeof own, "train.seed=%d", seed);
    if (!config_load(&c, scratch("config.json"), overrides, 2, &err)) fail_msg("%s", err.text);
    assert_true(loader_open(&f, &c, &err));
    for (int pass = 0; pass < 2; pass++) {
        state_layout(&s, &a, &c.model.params, false);
        loader_layout(&f, &a);
        grads = arena_reals(&a, c.model.params.total);
        if (pass == 0) assert_true(arena_open(&a, a.used, &err));
    }
    params_init(&c.model.params, s.w, 1);
    assert_true(engine_open(&e, &c.model, EXAMPLES, c.train.lanes, true, &err));
    engine_weights(&e, s.w);
    Update u = {&c.train, &f, &e, &s, grads, number};
    assert_true(update_gradients(&u));
    assert_true(u.work.samples == EXAMPLES);
    engine_close(&e);
    loader_close(&f);
    arena_close(&a);
    config_free(&c);
    return u.loss;
}

static bool same(double a, double b) { return fabs(a - b) <= 1e-5 * fabs(a); }

static void test_masks(void **state) {
    static const char *const none = "model.dropout=0", *const half = "model.dropout=0.5";
    Config c;
    (void)state;
    small_data(EXAMPLES, 5, 5, false);
    small_config(&c, "\"batch\":12,\"steps\":12", false);
    config_free(&c);
    assert_true(same(loss_of(none, 1, 1), loss_of(none, 1, 2)));
    assert_true(same(loss_of(none, 1, 1), loss_of(none, 2, 1)));
    assert_true(same(loss_of(half, 1, 1), loss_of(half, 1, 1)));
    assert_false(same(loss_of(half, 1, 1), loss_of(half, 1, 2)));
    assert_false(same(loss_of(half, 1, 1), loss_of(half, 2, 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_masks)};
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
