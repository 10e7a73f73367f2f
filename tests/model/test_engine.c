#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/token.h"
#include "model/normalize.h"
#include "sublayer.h"
#include "tiny.h"

#define CLOSE (sizeof(real) == 8 ? 1e-11 : 2e-4)

static const char *const norms[] = {"layer", "scale", "batch"};

static Engine open_engine(const Tiny *t, int lanes, bool train) {
    Engine e;
    Err err;
    if (!engine_open(&e, &t->m, t->B, lanes, train, &err)) fail_msg("%s", err.text);
    engine_weights(&e, t->w);
    return e;
}

static size_t logits_bytes(const Tiny *t) {
    return (size_t)(t->B * t->m.task.classes) * sizeof(real);
}

static void *copy_of(const void *x, size_t bytes) { return memcpy(mem_alloc(bytes, 1), x, bytes); }

/* max|a - b| / max|b|. */
static double off(const real *a, const real *b, size_t n) {
    double worst = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (worst == worst && !(d <= worst)) worst = d; /* NaN stays */
        if (fabs((double)b[i]) > most) most = fabs((double)b[i]);
    }
    return most > 0 ? worst / most : worst;
}

/* Of a mechanism's clusters and windows, in these small models. */
#define SIZES ((MechSizes){3, 9})

/* ---- the same bits ---- */

/* What a run with `threads` leaves: two updates' statistics, gradients, losses, logits. */
static real *run(TinyConf conf, int threads, size_t *bytes) {
    Tiny t;
    lanes_open(threads);
    tiny_open(&t, conf, draws_open("bits", 1));
    Engine e = open_engine(&t, 5, true);
    for (int i = 0; i < 2; i++) {
        tiny_step(&t, &e, 0.5);
        engine_commit(&e, t.w);
    }
    const size_t total = t.m.params.total * sizeof(real), B = (size_t)t.B * sizeof(double);
    *bytes = 2 * total + B + logits_bytes(&t);
    char *all = mem_alloc(*bytes, 1);
    memcpy(all, t.grads, total);
    memcpy(all + total, t.w, total);
    memcpy(all + 2 * total, t.out.loss, B);
    memcpy(all + 2 * total + B, t.out.logits, logits_bytes(&t));
    engine_close(&e);
    tiny_close(&t);
    lanes_open(1);
    return (real *)(void *)all;
}

static void same_bits(TinyConf conf) {
    static const int teams[] = {2, 3, 8};
    size_t bytes, again;
    real *one = run(conf, 1, &bytes);
    for (int i = 0; i < 3; i++) {
        real *x = run(conf, teams[i], &again);
        assert_int_equal(bytes, again);
        assert_memory_equal(x, one, bytes);
        mem_free(x);
    }
    mem_free(one);
}

static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        const TinyConf ragged = {
            .norm = norms[i], .B = 13, .max_length = 40, .heads = 2, .d = 6, .depth = 2};
        TinyConf c = ragged;
        same_bits(c);
        c.dropout = 0.2, c.post_norm = true;
        same_bits(c);
        c.per_example = 2, c.pooling = "cls";
        same_bits(c);
        c.B = 1;
        same_bits(c);
        c = ragged; /* parts of a document, which threads without one take */
        c.B = 3, c.max_length = 700, c.conv = 3, c.positions = "rope", c.d = 8;
        same_bits(c);
        c = ragged;
        for (int k = 0; attn_table[k]; k++) {
            char attention[MECH_TEXT];
            mech_print(attention, attn_table[k], mech_variants(attn_table[k]) - 1, SIZES);
            c.attention = attention;
            same_bits(c);
        }
    }
}

/* A mechanism's tiles of rows are jobs too, where there are more rows than one holds. */
static void bits_of_tiles_do_not_depend_on_threads(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int k = 0; attn_table[k]; k++) {
            char attention[MECH_TEXT];
            TinyConf c = {.norm = "layer", .B = 2, .max_length = 700, .heads = 3, .d = 12};
            if (i) c.positions = "rope";
            mech_print(attention, attn_table[k], mech_variants(attn_table[k]) - 1,
                       (MechSizes){70, 9});
            c.attention = attention;
            same_bits(c);
        }
}

/* ---- batches ---- */

/* Without batch norm, samples do not know of each other: the batch's gradient is the sum of theirs,
 * and dropout drops the same of them wherever in a batch they are. */
