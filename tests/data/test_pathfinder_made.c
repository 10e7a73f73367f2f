#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/lanes.h"
#include "data/dataset.h"
#include "data/import.h"
#include "data/pathfinder_tree.h"
#include "data/task.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE };

static bool generate(const char *task, const TaskRequest *r, Err *err) {
    return task_generate(task_find(task), r, err);
}

/* What is written as official files is what is in the splits: test, validation, train. */
static void test_export(void **state) {
    TaskRequest r = {.out = scratch("made"), .seed = 5, .train = 1010, .val = 6, .test = 4};
    Err err = {0};
    (void)state;
    r.settings[r.nsettings++] = (TaskSetting){"png", scratch("tree")};
    r.settings[r.nsettings++] = (TaskSetting){"difficulty", "easy"};
    if (!generate("pathfinder", &r, &err)) fail_msg("%s", err.text);
    Tree *t = tree_open(scratch("tree"), SIDE, &err);
    if (!t) fail_msg("%s", err.text);
    assert_int_equal(tree_count(t), 1020);
    for (int s = 0, i = 0; s < SPLITS; s++) {
        static const int order[SPLITS] = {SPLIT_TEST, SPLIT_VAL, SPLIT_TRAIN};
        Dataset d;
        import_open(&d, scratch("made"), order[s]);
        for (int k = 0; k < d.examples; k++, i++) {
            unsigned char p[PIXELS];
            bool empty;
            if (!tree_pixels(t, i, p, &empty, &err)) fail_msg("%s", err.text);
            assert_false(empty);
            assert_memory_equal(p, d.tokens8 + (size_t)k * PIXELS, PIXELS);
            assert_int_equal(tree_sample(t, i).label, d.labels[k]);
            assert_int_equal(tree_sample(t, i).batch, i / 1000);
        }
        dataset_close(&d);
    }
    tree_close(t);
    size_t n;
    char *rows = (char *)scratch_read(scratch("tree/metadata/1.npy"), &n);
    assert_int_equal(strncmp(rows, "imgs/1 sample_0.png 0 ", 22), 0);
    assert_int_equal(strncmp(rows + 23, " 1.0 6 2 2 0.5 1 1\n", 19), 0);
    free(rows);
    /* A smaller one in its place has no list of the larger one. */
    r.train = 10;
    if (!generate("pathfinder", &r, &err)) fail_msg("%s", err.text);
    t = tree_open(scratch("tree"), SIDE, &err);
    if (!t) fail_msg("%s", err.text);
    assert_int_equal(tree_count(t), 20);
    tree_close(t);
    scratch_write("tree/metadata/7.npy", "mine", 4);
    assert_false(generate("pathfinder", &r, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_true(file_exists(scratch("tree/metadata/0.npy")));
}

static void expect_refused(const char *task, const char *name, const char *value, bool importing,
                           const char *what) {
    TaskRequest r = {.from = scratch("text"), .out = scratch("never"), .train = 1};
    Err err = {0};
    r.settings[r.nsettings++] = (TaskSetting){name, value};
    bool ok = importing ? task_import(task_find(task), &r, &err) : generate(task, &r, &err);
    assert_false(ok);
    assert_int_equal(err.code, EX_USAGE);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
}

static void test_settings(void **state) {
    (void)state;
    expect_refused("pathfinder", "side", "48", false, "32, 64, 128 or 256, got '48'");
    expect_refused("pathfinder", "side", "x", false, "--side");
    expect_refused("pathfinder", "side", "48", true, "32, 64, 128 or 256");
    expect_refused("pathfinder", "difficulty", "harder", false, "easy, intermediate or hard");
    expect_refused("pathfinder", "distractors", "65", false, "--distractors");
    expect_refused("pathfinder", "distractors", "-1", false, "--distractors");
    expect_refused("pathfinder", "contrast", "0", false, "--contrast");
    expect_refused("pathfinder", "as-released", "", false, "is about side 128, not 32");
    expect_refused("pathx", "png", "x", true, "import pathx takes no --png");
    expect_refused("listops", "side", "32", false, "generate listops takes no --side");
    expect_refused("image", "side", "32", true, "import image takes no --side");
}

static void test_pathx(void **state) {
    TaskRequest r = {.out = scratch("px"), .seed = 1, .train = 4, .val = 1, .test = 1};
    Err err = {0};
    Dataset d;
    (void)state;
    if (!generate("pathx", &r, &err)) fail_msg("%s", err.text);
    import_open(&d, scratch("px"), SPLIT_TRAIN);
    assert_int_equal(dataset_length(&d, 0), 16384);
    assert_non_null(strstr(st_meta(&d.file, "source"), "8 distractors, contrast 0.9"));
    dataset_close(&d);
    r.settings[r.nsettings++] = (TaskSetting){"as-released", ""};
    r.out = scratch("px2");
    if (!generate("pathx", &r, &err)) fail_msg("%s", err.text);
    import_open(&d, scratch("px2"), SPLIT_TRAIN);
    assert_non_null(strstr(st_meta(&d.file, "source"), "17 distractors, contrast 0.7"));
    dataset_close(&d);
    r.settings[r.nsettings++] = (TaskSetting){"distractors", "0"};
    r.settings[0] = (TaskSetting){"side", "64"};
    r.settings[r.nsettings++] = (TaskSetting){"difficulty", "easy"};
    r.out = scratch("px3");
    if (!generate("pathx", &r, &err)) fail_msg("%s", err.text);
    import_open(&d, scratch("px3"), SPLIT_TRAIN);
    assert_int_equal(dataset_length(&d, 0), 64 * 64);
    assert_non_null(strstr(st_meta(&d.file, "source"), "6 paddles, 0 distractors"));
    dataset_close(&d);
}

static void test_difficulties(void **state) {
    static const char *const grades[][2] = {
        {"easy", ", 6 paddles,"}, {"intermediate", ", 9 paddles,"}, {"hard", ", 14 paddles,"}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        TaskRequest r = {.out = scratch(grades[i][0]), .seed = 1, .train = 1, .val = 1, .test = 1};
        Err err = {0};
        Dataset d;
        r.settings[r.nsettings++] = (TaskSetting){"difficulty", grades[i][0]};
        if (!generate("pathfinder", &r, &err)) fail_msg("%s", err.text);
        import_open(&d, r.out, SPLIT_TRAIN);
        assert_non_null(strstr(st_meta(&d.file, "source"), grades[i][1]));
        dataset_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_difficulties),
        cmocka_unit_test(test_pathx),
    };
    lanes_open(1);
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
