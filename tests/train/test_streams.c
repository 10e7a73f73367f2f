/* Random streams, as docs/method.md lists them: their names, what is folded into their keys, in
 * which order, and what is drawn, through the functions that training calls. What should come out
 * is in tests/streams.h, which scripts/reference/streams.py made; tests/data has imported splits.
 */
#include "streams.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/token.h"
#include "data/listops.h"
#include "tiny.h"
#include "train/approximate.h"
#include "train/fixture.h"
#include "train/update.h"

enum { SEED = 264, UPDATE = 9, WIDTH = 8 };

/* ---- a config, its data and what reads them ---- */

/* A split of `count` examples, all of the same documents: each the first so many of ids. */
static DatasetWriter *same_examples(const Task *task, const char *name, int count, const int *ids,
                                    const int length[2]) {
    DatasetWriter *w = dataset_writer(task->name, name, "test", task->vocab, task->classes,
                                      task->per_example == 2);
    for (int i = 0; i < count; i++) {
        const int one = dataset_add_document(w, ids, length[0]);
        const int other = length[1] ? dataset_add_document(w, ids, length[1]) : -1;
        dataset_add_example(w, i % task->classes, one, other);
    }
    return w;
}

static void write_data(const char *task, int examples, const int *ids, const int length[2]) {
    DatasetWriter *w[SPLITS];
    Err err;
    for (int s = 0; s < SPLITS; s++)
        w[s] = same_examples(task_find(task), split_names[s], s == SPLIT_TRAIN ? examples : 3, ids,
                             length);
    if (!dataset_write_splits(w, scratch("data"), &err)) fail_msg("%s", err.text);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
}

/* data, model, train: what these sections have besides, each behind a comma. */
static void open_fixture(Fixture *x, const char *task, const char *data, const char *model,
                         const char *train) {
    char text[2048];
    Err err;
    const int n =
        snprintf(text, sizeof text,
                 "{\"task\":\"%s\",\"data\":{\"dir\":\"%s\"%s},\"model\":{\"depth\":2,"
                 "\"heads\":2,\"d\":8,\"d_ff\":8,\"d_emb\":8%s},\"train\":{\"seed\":%d%s}}",
                 task, scratch("data"), data, model, SEED, train);
    *x = (Fixture){0};
    const char *path = scratch_write("config.json", text, (size_t)n);
    if (!config_load(&x->c, path, NULL, 0, &err)) fail_msg("%s", err.text);
    fixture_open_loader(x);
}

static void count_up(int *ids, int n) {
    for (int i = 0; i < n; i++) ids[i] = i + 1;
}

/* ---- initial values ---- */

static void initial_values(void **state) {
    static const TinyConf confs[] = {
        {.depth = 2, .heads = 2, .d = WIDTH, .vocab = 16},
        {.depth = 2,
         .heads = 2,
         .d = WIDTH,
         .vocab = 16,
         .tok_init = "smooth",
         .attention = "\"type\":\"performer\",\"features\":6"},
    };
    Tiny t[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny_open(&t[i], confs[i], draws_open("streams", 1));
        params_init(&t[i].m.params, t[i].w, SEED);
    }
    for (size_t i = 0; i < sizeof stream_initial / sizeof *stream_initial; i++) {
        const char *name = stream_initial[i].name;
        const Tiny *of = &t[stream_initial[i].model];
        const real x = of->w[params_find(&of->m.params, name)->at + (size_t)stream_initial[i].i];
        if (fabs((double)x - stream_initial[i].value) > 1e-5)
            fail_msg("element %d of %s is %g", stream_initial[i].i, name, (double)x);
    }
    tiny_close(&t[0]), tiny_close(&t[1]);
}

/* ---- which examples ---- */

static void order_of_epochs(void **state) {
    Fixture x;
    int ids[] = {1, 2, 3};
    (void)state;
    write_data("listops", 23, ids, (const int[]){3, 0});
    open_fixture(&x, "listops", "", "", ",\"batch\":5");
    for (int epoch = 0; epoch < 2; epoch++) {
        loader_train(&x.f, epoch * loader_updates_per_epoch(&x.f) + 1, 0);
        assert_memory_equal(x.f.batch.examples, stream_order + 5 * epoch, 5 * sizeof(int));
    }
    fixture_close(&x);
}

#define TEXT_HOLDOUT ",\"holdout\":0.25,\"holdout_seed\":5"

