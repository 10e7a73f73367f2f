/* First values of a model's parameters: those of the table in docs/method.md. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tiny.h"

enum { SEED = 3, WIDTH = 32, HIDDEN = 48, EMBEDDING = 40, HEADS = 4 };

typedef struct Row {
    const char *name;
    enum { CONSTANT, NORMAL, UNIFORM } kind;
    double value; /* it; the standard deviation; the bound */
} Row;

static const Row rows[] = {
    {"tok.weight", NORMAL, 1},
    {"pos.weight", NORMAL, 0.02},
    {"cls.weight", CONSTANT, 0},
    {"proj.weight", UNIFORM, 0.288675135}, /* sqrt(6 / (32 + 40)) */
    {"proj.bias", CONSTANT, 0},
    {"blocks.0.norm1.weight", CONSTANT, 1},
    {"blocks.0.norm1.bias", CONSTANT, 0},
    {"blocks.0.conv.weight", CONSTANT, 0},
    {"blocks.0.attn.q.weight", UNIFORM, 0.306186218}, /* sqrt(6 / 64) */
    {"blocks.0.attn.q.bias", CONSTANT, 0},
    {"blocks.0.attn.key.weight", UNIFORM, 0.306186218},
    {"blocks.0.attn.v.weight", UNIFORM, 0.306186218},
    {"blocks.0.attn.o.weight", UNIFORM, 0.306186218},
    {"blocks.0.attn.surrogate", NORMAL, 0.353553391}, /* 1 / sqrt 8 */
    {"blocks.0.attn.phi.bias", CONSTANT, 0},
    {"blocks.0.fc1.weight", UNIFORM, 0.273861279}, /* sqrt(6 / 80) */
    {"blocks.0.fc2.bias", CONSTANT, 0},
};

static void check(const Row *r, const Param *p, const real *x) {
    double square = 0, most = 0;
    const double n = (double)p->n;
    for (size_t i = 0; i < p->n; i++) {
        const double off = (double)x[i] - (r->kind == CONSTANT ? r->value : 0);
        square += off * off / n;
        most = fmax(most, fabs(off));
    }
    /* Five standard deviations of the mean square. */
    const double spread = r->kind == NORMAL ? sqrt(2 / n) : sqrt(0.8 / n);
    const double wanted = r->value * r->value / (r->kind == UNIFORM ? 3 : 1);
    bool right = most == 0;
    if (r->kind != CONSTANT) right = fabs(square / wanted - 1) < 5 * spread;
    if (r->kind == UNIFORM) right &= most < r->value * (1 + 1e-6);
    if (!right) fail_msg("%s: the mean square is %g, the largest %g", r->name, square, most);
}

static void as_the_table_has_it(void **state) {
    (void)state;
    Tiny t;
    tiny_open(&t,
              (TinyConf){.heads = HEADS,
                         .d = WIDTH,
                         .d_ff = HIDDEN,
                         .d_emb = EMBEDDING,
                         .max_length = 50,
                         .vocab = 60,
                         .conv = 3,
                         .pooling = "cls",
                         .attention = "\"type\":\"cast\",\"clusters\":20"},
              draws_open("initial", 1));
    params_init(&t.m.params, t.w, SEED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Param *p = params_find(&t.m.params, rows[i].name);
        if (!p) fail_msg("there is no %s", rows[i].name);
        check(&rows[i], p, t.w + p->at);
    }
    tiny_close(&t);
}

/* Rows of tokens an eighth of the vocabulary apart, as alike as the table has it where it is asked
 * for, and not at all where it is not. */
static void smooth_where_asked(void **state) {
    (void)state;
    enum { VOCAB = 64, APART = VOCAB / 8 };
    for (int smooth = 0; smooth < 2; smooth++) {
        Tiny t;
        const TinyConf conf = {
            .d_emb = EMBEDDING, .vocab = VOCAB, .tok_init = smooth ? "smooth" : "normal"};
        tiny_open(&t, conf, draws_open("initial", 2));
        params_init(&t.m.params, t.w, SEED);
        const real *x = t.w + params_find(&t.m.params, "tok.weight")->at;
        double sum = 0, n = EMBEDDING * (VOCAB - APART);
        for (int i = 0; i < (VOCAB - APART) * EMBEDDING; i++)
            sum += (double)x[i] * (double)x[i + APART * EMBEDDING] / n;
        /* Columns are independent; within one, some eight numbers are. */
        assert_true(fabs(sum - (smooth ? exp(-0.5) : 0)) < 5 * sqrt(2.0 / (8 * EMBEDDING)));
        tiny_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_table_has_it),
                                       cmocka_unit_test(smooth_where_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