static void batch_is_the_sum_of_its_samples(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Tiny t;
        const TinyConf conf = {.norm = norms[i], .B = 7, .per_example = 1 + i, .dropout = 0.1 * i};
        tiny_open(&t, conf, draws_open("sum", 1));
        const size_t total = t.m.params.total;
        Engine e = open_engine(&t, 3, true);
        tiny_step(&t, &e, 0.25);
        real *batch = copy_of(t.grads, total * sizeof(real));
        double *loss = copy_of(t.out.loss, (size_t)t.B * sizeof *loss);
        memset(t.grads, 0, total * sizeof(real));
        for (int s = 0; s < t.B; s++) {
            engine_step(&e, &t.samples[s], 1, 0.25, rng_key(7), t.grads, &t.out, NULL);
            assert_true(t.out.loss[0] == loss[s]);
        }
        assert_true(off(t.grads, batch, total) < CLOSE);
        mem_free(batch), mem_free(loss);
        engine_close(&e);
        tiny_close(&t);
    }
}

/* Neither what stands behind a document nor what is beyond max_length. */
static void reads_no_further_than_a_document(void **state) {
    (void)state;
    for (int pair = 1; pair <= 2; pair++) {
        Tiny t;
        const TinyConf conf = {.B = 4, .per_example = pair, .pooling = pair == 1 ? "cls" : "mean"};
        tiny_open(&t, conf, draws_open("beyond", 1));
        Engine e = open_engine(&t, 2, true);
        tiny_step(&t, &e, 1);
        real *before = copy_of(t.out.logits, logits_bytes(&t));
        for (int i = 0; i < t.B; i++)
            for (int j = 0; j < pair; j++) {
                Sample *s = &t.samples[i];
                for (int n = s->length[j]; n < t.m.conf.max_length; n++)
                    t.ids[s->ids[j] - t.ids + n] = -12345;
                if (s->length[j] == t.m.conf.max_length) s->length[j] += 1000;
            }
        tiny_step(&t, &e, 1);
        assert_memory_equal(t.out.logits, before, logits_bytes(&t));
        engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
        assert_memory_equal(t.out.logits, before, logits_bytes(&t));
        mem_free(before);
        engine_close(&e);
        tiny_close(&t);
    }
}

/* Memory was planned for the longest document, and every other must fit. */
static void every_length_fits(void **state) {
    (void)state;
    static const int lengths[] = {1, 15, 16, 17, 255, 257, 520, 1024, 1039, 1040};
    for (int i = 0; attn_table[i]; i++) {
        for (int v = 0; v < 2; v++) {
            Tiny t;
            char attention[MECH_TEXT];
            const int variants = mech_variants(attn_table[i]);
            mech_print(attention, attn_table[i], variants - 1 - v % variants,
                       (MechSizes){1 + v, 1 + v});
            const TinyConf conf = {.attention = attention, .B = 1, .d = 2, .max_length = 1040};
            tiny_open(&t, conf, draws_open("lengths", 1));
            Engine e = open_engine(&t, 1, true);
            for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
                t.samples[0].length[0] = lengths[n];
                tiny_step(&t, &e, 1);
                assert_true(isfinite(tiny_loss(&t)));
            }
            engine_close(&e);
            tiny_close(&t);
        }
    }
}

/* ---- mechanisms ---- */

/* Tiled and plain attention are one function; long enough for several tiles. */
static void full_equals_naive(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        Tiny t[2];
        real *logits[2];
        for (int k = 0; k < 2; k++) {
            TinyConf conf = {.attention = k ? "\"type\":\"naive\"" : "\"type\":\"full\"", .B = 3};
            conf.max_length = i ? 300 : 20, conf.heads = 2, conf.d = 8, conf.depth = 2;
            tiny_open(&t[k], conf, draws_open("full", 1));
            Engine e = open_engine(&t[k], 2, true);
            tiny_step(&t[k], &e, 1);
            logits[k] = t[k].out.logits;
            engine_close(&e);
        }
        assert_true(off(logits[0], logits[1], 9) < CLOSE);
        assert_true(off(t[0].grads, t[1].grads, t[0].m.params.total) < CLOSE);
        tiny_close(&t[0]), tiny_close(&t[1]);
    }
}

/* Clusters that hold every token: with weights that sum to 1 over clusters, CAST is full attention.
 */
static void cast_of_whole_clusters_is_full(void **state) {
    (void)state;
    Tiny t[2];
    real *logits[2];
    for (int k = 0; k < 2; k++) {
        TinyConf conf = {.heads = 2, .d = 8, .max_length = 70};
        conf.attention =
            k ? "\"type\":\"full\"" : "\"type\":\"cast\",\"clusters\":3,\"cluster_size\":70";
        tiny_open(&t[k], conf, draws_open("whole", 1));
        for (int i = 0; k && i < t[1].m.params.count; i++) { /* the same weights */
            const Param *q = &t[1].m.params.list[i], *p = params_find(&t[0].m.params, q->name);
            memcpy(t[1].w + q->at, t[0].w + p->at, q->n * sizeof(real));
        }
        Engine e = open_engine(&t[k], 2, true);
        tiny_step(&t[k], &e, 1);
        logits[k] = t[k].out.logits;
        engine_close(&e);
    }
    assert_true(off(logits[0], logits[1], 9) < CLOSE);
    tiny_close(&t[0]), tiny_close(&t[1]);
}

