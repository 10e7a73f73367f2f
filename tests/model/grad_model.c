/* Whole models, from tokens to loss, through engine_step: every parameter of every kind of model,
 * with every mechanism (MECHANISM=name: with that one). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "sublayer.h"
#include "tiny.h"

enum { TRIES = 8 };

typedef struct Whole {
    Tiny tiny;
    Engine engine;
    GradTensor *loss;
    GradCase *c;
    uint64_t *choices; /* of the first call: a digest a block of each document */
    bool called;
} Whole;

static void watch_choices(Whole *o) {
    const Traces *t = &o->tiny.traces;
    for (int i = 0; i < t->documents * t->depth; i++) {
        if (!o->called) o->choices[i] = t->trace[i].digest;
        if (o->choices[i] != t->trace[i].digest) o->c->jumped = true;
    }
    o->called = true;
}

/* The same key in every call: the same dropout masks. */
static void step(Whole *o, real *grads) {
    Tiny *t = &o->tiny;
    engine_weights(&o->engine, t->w);
    engine_step(&o->engine, t->samples, t->B, (double)o->loss->dx[0], rng_key(3), grads, &t->out,
                t->traces.trace);
    for (int i = 0; i < t->B; i++) o->loss->x[i] = (real)t->out.loss[i];
    watch_choices(o);
}

static void forward(void *ctx) { step(ctx, NULL); }

/* After forward, of the same weights: gradients that are wanted change no loss. */
static void backward(void *ctx) {
    Whole *o = ctx;
    const GradTensor *loss = o->loss;
    real alone[8];
    assert_true(loss->n <= sizeof alone / sizeof *alone);
    memcpy(alone, loss->x, loss->n * sizeof *alone);
    step(o, o->tiny.grads);
    assert_memory_equal(alone, loss->x, loss->n * sizeof *alone);
}

static void open_inputs(Whole *o, GradCase *c) {
    Tiny *t = &o->tiny;
    const Params *p = &t->m.params;
    draw_normals(&c->draws, t->grads, p->total, 0, 1e-3);
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        GradTensor *in = grad_input_at(c, q->name, t->w + q->at, t->grads + q->at, q->n);
        in->fixed = !(q->flags & PARAM_TRAINED);
    }
    o->loss = grad_output(c, "loss", (size_t)t->B);
    for (int i = 1; i < t->B; i++) o->loss->dx[i] = o->loss->dx[0]; /* the step has one scale */
}

static void check(TinyConf conf, uint64_t seed, int lanes) {
    char text[1024];
    tiny_print(&conf, text);
    for (int try = 0; try < TRIES; try++) {
        Draws d = draws_open("model", seed * TRIES + (uint64_t)try);
        Whole o = {.called = false};
        GradCase c;
        Err err;
        tiny_open(&o.tiny, conf, d);
        grad_open(&c, d, "%s%.240s", conf.masked > 0 ? "masked " : "", text);
        o.c = &c;
        o.choices = mem_alloc((size_t)(conf.B * 2 * conf.depth), sizeof *o.choices);
        open_inputs(&o, &c);
        assert_true(engine_open(&o.engine, &o.tiny.m, conf.B, lanes, true, &err));
        o.engine.smoothing = conf.smoothing;
        const bool done = grad_check(&c, forward, backward, &o);
        engine_close(&o.engine);
        grad_close(&c);
        mem_free(o.choices);
        tiny_close(&o.tiny);
        if (done) return;
    }
    fail_msg("%s: no choices far from others in %d draws", text, TRIES);
}

/* ---- the models ---- */

static const char *const norms[] = {"layer", "scale", "batch"};
static const char *const positions[] = {"learned", "sinusoidal", "rope"};

/* Widths 1 and 2 are left to a case of their own: a layer norm over so few features, or a batch
 * norm over as few tokens, is so steep where they are nearly equal that no finite difference holds
 * 1e-6. */
static void draw_sizes(TinyConf *c, Draws *d) {
    static const int widths[][2] = {{1, 3}, {2, 4}, {3, 3}, {2, 6}, {1, 5}}; /* heads, d */
    static const int even[][2] = {{2, 4}, {1, 4}, {3, 6}, {1, 6}, {1, 4}};   /* heads of these */
    const bool rope = !strcmp(c->positions, "rope");
    const int *width = (rope ? even : widths)[draw_int(d, 0, 4)];
    c->heads = width[0], c->d = width[1];
    c->d_emb = draw_int(d, 0, 1) ? c->d : draw_int(d, 1, 9);
    c->depth = draw_int(d, 1, 2), c->d_ff = draw_int(d, 1, 6);
    c->max_length = draw_int(d, 5, 8), c->B = draw_int(d, 1, 3);
    c->vocab = draw_int(d, rope ? 3 : 1, 4), c->classes = draw_int(d, 2, 4);
    c->dropout = draw_int(d, 0, 2) ? 0 : 0.3;
    c->masked = draw_int(d, 0, 2) ? 0 : 0.4;
    const int taps = 1 + 2 * draw_int(d, 0, 3);
    if (c->d > 3 && draw_int(d, 0, 1))
        c->conv = taps; /* of three features layer norm is too steep */
    c->smoothing = draw_int(d, 0, 2) ? 0 : 0.2;
    c->dropout_at[draw_int(d, 0, DROPOUT_PLACES - 1)] = draw_int(d, -1, 1) * 0.25;
    c->conv_residual = draw_int(d, 0, 1) && c->conv;
}

