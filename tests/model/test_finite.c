/* The first place that is not finite is found, wherever it is. */
#include "model/finite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "tiny.h"

/* What a parameter with NaN in all its values spoils first; parameters are named by how they
 * begin, because norms differ. */
static const struct {
    const char *param, *where;
} places[] = {
    {"tok.", "embedding"},
    {"blocks.0.norm1.", "block 0, norm1"},
    {"blocks.0.attn.v.", "block 0, output of attention"},
    {"blocks.0.norm2.", "block 0, norm2"},
    {"blocks.0.fc1.", "block 0, output of the feed-forward layer"},
    {"blocks.1.norm1.", "block 1, norm1"},
    {"blocks.1.attn.o.", "block 1, output of attention"},
    {"blocks.1.norm2.", "block 1, norm2"},
    {"blocks.1.fc2.", "block 1, output of the feed-forward layer"},
    {"last.", "the last norm"},
    {"fc1.", "head, output of fc1"},
    {"fc2.", "logits"},
};
enum { PLACES = sizeof places / sizeof *places };

static const Param *find(const Params *p, const char *start) {
    for (int i = 0; i < p->count; i++)
        if (!strncmp(p->list[i].name, start, strlen(start))) return &p->list[i];
    return NULL;
}

static void fill(real *w, const Param *p, double value) {
    for (size_t i = 0; i < p->n; i++) w[p->at + i] = (real)value;
}

static void expect(Engine *e, const Tiny *t, int sample, const char *where) {
    char text[128];
    engine_weights(e, t->w);
    finite_activation(e, &t->samples[sample], text, sizeof text);
    assert_string_equal(text, where);
}

static void try_places(const char *norm, bool post, int documents) {
    const TinyConf conf = {
        .depth = 2, .norm = norm, .post_norm = post, .d_emb = 6, .per_example = documents};
    Tiny t;
    Engine e;
    Err err;
    tiny_open(&t, conf, draws_open("finite", 1));
    assert_true(engine_open(&e, &t.m, t.B, 4, true, &err));
    real *sound = mem_alloc(t.m.params.total, sizeof *sound);
    memcpy(sound, t.w, t.m.params.total * sizeof *sound);
    expect(&e, &t, 1, "loss"); /* all is finite */
    for (int i = 0; i < PLACES; i++) {
        const Param *p = find(&t.m.params, places[i].param);
        char want[128];
        if (!p) { /* post-norm has no last one */
            assert_true(post && !strncmp(places[i].param, "last.", 5));
            continue;
        }
        fill(t.w, p, NAN);
        const bool head = !strncmp(p->name, "fc", 2);
        snprintf(want, sizeof want, "%s%s", places[i].where,
                 documents == 2 && !head ? " of document 0" : "");
        expect(&e, &t, 1, want);
        memcpy(t.w, sound, t.m.params.total * sizeof *sound);
    }
    mem_free(sound);
    engine_close(&e);
    tiny_close(&t);
}

static void test_every_place(void **state) {
    static const char *const norms[] = {"layer", "scale", "batch"};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int post = 0; post < 2; post++)
            for (int documents = 1; documents <= 2; documents++)
                try_places(norms[i], post, documents);
}

/* A token that only the second document has; features that overflow. */
static void test_pairs(void **state) {
    Tiny t;
    Engine e;
    Err err;
    (void)state;
    tiny_open(&t, (TinyConf){.per_example = 2, .vocab = 9}, draws_open("pairs", 1));
    assert_true(engine_open(&e, &t.m, t.B, 4, true, &err));
    const Param *tok = find(&t.m.params, "tok."), *last = find(&t.m.params, "last.");
    const size_t d = tok->n / 9;
    for (size_t i = 0; i < (size_t)(2 * t.B * t.m.max_tokens); i++)
        if (t.ids[i] == 8) t.ids[i] = 7;
    *(int *)t.samples[1].ids[1] = 8;
    t.w[tok->at + 8 * d] = INFINITY;
    expect(&e, &t, 0, "loss");
    expect(&e, &t, 1, "embedding of document 1");
    t.w[tok->at + 8 * d] = 0;
    fill(t.w, last, sizeof(real) == 8 ? 1e160 : 1e25);
    expect(&e, &t, 1, "features of the pair");
    engine_close(&e);
    tiny_close(&t);
}

static void test_parameters(void **state) {
    Tiny t;
    char text[128] = "";
    (void)state;
    tiny_open(&t, (TinyConf){.norm = "batch"}, draws_open("parameters", 1));
    const Params *p = &t.m.params;
    assert_true(finite_params(p, t.w, text, sizeof text));
    t.w[params_find(p, "fc2.bias")->at + 1] = -INFINITY;
    assert_false(finite_params(p, t.w, text, sizeof text));
    assert_string_equal(text, "parameter 'fc2.bias': 1 of its 3 values is not finite");
    fill(t.w, params_find(p, "blocks.0.norm2.bn.running_var"), NAN);
    assert_false(finite_params(p, t.w, text, sizeof text));
    assert_string_equal(
        text, "parameter 'blocks.0.norm2.bn.running_var': 4 of its 4 values are not finite");
    tiny_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_place),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_parameters),
    };
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