/* ---- what is not a number ---- */

static bool bad_numbers(const Tiny *t) {
    double sum = tiny_loss(t);
    for (size_t i = 0; i < t->m.params.total; i++) sum += (double)t->grads[i];
    return !isfinite(sum);
}

/* In any parameter that is used, and at any place, it reaches the loss or the gradients' norm,
 * which stop a run: nothing on the way swallows it. (A token whose scores are NaN is in no cluster,
 * so its loss may be finite.) */
static void check_nan(const char *attention, int i) {
    const real bad[] = {(real)NAN, (real)INFINITY};
    Tiny t;
    const TinyConf conf = {.attention = attention,
                           .norm = norms[i % 3],
                           .post_norm = i / 3,
                           .d_emb = 3,
                           .pooling = i / 3 ? "cls" : "mean"};
    tiny_open(&t, conf, draws_open("nan", (uint64_t)i));
    Engine e = open_engine(&t, 2, true);
    tiny_step(&t, &e, 1);
    assert_false(bad_numbers(&t));
    for (int q = 0; q < 2 * t.m.params.count; q++) {
        const Param *p = &t.m.params.list[q / 2];
        size_t row = !strcmp(p->name, "tok.weight") ? (size_t)t.ids[0] * 3 : 0;
        real *x = &t.w[p->at + row], was = *x;
        if (!(p->flags & PARAM_TRAINED)) continue;
        /* An infinite key or gate may leave finite losses behind: exp(-inf) is 0. */
        if (q % 2 && strstr(p->name, "attn.") && !strstr(p->name, "attn.o.")) continue;
        *x = bad[q % 2];
        tiny_step(&t, &e, 1);
        if (!bad_numbers(&t))
            fail_msg("%s in %s is lost: %s, %s norm", q % 2 ? "Inf" : "NaN", p->name, attention,
                     norms[i % 3]);
        *x = was;
    }
    tiny_step(&t, &e, 1);
    assert_false(bad_numbers(&t));
    engine_close(&e);
    tiny_close(&t);
}

static void nan_reaches_the_loss(void **state) {
    (void)state;
    for (int k = 0; attn_table[k]; k++)
        for (int i = 0; i < 6; i++) {
            char attention[MECH_TEXT];
            const int variants = mech_variants(attn_table[k]);
            mech_print(attention, attn_table[k], variants - 1 - i % variants, SIZES);
            check_nan(attention, i);
        }
}

/* ---- dropout ---- */

static void set_zero(Tiny *t, const char *name) {
    const Param *p = params_find(&t->m.params, name);
    memset(t->w + p->at, 0, p->n * sizeof *t->w);
}

/* The loss with these parameters 0. */
static double loss_with(TinyConf conf, const char *const zero[2]) {
    Tiny t;
    tiny_open(&t, conf, draws_open("places", 1));
    for (int i = 0; i < 2; i++) set_zero(&t, zero[i]);
    Engine e = open_engine(&t, 3, true);
    tiny_step(&t, &e, 1);
    const double loss = tiny_loss(&t);
    engine_close(&e);
    tiny_close(&t);
    return loss;
}

/* Dropout of a place changes nothing where all that it could drop is 0, and something elsewhere. */
static void dropout_has_its_place(void **state) {
    static const char *const zero[DROPOUT_PLACES][2] = {
        {"tok.weight", "pos.weight"},
        {"blocks.0.attn.o.weight", "blocks.0.attn.o.bias"},
        {"blocks.0.fc2.weight", "blocks.0.fc2.bias"},
    };
    (void)state;
    for (int i = 0; i < DROPOUT_PLACES * DROPOUT_PLACES; i++) {
        const int place = i / DROPOUT_PLACES, other = i % DROPOUT_PLACES;
        TinyConf conf = {.B = 4, .norm = norms[other]};
        const double none = loss_with(conf, zero[other]);
        conf.dropout_at[place] = 0.5;
        assert_true((loss_with(conf, zero[other]) == none) == (place == other));
    }
}

/* What one place is not told, model.dropout is. */
static void dropout_of_places_is_dropout(void **state) {
    static const char *const norm[2] = {"last.bias", "last.bias"};
    TinyConf all = {.B = 4, .d_emb = 7, .dropout = 0.3}, each = {.B = 4, .d_emb = 7}, none = each,
             not = all;
    (void)state;
    for (int i = 0; i < DROPOUT_PLACES; i++) each.dropout_at[i] = 0.3, not .dropout_at[i] = -1;
    const double with = loss_with(all, norm), without = loss_with(none, norm);
    assert_true(with != without);
    assert_true(loss_with(each, norm) == with);
    assert_true(loss_with(not, norm) == without);
}

