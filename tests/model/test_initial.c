/* First values of every parameter, and which of them train and decay: the table in docs/method.md.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "tiny.h"

enum { SEED = 3, SEEDS = 8, WIDTH = 32, HIDDEN = 48, EMBEDDING = 40, HEADS = 4, CLASSES = 10 };

typedef enum Training { TRAINS, DECAYS, NEVER } Training;

typedef struct Row {
    const char *name; /* what a parameter's name ends with; of several rows the first counts */
    enum { CONSTANT, NORMAL, UNIFORM } kind;
    double value; /* it; the standard deviation; the bound */
    Training training;
} Row;

static const Row rows[] = {
    {"tok.weight", NORMAL, 1, TRAINS},
    {"pos.weight", NORMAL, 0.02, TRAINS},
    {"cls.weight", CONSTANT, 0, TRAINS},
    {"mask.weight", CONSTANT, 0, TRAINS},
    {"proj.weight", UNIFORM, 0.288675135, DECAYS}, /* sqrt(6 / (32 + 40)) */
    {"norm1.weight", CONSTANT, 1, TRAINS},
    {"norm2.weight", CONSTANT, 1, TRAINS},
    {"last.weight", CONSTANT, 1, TRAINS},
    {"norm1.g", CONSTANT, 5.656854249492381, TRAINS}, /* sqrt 32 */
    {"norm2.g", CONSTANT, 5.656854249492381, TRAINS},
    {"last.g", CONSTANT, 5.656854249492381, TRAINS},
    {".bn.weight", CONSTANT, 1, TRAINS},
    {".bn.running_mean", CONSTANT, 0, NEVER},
    {".bn.running_var", CONSTANT, 1, NEVER},
    {"blocks.0.conv.weight", CONSTANT, 0, DECAYS},
    {".attn.q.weight", UNIFORM, 0.306186218, DECAYS}, /* sqrt(6 / 64) */
    {".attn.key.weight", UNIFORM, 0.306186218, DECAYS},
    {".attn.v.weight", UNIFORM, 0.306186218, DECAYS},
    {".attn.o.weight", UNIFORM, 0.306186218, DECAYS},
    {".attn.surrogate", NORMAL, 0.353553391, TRAINS},   /* 1 / sqrt 8 */
    {".attn.phi.weight", UNIFORM, 0.426401433, DECAYS}, /* sqrt(6 / 33) */
    {".attn.planes", NORMAL, 1, NEVER},
    {".attn.rotations", NORMAL, 1, NEVER},
    {".attn.directions", NORMAL, 1, NEVER},
    {".attn.features", NORMAL, 1, NEVER},
    {".attn.projection", NORMAL, 0.02, DECAYS},
    {".attn.conv", UNIFORM, 0.377964473, DECAYS},          /* 1 / sqrt 7 */
    {"blocks.0.fc1.weight", UNIFORM, 0.273861279, DECAYS}, /* sqrt(6 / 80) */
    {"blocks.0.fc2.weight", UNIFORM, 0.273861279, DECAYS},
    {"fc1.weight", UNIFORM, 0.306186218, DECAYS},
    {"fc2.weight", UNIFORM, 0.377964473, DECAYS}, /* sqrt(6 / 42) */
    {"lm.weight", UNIFORM, 0.255376959, DECAYS},  /* sqrt(6 / 92) */
    {".bias", CONSTANT, 0, TRAINS},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Which have every parameter that there is; a parameter of exactly that name has the row of one's
 * own. */
static const struct {
    TinyConf conf;
    Row own;
} models[] = {
    {{.conv = 3, .pooling = "cls", .attention = "\"type\":\"cast\",\"clusters\":20"}, {0}},
    {{.norm = "scale", .attention = "\"type\":\"cast\",\"clusters\":20,\"surrogates\":\"frozen\""},
     {"blocks.0.attn.surrogate", NORMAL, 0.353553391, NEVER}},
    {{.norm = "batch", .per_example = 2, .attention = "\"type\":\"full\""},
     {"fc1.weight", UNIFORM, 0.193649167, DECAYS}}, /* sqrt(6 / (32 + 128)) */
    {{.masked = 0.3, .attention = "\"type\":\"clustered\""}, {0}},
    {{.attention = "\"type\":\"i-clustered\""}, {0}},
    {{.attention = "\"type\":\"lsh\""}, {0}},
    {{.attention = "\"type\":\"smyrf\""}, {0}},
    {{.attention = "\"type\":\"performer\""}, {0}},
    {{.attention = "\"type\":\"linformer\",\"rank\":20"}, {0}},
    {{.attention = "\"type\":\"nystrom\",\"conv_kernel\":7"}, {0}},
};

static const Row *row_of(const char *name, const Row *own) {
    const size_t n = strlen(name);
    if (own->name && !strcmp(name, own->name)) return own;
    for (int i = 0; i < ROWS; i++) {
        const size_t end = strlen(rows[i].name);
        if (n >= end && !strcmp(name + n - end, rows[i].name)) return &rows[i];
    }
    fail_msg("%s has no row", name);
    return NULL;
}

/* Of all seeds, whose vectors of `total` stand one behind the other. */
static void check(const Row *r, const Param *p, const real *w, size_t total) {
    static const unsigned flags[] = {PARAM_TRAINED, PARAM_TRAINED | PARAM_DECAYED, 0};
    double square = 0, most = 0;
    const double n = SEEDS * (double)p->n, from = r->kind == CONSTANT ? (double)(real)r->value : 0;
    for (size_t i = 0; i < SEEDS * p->n; i++) {
        const double off = (double)w[i / p->n * total + p->at + i % p->n] - from;
        square += off * off / n;
        most = fmax(most, fabs(off));
    }
    /* Five standard deviations of the mean square; e^-10 is the chance that uniform numbers all
     * stay further below their bound. */
    const double spread = r->kind == NORMAL ? sqrt(2 / n) : sqrt(0.8 / n);
    const double wanted = r->value * r->value / (r->kind == UNIFORM ? 3 : 1);
    bool right = most == 0;
    if (r->kind != CONSTANT) right = fabs(square / wanted - 1) < 5 * spread;
    if (r->kind == UNIFORM) right &= most < r->value * (1 + 1e-6) && most > r->value * (1 - 10 / n);
    if (!right) fail_msg("%s: the mean square is %g, the largest %g", p->name, square, most);
    if ((p->flags & (PARAM_TRAINED | PARAM_DECAYED)) != flags[r->training])
        fail_msg("%s: trains or decays otherwise", p->name);
}

static void check_model(TinyConf conf, const Row *own, int *used) {
    Tiny t;
    conf.heads = HEADS, conf.d = WIDTH, conf.d_ff = HIDDEN, conf.d_emb = EMBEDDING;
    conf.max_length = 50, conf.vocab = 60, conf.classes = CLASSES;
    tiny_open(&t, conf, draws_open("initial", 1));
    const Params *all = &t.m.params;
    real *w = mem_alloc(SEEDS * all->total, sizeof *w);
    for (int s = 0; s < SEEDS; s++)
        params_init(all, w + (size_t)s * all->total, (uint64_t)(SEED + s));
    for (int i = 0; i < all->count; i++) {
        const Row *r = row_of(all->list[i].name, own);
        check(r, &all->list[i], w, all->total);
        if (r != own) used[r - rows]++;
    }
    mem_free(w);
    tiny_close(&t);
}

static void as_the_table_has_it(void **state) {
    int used[ROWS] = {0};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_model(models[i].conf, &models[i].own, used);
    for (int i = 0; i < ROWS; i++)
        if (!used[i]) fail_msg("no model has a %s", rows[i].name);
}

static void every_mechanism_has_a_model(void **state) {
    enum { MODELS = sizeof models / sizeof *models };
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        char type[64];
        int n = 0;
        snprintf(type, sizeof type, "\"type\":\"%s\"", attn_table[i]->name);
        while (n < MODELS && !strstr(models[n].conf.attention, type)) n++;
        if (attn_table[i]->params && n == MODELS) fail_msg("no model has %s", attn_table[i]->name);
    }
}

/* Without a bias hyperplanes pass through the origin: their last column is 0. */
static void hashes_without_a_bias(void **state) {
    static const char *const types[] = {"clustered", "i-clustered"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        Tiny t;
        char attention[64];
        snprintf(attention, sizeof attention, "\"type\":\"%s\",\"hash_bias\":%s", types[i / 2],
                 i % 2 ? "true" : "false");
        tiny_open(&t, (TinyConf){.d = WIDTH, .attention = attention}, draws_open("initial", 1));
        params_init(&t.m.params, t.w, SEED);
        const Param *p = params_find(&t.m.params, "blocks.0.attn.planes");
        assert_int_equal(p->shape[2], WIDTH + 1);
        for (size_t j = 0; j < p->n; j++)
            assert_true((t.w[p->at + j] == 0) == (i % 2 == 0 && j % (WIDTH + 1) == WIDTH));
        tiny_close(&t);
    }
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_table_has_it), cmocka_unit_test(every_mechanism_has_a_model),
        cmocka_unit_test(hashes_without_a_bias), cmocka_unit_test(smooth_where_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