static void held_out_reviews(void **state) {
    enum { HELD = sizeof stream_held_out / sizeof *stream_held_out };
    Fixture x;
    int ids[] = {1, 2, 3};
    (void)state;
    write_data("text", 18, ids, (const int[]){3, 0});
    open_fixture(&x, "text", TEXT_HOLDOUT, "", ",\"batch\":2");
    assert_int_equal(x.f.examples[SPLIT_VAL], HELD);
    for (int i = 0; i < HELD; i++)
        assert_int_equal(loader_index(&x.f, SPLIT_VAL, i), stream_held_out[i]);
    fixture_close(&x);
}

/* ---- dropout ---- */

static void gradients(Fixture *x, State *s, real *grads) {
    Engine e;
    Err err;
    assert_true(engine_open(&e, &x->c.model, x->c.train.batch, 4, true, &err));
    engine_weights(&e, s->w);
    Update u = {&x->c.train, &x->f, &e, s, grads, UPDATE};
    assert_true(update_gradients(&u));
    engine_close(&e);
}

/* n gradients of a parameter, from element `from` on, are 0 where x stands, and nowhere else. */
static void zero_where_dropped(const State *s, const real *grads, const char *name, int from,
                               const char *dropped) {
    const real *g = grads + params_find(s->params, name)->at + from;
    char found[WIDTH + 1] = "";
    for (int j = 0; j < WIDTH; j++) found[j] = g[j] == 0 ? 'x' : '.';
    if (strcmp(found, dropped) != 0)
        fail_msg("%s from %d: %s, expected %s", name, from, found, dropped);
}

static void check_places(const State *s, const real *grads, int place) {
    for (int row = 0; place == DROPOUT_EMBED && row < 3; row++)
        zero_where_dropped(s, grads, "pos.weight", row * WIDTH, stream_dropped_embedding[row]);
    for (int layer = 0; place != DROPOUT_EMBED && layer < 2; layer++) {
        char name[64];
        const bool ffn = place == DROPOUT_FFN;
        snprintf(name, sizeof name, "blocks.%d.%s.bias", layer, ffn ? "fc2" : "attn.o");
        zero_where_dropped(s, grads, name, 0,
                           ffn ? stream_dropped_ffn[layer] : stream_dropped_attention[layer]);
    }
}

/* A pair of one token and of three: what is added before a dropout has no gradient where it drops.
 */
static void dropout_of_a_pair(void **state) {
    static const char *const where[DROPOUT_PLACES] = {
        ",\"dropout_embed\":0.5", ",\"dropout_attention\":0.8", ",\"dropout_ffn\":0.8"};
    int ids[] = {1, 2, 3};
    (void)state;
    write_data("retrieval", 6, ids, (const int[]){1, 3});
    for (int place = 0; place < DROPOUT_PLACES; place++) {
        Fixture x;
        State s;
        Arena a = {0};
        Err err;
        open_fixture(&x, "retrieval", "", where[place], ",\"batch\":1");
        state_layout(&s, &a, &x.c.model.params, false);
        assert_true(arena_open(&a, a.used, &err));
        state_layout(&s, &a, &x.c.model.params, false);
        params_init(s.params, s.w, SEED);
        real *grads = mem_alloc(s.params->total, sizeof *grads);
        gradients(&x, &s, grads);
        check_places(&s, grads, place);
        mem_free(grads);
        arena_close(&a);
        fixture_close(&x);
    }
}

/* ---- masks ---- */

static void is_masked(const Sample *s, int document, const char *masked) {
    enum { N = 10 };
    char found[N + 1] = "";
    assert_int_equal(s->length[document], N);
    for (int i = 0; i < N; i++) found[i] = s->ids[document][i] == TOKEN_MASKED ? 'x' : '.';
    if (strcmp(found, masked) != 0)
        fail_msg("example %d: %s, expected %s", s->number, found, masked);
}

#define MASKED ",\"objective\":\"masked\",\"mask\":0.3"

