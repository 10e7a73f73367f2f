/* Eight examples learned by heart, by every mechanism, of one document and of two: what forward,
 * backward and optimiser compute together is a model that learns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "optim/adamw.h"
#include "tiny.h"

enum { MOST_UPDATES = 600 };

/* The updates until the mean loss is below 0.01. */
static int updates_until_learned(TinyConf conf) {
    const AdamwConf adamw = {0.9, 0.999, 1e-8, 0};
    Tiny t;
    Engine e;
    Adamw o;
    Arena a = {0};
    Err err;
    tiny_open(&t, conf, draws_open("overfit", 1));
    params_init(&t.m.params, t.w, 1);
    adamw_layout(&o, &a, &t.m.params);
    assert_true(arena_open(&a, a.used, &err));
    adamw_layout(&o, &a, &t.m.params);
    assert_true(engine_open(&e, &t.m, t.B, 4, true, &err));
    int updates = 0;
    for (; updates < MOST_UPDATES; updates++) {
        tiny_step(&t, &e, 1.0 / t.B);
        if (tiny_loss(&t) / t.B < 0.01) break;
        const double norm = adamw_grad_norm(&o, t.grads);
        adamw_update(&o, &adamw, t.w, t.grads, 5e-3, clip_factor(norm, 1), updates + 1);
    }
    engine_close(&e);
    arena_close(&a);
    tiny_close(&t);
    return updates;
}

static void learn(const char *attention, const char *norm) {
    for (int documents = 1; documents <= 2; documents++) {
        const TinyConf conf = {.depth = 2,
                               .heads = 2,
                               .d = 16,
                               .d_ff = 24,
                               .d_emb = 12,
                               .max_length = 20,
                               .norm = norm,
                               .attention = attention,
                               .B = 8,
                               .vocab = 30,
                               .classes = 4,
                               .per_example = documents};
        const int updates = updates_until_learned(conf);
        if (updates == MOST_UPDATES)
            fail_msg("%s, %s norm, %d documents: not learned", attention, norm, documents);
    }
}

static void test_every_mechanism(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        char attention[64];
        snprintf(attention, sizeof attention, "\"type\":\"%s\"", attn_table[i]->name);
        learn(attention, "layer");
        learn(attention, "scale");
        learn(attention, "batch");
    }
}

#define CAST "\"type\":\"cast\",\"clusters\":4,"

static void test_variants_of_cast(void **state) {
    static const char *const variants[] = {
        CAST "\"mechanism\":\"sa_topk\"",
        CAST "\"attention_fn\":\"laplace\"",
        CAST "\"mechanism\":\"sa_topk\",\"attention_fn\":\"laplace\",\"cluster_size\":\"length\"",
        CAST "\"summaries\":false",
        CAST "\"intra\":false",
        CAST "\"surrogates\":\"frozen\",\"cluster_size\":3",
    };
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) learn(variants[i], "layer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mechanism),
        cmocka_unit_test(test_variants_of_cast),
    };
    lanes_open(1); /* what is small is slower on more, where others are at work */
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