/* ---- evaluation ---- */

/* Without dropout and batch norm, evaluation is the training step's forward pass. */
static void evaluation_is_the_forward_pass(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        Tiny t, dropping;
        TinyConf conf = {.norm = norms[i % 2], .B = 6, .d_emb = i < 2 ? 4 : 7};
        tiny_open(&t, conf, draws_open("eval", 1));
        conf.dropout = 0.5;
        tiny_open(&dropping, conf, draws_open("eval", 1));
        Engine e = open_engine(&t, 3, true), eval = open_engine(&t, 2, false);
        Engine drop = open_engine(&dropping, 3, true);
        tiny_step(&t, &e, 1);
        real *logits = copy_of(t.out.logits, logits_bytes(&t));
        const double loss = tiny_loss(&t);
        engine_evaluate(&eval, t.samples, t.B, &t.out, NULL);
        assert_memory_equal(t.out.logits, logits, logits_bytes(&t));
        assert_true(tiny_loss(&t) == loss);
        engine_evaluate(&drop, t.samples, t.B, &t.out, NULL);
        const size_t n = (size_t)(t.B * t.m.task.classes);
        assert_true(off(t.out.logits, logits, n) < CLOSE); /* dropout is left out */
        tiny_step(&dropping, &drop, 1);
        assert_true(off(dropping.out.logits, logits, n) > 1e-3);
        mem_free(logits);
        engine_close(&e), engine_close(&eval), engine_close(&drop);
        tiny_close(&t), tiny_close(&dropping);
    }
}

/* -log softmax of x (K) at `label`, which a share s of all classes smooths. */
static double surprise(const real *x, int K, int label, double s) {
    double all = 0, own = 0;
    for (int k = 0; k < K; k++) {
        double sum = 0;
        for (int j = 0; j < K; j++) sum += exp((double)x[j] - (double)x[k]);
        all += log(sum);
        if (k == label) own = log(sum);
    }
    return (1 - s) * own + s / K * all;
}

static double surprise_of(const Tiny *t, int i, double s) {
    const int K = t->m.task.classes;
    return surprise(t->out.logits + i * K, K, t->samples[i].label, s);
}

/* The same of its masked tokens, of which out.logits has a row each. */
static double surprise_of_masked(const Tiny *t, int i, double s) {
    const int K = t->m.task.vocab, room = t->out.room;
    double sum = 0;
    for (int j = 0; j < t->m.task.per_example; j++) {
        const real *x =
            t->out.logits + (size_t)(i * t->m.task.per_example + j) * (size_t)(room * K);
        for (int n = 0; n < t->samples[i].length[j]; n++)
            if (t->samples[i].ids[j][n] == TOKEN_MASKED)
                sum += surprise(x + n * K, K, t->samples[i].targets[j][n], s);
    }
    return sum;
}

/* Labels are smoothed in the training step's loss alone. */
static void evaluation_has_labels_as_they_are(void **state) {
    const double s = 0.3;
    (void)state;
    for (int i = 0; i < 4; i++) {
        Tiny t;
        const int pairs = i % 2, masked = i / 2;
        const TinyConf conf = {
            .B = 6, .per_example = 1 + pairs, .classes = 5, .masked = masked ? 0.4 : 0};
        double (*const of)(const Tiny *, int, double) = masked ? surprise_of_masked : surprise_of;
        tiny_open(&t, conf, draws_open("smooth", 1));
        t.out.room = t.m.conf.max_length;
        if (masked)
            t.out.logits = mem_alloc((size_t)(6 * (1 + pairs) * t.out.room * t.m.task.vocab),
                                     sizeof *t.out.logits);
        Engine e = open_engine(&t, 3, true);
        e.smoothing = s;
        tiny_step(&t, &e, 1);
        for (int j = 0; j < t.B; j++)
            assert_true(fabs(t.out.loss[j] - of(&t, j, s)) < CLOSE * t.out.loss[j]);
        engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
        for (int j = 0; j < t.B; j++)
            assert_true(fabs(t.out.loss[j] - of(&t, j, 0)) < CLOSE * t.out.loss[j]);
        engine_close(&e);
        tiny_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(bits_of_tiles_do_not_depend_on_threads),
        cmocka_unit_test(batch_is_the_sum_of_its_samples),
        cmocka_unit_test(reads_no_further_than_a_document),
        cmocka_unit_test(every_length_fits),
        cmocka_unit_test(full_equals_naive),
        cmocka_unit_test(cast_of_whole_clusters_is_full),
        cmocka_unit_test(nan_reaches_the_loss),
        cmocka_unit_test(dropout_has_its_place),
        cmocka_unit_test(dropout_of_places_is_dropout),
        cmocka_unit_test(evaluation_is_the_forward_pass),
        cmocka_unit_test(evaluation_has_labels_as_they_are),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