static void masks(void **state) {
    Fixture x;
    int ids[10];
    (void)state;
    count_up(ids, 10);
    write_data("text", 18, ids, (const int[]){10, 0});
    open_fixture(&x, "text", TEXT_HOLDOUT, "", ",\"batch\":2" MASKED);
    const Sample *s = x.f.batch.samples;
    loader_train(&x.f, UPDATE, 0);
    for (int i = 0; i < 2; i++) is_masked(&s[i], 0, stream_mask_train[i]);
    loader_split(&x.f, SPLIT_TRAIN, 0); /* as cast_eval sees them: of no epoch */
    is_masked(&s[1], 0, stream_mask_evaluated[0]);
    loader_split(&x.f, SPLIT_VAL, 0);
    is_masked(&s[1], 0, stream_mask_val[0]);
    loader_split(&x.f, SPLIT_TEST, 0);
    is_masked(&s[1], 0, stream_mask_test[0]);
    fixture_close(&x);
}

static void masks_of_pairs(void **state) {
    Fixture x;
    int ids[10];
    (void)state;
    count_up(ids, 10);
    write_data("retrieval", 6, ids, (const int[]){10, 10});
    open_fixture(&x, "retrieval", "", "", ",\"batch\":1" MASKED);
    const Sample *s = x.f.batch.samples;
    for (int j = 0; j < 2; j++) {
        loader_train(&x.f, UPDATE, 0);
        is_masked(&s[0], j, stream_mask_train_pair[j]);
        loader_split(&x.f, SPLIT_TEST, 1);
        is_masked(&s[0], j, stream_mask_test_pair[j]);
    }
    fixture_close(&x);
}

/* ---- augmentation ---- */

/* The update's example, of a task whose documents all are these ids. */
static void open_augmented(Fixture *x, const char *task, const char *data, const int *ids,
                           const int length[2]) {
    char all[128];
    snprintf(all, sizeof all, ",\"augment\":true%s", data);
    write_data(task, 6, ids, length);
    open_fixture(x, task, all, "", ",\"batch\":1");
    loader_train(&x->f, UPDATE, 0);
}

static void augmented_is(const char *task, const char *data, const int *ids, int n,
                         const int *want) {
    Fixture x;
    open_augmented(&x, task, data, ids, (const int[]){n, 0});
    assert_int_equal(x.f.batch.samples[0].length[0], n);
    assert_memory_equal(x.f.batch.samples[0].ids[0], want, (size_t)n * sizeof *want);
    fixture_close(&x);
}

static void pictures(void **state) {
    int ids[25];
    (void)state;
    count_up(ids, 25);
    augmented_is("image", ",\"shift\":2", ids, 25, stream_shifted);
    augmented_is("pathfinder", "", ids, 9, stream_symmetric);
}

static void arguments(void **state) {
    enum { D = LISTOPS_DIGIT, N = 10 };
    static const int ids[N] = {LISTOPS_MIN, D + 1, D + 2,         LISTOPS_MAX, D + 3,
                               D + 4,       D + 5, LISTOPS_CLOSE, D + 6,       LISTOPS_CLOSE};
    int want[N];
    (void)state;
    for (int i = 0; i < N; i++) want[i] = ids[stream_shuffled[i]];
    augmented_is("listops", "", ids, N, want);
}

static void lost_tokens(void **state) {
    Fixture x;
    int ids[10];
    (void)state;
    count_up(ids, 10);
    open_augmented(&x, "retrieval", ",\"drop\":0.4", ids, (const int[]){10, 10});
    for (int j = 0; j < 2; j++) is_masked(&x.f.batch.samples[0], j, stream_lost[j]);
    fixture_close(&x);
}

/* ---- cast_bench --approximation ---- */

static void random_approximation(void **state) {
    Fixture x;
    Approximation a;
    Err err;
    int ids[] = {1, 2, 3};
    (void)state;
    write_data("listops", 6, ids, (const int[]){3, 0});
    open_fixture(&x, "listops", "",
                 ",\"max_length\":5,\"attention\":{\"type\":\"local\",\"window\":2}",
                 ",\"batch\":1");
    assert_true(approximate_random(&a, &x.c, 3, &err));
    for (int layer = 0; layer < 2; layer++) {
        const Nearness near = approximation_block(&a, layer);
        assert_true(fabs(nearness_error(&near) - stream_approximation[layer]) < 1e-5);
    }
    approximation_free(&a);
    fixture_close(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_values),
        cmocka_unit_test(order_of_epochs),
        cmocka_unit_test(held_out_reviews),
        cmocka_unit_test(dropout_of_a_pair),
        cmocka_unit_test(masks),
        cmocka_unit_test(masks_of_pairs),
        cmocka_unit_test(pictures),
        cmocka_unit_test(arguments),
        cmocka_unit_test(lost_tokens),
        cmocka_unit_test(random_approximation),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
