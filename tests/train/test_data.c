/* Where a run's examples come from: validation that is held out of train, and data of one's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "data/dataset.h"
#include "draws.h"
#include "scratch.h"
#include "train/loader.h"
#include "train/train.h"

enum { LENGTH = 9, TRAIN = 41, VAL = 6, TEST = 7 };

static DatasetWriter *make_split(const char *task, int split, int vocab, int classes, bool pairs) {
    static const int examples[SPLITS] = {TRAIN, VAL, TEST};
    DatasetWriter *w = dataset_writer(task, split_names[split], "a test", vocab, classes, pairs);
    Draws d = draws_open(split_names[split], 1);
    for (int i = 0; i < examples[split]; i++) {
        int ids[LENGTH], n = i == 0 ? LENGTH : draw_int(&d, 1, LENGTH);
        for (int j = 0; j < n; j++) ids[j] = draw_int(&d, 0, vocab - 1);
        const int document = dataset_add_document(w, ids, n);
        dataset_add_example(w, draw_int(&d, 0, classes - 1), document,
                            pairs ? draw_int(&d, 0, document) : -1);
    }
    return w;
}

static void make_data(const char *dir, const char *task, int vocab, int classes, bool pairs) {
    DatasetWriter *w[SPLITS];
    Err err;
    for (int s = 0; s < SPLITS; s++) w[s] = make_split(task, s, vocab, classes, pairs);
    if (!dataset_write_splits(w, scratch(dir), &err)) fail_msg("%s", err.text);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
}

/* `data` and `model` are the insides of these sections, beside what all have. */
static bool load(Config *c, const char *task, const char *dir, const char *data, const char *model,
                 Err *err) {
    char text[2048];
    const int n = snprintf(
        text, sizeof text,
        "{\"task\":\"%s\",\"data\":{\"dir\":\"%s\"%s},\"model\":{\"depth\":1,\"heads\":2,\"d\":8,"
        "\"d_ff\":8,\"d_emb\":8,\"attention\":{\"clusters\":3}%s},"
        "\"train\":{\"batch\":4,\"steps\":6,\"eval_every\":3}}",
        task, scratch(dir), data, model);
    *err = (Err){0};
    return config_load(c, scratch_write("config.json", text, (size_t)n), NULL, 0, err);
}

static void open_text(Config *c, Loader *f, const char *data) {
    Err err;
    if (!load(c, "text", "text", data, ",\"max_length\":9", &err) || !loader_open(f, c, &err))
        fail_msg("%s", err.text);
}

static void close_text(Config *c, Loader *f) {
    loader_close(f);
    config_free(c);
}

/* Which training examples validate; train has the others, and both are in the file's order. */
static void read_held(const char *data, int held[TRAIN], int expected) {
    Config c;
    Loader f;
    open_text(&c, &f, data);
    assert_int_equal(f.examples[SPLIT_VAL], expected);
    assert_int_equal(f.examples[SPLIT_TRAIN], TRAIN - expected);
    assert_int_equal(f.examples[SPLIT_TEST], TEST);
    memset(held, 0, TRAIN * sizeof *held);
    for (int i = 0; i < expected; i++) {
        const int index = loader_index(&f, SPLIT_VAL, i);
        assert_true(i == 0 || index > loader_index(&f, SPLIT_VAL, i - 1));
        held[index] = 1;
    }
    for (int i = 0, at = 0; i < TRAIN; i++)
        if (!held[i]) assert_int_equal(loader_index(&f, SPLIT_TRAIN, at++), i);
    close_text(&c, &f);
}

static void test_holdout(void **state) {
    int first[TRAIN], other[TRAIN];
    (void)state;
    make_data("text", "text", 257, 2, false);
    read_held("", first, 4); /* a tenth of 41 */
    read_held(",\"holdout\":0.1,\"holdout_seed\":1", other, 4);
    assert_memory_equal(first, other, sizeof first);
    read_held(",\"holdout_seed\":2", other, 4);
    assert_memory_not_equal(first, other, sizeof first);
    read_held(",\"holdout\":0.5", other, 21);
    for (int i = 0; i < TRAIN; i++) assert_true(other[i] >= first[i]); /* more of the same */
    read_held(",\"holdout\":0.02", other, 1);
}

