/* The keys of dropout's masks, as docs/method.md lists them: an example's document, place, layer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "ops/dropout.h"
#include "tiny.h"

enum { ROWS = 5, WIDTH = 7, ALL = ROWS * WIDTH, LAYERS = 3 };

static void fill(real *x) {
    for (int i = 0; i < ALL; i++) x[i] = 1;
}

/* Each place of each layer has masks of its own, wherever rows are cut. */
static void places_and_layers(void **state) {
    Tiny t;
    (void)state;
    tiny_open(&t, (TinyConf){.dropout = 0.5}, draws_open("drop", 1));
    const Pass p = {.m = &t.m, .drops = true};
    const Doc doc = {.key = rng_key(5)};
    real x[DROPOUT_PLACES * LAYERS][ALL], want[ALL];
    for (int i = 0; i < DROPOUT_PLACES * LAYERS; i++) {
        const int place = i / LAYERS, layer = i % LAYERS;
        fill(x[i]);
        doc_drop(&p, &doc, (DropoutPlace)place, layer, x[i], 0, 2, WIDTH);
        doc_drop(&p, &doc, (DropoutPlace)place, layer, x[i] + 2 * WIDTH, 2, ROWS - 2, WIDTH);
        fill(want);
        const RngKey key = rng_subkey(rng_subkey(doc.key, (uint64_t)place), (uint64_t)layer);
        dropout_apply(want, key, 0.5, 0, ALL);
        assert_memory_equal(x[i], want, sizeof want);
        for (int j = 0; j < i; j++) assert_memory_not_equal(x[i], x[j], sizeof want);
    }
    tiny_close(&t);
}

/* Of two documents [a, b, a*b, a-b] is classified: whether the last part trains. */
static bool halves_differ(double dropout) {
    const TinyConf conf = {.B = 1, .per_example = 2, .classes = 2, .dropout = dropout};
    Tiny t;
    Engine e;
    Err err;
    tiny_open(&t, conf, draws_open("pair", 1));
    Sample *s = t.samples;
    s->ids[1] = s->ids[0], s->length[1] = s->length[0];
    assert_true(engine_open(&e, &t.m, 1, 1, true, &err));
    engine_weights(&e, t.w);
    tiny_step(&t, &e, 1);
    const Param *fc1 = params_find(&t.m.params, "fc1.weight");
    const int d = t.m.conf.d;
    assert_int_equal(fc1->n, 4 * d * d);
    bool differ = false;
    for (int i = 0; i < d; i++)
        for (int j = 3 * d; j < 4 * d; j++)
            differ |= t.grads[fc1->at + (size_t)(i * 4 * d + j)] != 0;
    engine_close(&e);
    tiny_close(&t);
    return differ;
}

/* One text twice is two documents. */
static void documents_of_a_pair(void **state) {
    (void)state;
    assert_false(halves_differ(0));
    assert_true(halves_differ(0.5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_and_layers),
        cmocka_unit_test(documents_of_a_pair),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