/* Into buf the next of the mechanism's variants that is a valid one. */
static void next_variant(char buf[MECH_TEXT], const AttnMech *m, int *variant, MechSizes sizes) {
    const AttnShape any = {4, 2, 2, 9, 8, true};
    for (void *self = NULL; !self; ++*variant) {
        Err err;
        mech_print(buf, m, *variant % mech_variants(m), sizes);
        self = mech_open(m, buf, &any, &err);
        free(self);
    }
}

/* Norms x pre/post x one document or two x mean/cls x positions: 72 models, twice with the variants
 * of a mechanism in turn, at sizes that leave some tokens out of its clusters or none. What
 * surrounds it is the same for all, so that each but CAST, unless it is named, takes one model in
 * five, others than its neighbours. */
static void all_models(const AttnMech *m, int index) {
    const int models = mech_variants(m) > 1 ? 144 : 72;
    const int step = m == &attn_cast || mech_named() ? 1 : 5;
    for (int i = index % step, variant = 0; i < models; i += step) {
        char attention[MECH_TEXT];
        next_variant(attention, m, &variant, (MechSizes){2 + i % 2, 2 + i % 7});
        Draws d = draws_open("sizes", (uint64_t)i);
        TinyConf c = {.attention = attention, .norm = norms[i % 3], .post_norm = i / 3 % 2};
        c.per_example = 1 + i / 6 % 2;
        c.pooling = i / 12 % 2 ? "cls" : "mean";
        c.positions = positions[i / 24 % 3];
        draw_sizes(&c, &d);
        check(c, (uint64_t)i, draw_int(&d, 1, 4));
    }
}

static void every_mechanism(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        if (!mech_wanted(attn_table[i])) continue;
        all_models(attn_table[i], i);
        grad_report(attn_table[i]->name);
    }
}

/* What recipes add to a model; the draws above have them in random company. */
static const TinyConf parts[] = {
    {.positions = "rope"},
    {.conv = 5},
    {.conv = 5, .conv_residual = true},
    {.masked = 0.4},
    {.smoothing = 0.2},
    {.dropout_at = {[DROPOUT_EMBED] = 0.25}},
    {.dropout_at = {[DROPOUT_ATTENTION] = 0.25}},
    {.dropout_at = {[DROPOUT_FFN] = 0.25}},
    {.positions = "rope",
     .conv = 3,
     .conv_residual = true,
     .masked = 0.4,
     .smoothing = 0.2,
     .dropout = 0.3},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* Each of them alone, and all together, with every mechanism, its norms before and after. */
static void every_part(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        if (!mech_wanted(attn_table[i])) continue;
        for (int part = 0, variant = 0; part < PARTS * 2; part++) {
            char attention[MECH_TEXT];
            TinyConf c = parts[part / 2];
            next_variant(attention, attn_table[i], &variant, (MechSizes){2 + part % 2, 3});
            c.attention = attention, c.norm = norms[part % 3], c.post_norm = part % 2;
            c.d = 6, c.heads = 3, c.d_ff = 7, c.max_length = 7, c.depth = 2;
            c.per_example = 1 + part / 2 % 2;
            check(c, 400 + (uint64_t)part, 2);
        }
        grad_report(attn_table[i]->name);
    }
}

/* One token, one sample, one feature, more lanes than samples. */
static void edges(void **state) {
    (void)state;
    for (int i = 0; i < 3 * 2; i++) {
        TinyConf c = {.norm = norms[i % 3], .post_norm = i / 3, .B = 1, .max_length = 1};
        check(c, 200 + (uint64_t)i, 3);
        c.per_example = 2;
        check(c, 210 + (uint64_t)i, 3);
        /* All scores may be equal here: clusters that hold every token. */
        TinyConf narrow = {.norm = norms[i % 3], .post_norm = i / 3, .d = 1, .d_ff = 1};
        narrow.attention = "\"type\":\"cast\",\"clusters\":2,\"cluster_size\":9";
        check(narrow, 220 + (uint64_t)i, 1);
    }
    grad_report("edges");
}

/* Documents of several tiles of tokens, clusters of several tiles of keys; parameters along
 * directions. */
static void long_documents(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        TinyConf c = {.norm = norms[i], .post_norm = i == 1, .max_length = 280, .vocab = 1100};
        c.dropout = 0.2 * (i % 2);
        c.pooling = i == 2 ? "cls" : "mean";
        c.positions = "sinusoidal";
        c.attention = i ? "\"type\":\"cast\",\"clusters\":2" : "\"type\":\"full\"";
        c.B = i == 2 ? 2 : 1;
        check(c, 300 + (uint64_t)i, 2);
    }
    grad_report("long documents");
}

/* So wide that batch norm keeps what narrower documents make again, and that gradients of weights
 * are summed in several slices; parameters along directions. */
static void wide_batch_norm(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        TinyConf c = {.norm = "batch", .post_norm = i, .d = 130, .d_ff = 9, .heads = 5};
        c.max_length = 24, c.B = 2;
        c.attention = "\"type\":\"cast\",\"clusters\":2,\"cluster_size\":6";
        check(c, 320 + (uint64_t)i, 2);
    }
    grad_report("wide batch norm");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mechanism), cmocka_unit_test(every_part),
        cmocka_unit_test(edges),           cmocka_unit_test(long_documents),
        cmocka_unit_test(wide_batch_norm),
    };
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