/* What is held out is never trained on, and is what validation reads; val.safetensors is not. */
static void test_batches_of_views(void **state) {
    Config c;
    Loader f;
    Arena a = {0};
    Err err;
    int held[TRAIN], seen[TRAIN] = {0};
    (void)state;
    make_data("text", "text", 257, 2, false);
    read_held(",\"holdout\":0.3", held, 12);
    open_text(&c, &f, ",\"holdout\":0.3");
    loader_layout(&f, &a);
    assert_true(arena_open(&a, a.used, &err));
    loader_layout(&f, &a);
    const int64_t updates = loader_updates_per_epoch(&f);
    assert_int_equal(updates, 7);
    for (int64_t u = 1; u <= updates; u++) {
        loader_train(&f, u, 0);
        for (int i = 0; i < f.batch.n; i++) {
            const int example = f.batch.examples[i];
            assert_false(held[example] || seen[example]++);
            assert_int_equal(f.batch.samples[i].label, f.split[SPLIT_TRAIN].labels[example]);
        }
    }
    for (int from = 0; from < 12; from += f.batch.n) {
        loader_split(&f, SPLIT_VAL, from);
        for (int i = 0; i < f.batch.n; i++) {
            const int example = f.batch.examples[i];
            assert_int_equal(held[example]--, 1);
            assert_int_equal(f.batch.samples[i].length[0],
                             dataset_length(&f.split[SPLIT_TRAIN], example));
        }
    }
    for (int i = 0; i < TRAIN; i++) assert_int_equal(held[i], 0);
    arena_close(&a);
    close_text(&c, &f);
}

/* As the Long Range Arena did it. */
static void test_no_holdout(void **state) {
    Config c;
    Loader f;
    (void)state;
    make_data("text", "text", 257, 2, false);
    open_text(&c, &f, ",\"holdout\":0");
    assert_int_equal(f.examples[SPLIT_TRAIN], TRAIN);
    assert_int_equal(f.examples[SPLIT_VAL], VAL);
    assert_int_equal(loader_index(&f, SPLIT_VAL, 5), 5);
    assert_string_equal(st_meta(&f.split[SPLIT_VAL].file, "split"), "val");
    close_text(&c, &f);
}

static void refuse(const char *task, const char *dir, const char *data, int code,
                   const char *what) {
    Config c;
    Loader f;
    Err err;
    if (load(&c, task, dir, data, "", &err)) {
        assert_false(loader_open(&f, &c, &err));
    }
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    assert_int_equal(err.code, code);
    config_free(&c);
}

static void test_refusals(void **state) {
    (void)state;
    make_data("text", "text", 257, 2, false);
    refuse("text", "text", ",\"holdout\":0.51", EX_CONFIG, "data.holdout");
    refuse("text", "text", ",\"holdout\":-0.1", EX_CONFIG, "data.holdout");
    refuse("text", "text", ",\"holdout\":true", EX_CONFIG, "data.holdout");
    refuse("text", "text", ",\"holdout\":0.01", EX_CONFIG, "leaves nothing to validate on");
    make_data("listops", "listops", 16, 10, false);
    refuse("listops", "listops", ",\"holdout\":0.1", EX_CONFIG, "'data.holdout' is unknown");
    refuse("custom", "nowhere", "", EX_NOINPUT, "task custom reads its sizes from the data: ");
    make_data("mixed", "custom", 30, 3, false);
    DatasetWriter *w = make_split("custom", SPLIT_VAL, 30, 4, false);
    Err err;
    assert_true(dataset_write(w, scratch("mixed/val.safetensors"), &err));
    dataset_writer_free(w);
    refuse("custom", "mixed", "", EX_DATAERR, "val.safetensors: vocabulary 30, 4 classes");
}

/* Sizes come from the metadata, the longest sequence from train; a few updates, and a test. */
static void train_custom(int vocab, int classes, bool pairs) {
    Config c;
    Err err;
    TrainEnd end;
    make_data("own", "of my own", vocab, classes, pairs);
    if (!load(&c, "custom", "own", "", "", &err)) fail_msg("%s", err.text);
    const ModelTask *m = &c.model.task;
    assert_int_equal(m->vocab, vocab);
    assert_int_equal(m->classes, classes);
    assert_int_equal(m->per_example, pairs ? 2 : 1);
    assert_int_equal(c.model.conf.max_length, LENGTH);
    scratch_remove(scratch("run"));
    const TrainRequest r = {.dir = scratch("run"), .command = "a test"};
    if (!train_run(&c, &r, &end, &err)) fail_msg("%s", err.text);
    assert_int_equal(end, TRAIN_DONE);
    assert_true(file_exists(scratch("run/best.safetensors")));
    config_free(&c);
}

static void test_custom(void **state) {
    (void)state;
    train_custom(2, 2, false);
    train_custom(300, 7, false);
    train_custom(40, 3, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holdout),    cmocka_unit_test(test_batches_of_views),
        cmocka_unit_test(test_no_holdout), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_custom),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
