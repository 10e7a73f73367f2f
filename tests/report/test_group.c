#include "report/figures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "data/task.h"
#include "report/keys.h"
#include "report/papers.h"
#include "report/runs.h"

/* Three seeds of 4 clusters, one of them not finished; 16 clusters; full attention, failed at once;
 * another task. Keys in another order and those that change nothing are no difference. */
static void make_sweep(void) {
    static bool made;
    if (made) return;
    made = true;
    scratch_mkdir("sweep");
    scratch_mkdir("sweep/deep");
    scratch_mkdir("sweep/empty");
    make_run("sweep/a1", CONFIG("listops", CAST(4), "\"seed\": 1, \"log_every\": 5"),
             DONE(0.5, 0.25, 0.375));
    make_run("sweep/a2", CONFIG("listops", CAST(4), "\"log_every\": 7, \"seed\": 2"),
             DONE(0.25, 0.25, 0.125));
    make_run("sweep/deep/a3", CONFIG("listops", CAST(4), "\"seed\": 3"),
             TRAIN(4, 2, 1) VAL(2, 0.75, 1) VAL(4, 0.5, 1));
    make_run("sweep/b", CONFIG("listops", CAST(16), "\"seed\": 1"), DONE(0.625, 0.375, 0.125));
    make_run("sweep/c", CONFIG("listops", FULL, "\"seed\": 1"), NULL);
    make_run("sweep/d", CONFIG("image", CAST(8), "\"seed\": 1"), DONE(0.5, 0.5, 0.5));
}

static void test_groups(void **state) {
    (void)state;
    Groups g;
    make_sweep();
    RunSet set = read_all("sweep");
    assert_int_equal(set.n, 6);
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 4);
    assert_true(g.tasks);
    const int runs[] = {3, 1, 1, 1};
    const char *clusters[] = {"4", "16", NULL, "8"};
    for (int i = 0; i < 4; i++) {
        const char *value = group_value(&g.group[i], "model.attention.clusters");
        assert_int_equal(g.group[i].n, runs[i]);
        assert_true(clusters[i] ? value && !strcmp(value, clusters[i]) : !value);
    }
    assert_string_equal(g.group[3].task, "image");
    /* The mechanism is told by the type, and differs in nothing else. */
    assert_int_equal(g.nkeys, 2);
    assert_string_equal(g.key[0], "model.attention.type");
    assert_string_equal(g.key[1], "model.attention.clusters");
    assert_string_equal(group_key_title(&g, g.key[0]), "attention");
    assert_string_equal(group_key_title(&g, g.key[1]), "clusters");
    char *label = group_label(&g, &g.group[1], NULL);
    assert_string_equal(label, "listops, attention cast, clusters 16");
    mem_free(label);
    label = group_label(&g, &g.group[1], "model.attention.clusters");
    assert_string_equal(label, "listops, attention cast");
    mem_free(label);
    groups_free(&g);
    runs_free(&set);
}

static void test_each(void **state) {
    (void)state;
    Groups g;
    make_sweep();
    RunSet set = read_all("sweep");
    groups_make(&g, &set, true);
    assert_int_equal(g.n, 6);
    char *label = group_label(&g, &g.group[2], NULL);
    assert_string_equal(label, "deep/a3");
    mem_free(label);
    groups_free(&g);
    runs_free(&set);
}

static void test_keys_that_are_missing(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("versions");
    make_run("versions/old", CONFIG("listops", CAST(4), "\"seed\": 1"), NULL);
    make_run("versions/same", CONFIG("listops", CAST(4), "\"seed\": 2, \"clip\": 0"), NULL);
    make_run("versions/new", CONFIG("listops", CAST(4), "\"seed\": 1, \"clip\": 1"), NULL);
    make_run("versions/of_tomorrow", CONFIG("listops", CAST(4), "\"clip\": 1, \"warp\": 9"), NULL);
    RunSet set = read_all("versions");
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 3);
    assert_int_equal(g.group[0].n + g.group[1].n + g.group[2].n, 4);
    for (int i = 0; i < g.n; i++) {
        const char *clip = group_value(&g.group[i], "train.clip");
        assert_string_equal(clip, g.group[i].n == 2 ? "0" : "1");
    }
    groups_free(&g);
    runs_free(&set);
}

/* What a run may go on with is not always what comes to the same. */
static void test_other_data(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("data");
    make_run("data/a", "{\"task\": \"listops\", \"data\": {\"dir\": \"x\"}}", NULL);
    make_run("data/b", "{\"task\": \"listops\", \"data\": {\"dir\": \"y\"}}", NULL);
    make_run("data/c", CONFIG("listops", FULL, "\"eval_every\": 5, \"save_minutes\": 1"), NULL);
    make_run("data/d", CONFIG("listops", FULL, "\"eval_every\": 6, \"save_minutes\": 1"), NULL);
    make_run("data/e", CONFIG("listops", FULL, "\"eval_every\": 6, \"save_minutes\": 2"), NULL);
    RunSet set = read_all("data");
    groups_make(&g, &set, false);
    assert_int_equal(set.n, 5);
    assert_int_equal(g.n, 4);
    groups_free(&g);
    runs_free(&set);
}

static void test_results(void **state) {
    (void)state;
    Groups g;
    Result r;
    make_sweep();
    RunSet set = read_all("sweep");
    groups_make(&g, &set, false);
    group_result(&r, &g.group[0], false);
    assert_int_equal(r.runs, 3);
    assert_int_equal(r.finished, 2);
    assert_true(r.best.mean == 25 && r.best.least == 12.5 && r.best.most == 37.5);
    assert_true(fabs(r.best.sd - 12.5 * sqrt(2)) < 1e-12); /* of the sample: n - 1 */
    assert_true(r.last.mean == 25 && r.last.sd == 0);
    assert_true(r.validation.mean == 37.5);
    assert_true(r.so_far.mean == 75 && r.so_far.n == 1 && isnan(r.so_far.sd));
    /* 10 updates of 2 in 4 s, twice, and 4 in 1 s. */
    assert_true(fabs(r.samples_per_s.mean - (5 + 5 + 8) / 3.0) < 1e-12);
    assert_true(isnan(r.parameters));
    group_result(&r, &g.group[2], false);
    assert_true(r.runs == 1 && r.finished == 0 && r.best.n == 0 && isnan(r.best.mean));
    assert_true(isnan(r.so_far.mean) && isnan(r.hours.mean));
    groups_free(&g);
    runs_free(&set);
}

#define BITS(kind, step, of, bits)                                                                 \
    "{\"kind\": \"" kind "\", \"step\": " #step of                                                 \
    ", \"accuracy\": 0.5, \"loss\": 1, \"bits\": " #bits "}\n"
#define MASKED(seed) CONFIG("listops", FULL, "\"objective\": \"masked\", \"seed\": " #seed)

static Result result_of(const char *name) {
    Groups g;
    Result r;
    RunSet set = read_all(name);
    groups_make(&g, &set, false);
    group_result(&r, &g.group[0], false);
    groups_free(&g);
    runs_free(&set);
    return r;
}

/* A test and another run's validation have no mean. */
static void test_bits_of_a_part(void **state) {
    (void)state;
    scratch_mkdir("bits");
    make_run("bits/b", MASKED(2), TRAIN(4, 1.5, 4) BITS("val", 4, "", 5));
    assert_true(result_of("bits").bits.mean == 5);
    make_run("bits/a", MASKED(1),
             TRAIN(10, 1.5, 4) BITS("val", 10, "", 3) BITS("test", 10, ", \"which\": \"last\"", 2)
                 BITS("test", 10, ", \"which\": \"best\"", 2));
    const Result r = result_of("bits");
    assert_true(r.finished == 1 && r.bits.n == 1 && r.bits.mean == 2);
}

static const Cell *cell(const Table *t, int row, const char *key) {
    int c = 0;
    while (strcmp(t->columns[c].key, key) != 0) assert_true(++c < t->n);
    return &t->cells[row * t->n + c];
}

static void test_table(void **state) {
    (void)state;
    Groups g;
    Table t;
    make_sweep();
    RunSet set = read_all("sweep");
    groups_make(&g, &set, false);
    results_table(&t, &g, false);
    assert_int_equal(t.rows, 4);
    assert_true(cell(&t, 0, "finished")->mean == 2 && cell(&t, 0, "finished")->sd == 3);
    assert_true(cell(&t, 0, "unfinished_validation_percent")->mean == 75);
    assert_true(cell(&t, 2, "finished")->mean == 0 && cell(&t, 2, "finished")->sd == 1);
    assert_string_equal(cell(&t, 1, "model.attention.clusters")->text, "16");
    /* Embedding, two blocks and head as config_load makes them of these keys. */
    assert_true(cell(&t, 0, "parameters")->mean > 1000);
    assert_true(cell(&t, 0, "gflop_per_sample")->mean > 0);
    table_free(&t);
    groups_free(&g);
    runs_free(&set);
}

static const Column *column(const Table *t, const char *key) {
    int c = 0;
    while (strcmp(t->columns[c].key, key) != 0) assert_true(++c < t->n);
    return &t->columns[c];
}

/* Keys that differ between no rows, between the runs of one, or that some rows have not. */
static void test_all_keys(void **state) {
    (void)state;
    Groups g;
    Table t;
    Err err;
    make_sweep();
    RunSet set = read_all("sweep");
    groups_make(&g, &set, false);
    results_table(&t, &g, true);
    assert_string_equal(column(&t, "model.d")->title, "d");
    assert_string_equal(column(&t, "train.epochs")->title, "train.epochs");
    assert_string_equal(cell(&t, 0, "model.d")->text, "16");
    assert_string_equal(cell(&t, 0, "train.seed")->text, "1 and others");
    assert_string_equal(cell(&t, 1, "train.seed")->text, "1");
    assert_string_equal(cell(&t, 0, "model.attention.mechanism")->text, "topk");
    assert_null(cell(&t, 2, "model.attention.mechanism")->text);
    assert_true(table_select(&t, "clusters,model.d,seed", &err));
    assert_int_equal(t.n, 3);
    table_free(&t);
    groups_free(&g);
    runs_free(&set);
}

static void found(const char *name, const char *key) {
    cJSON *values = cJSON_Parse("{\"a\": \"1\", \"b.a\": \"1\", \"b.x\": \"1\", \"c.x\": \"2\"}");
    const Groups g = {.group = &(Group){.values = values}, .n = 1};
    Err err;
    const char *got = keys_find(&g, name, "over", &err);
    assert_true(key ? got && !strcmp(got, key) : !got && err.code == EX_USAGE);
    cJSON_Delete(values);
}

/* A whole name is meant before a last part, and a last part that two have is neither. */
static void test_names_of_keys(void **state) {
    (void)state;
    found("a", "a");
    found("b.a", "b.a");
    found("b.x", "b.x");
    found("x", NULL);
    found("b", NULL);
}

static void test_spread(void **state) {
    (void)state;
    const double x[] = {2, NAN, 4, 9};
    Spread s = spread_of(x, 4);
    assert_true(s.n == 3 && s.mean == 5 && s.least == 2 && s.most == 9);
    assert_true(fabs(s.sd - sqrt(13)) < 1e-12);
    s = spread_of(x, 1);
    assert_true(s.n == 1 && s.mean == 2 && isnan(s.sd));
    s = spread_of(x + 1, 1);
    assert_true(s.n == 0 && isnan(s.mean) && isnan(s.least));
}

/* ---- published figures ---- */

static const Paper *paper(const char *model) {
    for (int i = 0; papers[i].model; i++)
        if (!strcmp(papers[i].model, model)) return &papers[i];
    fail_msg("no %s", model);
    return NULL;
}

/* As the sources print them, but for Sinkhorn's, which is not the mean of its row. */
static void test_published_means(void **state) {
    (void)state;
    const struct {
        const char *model;
        double five, six; /* 0: not printed */
    } printed[] = {{"Transformer", 54.39, 53.66},
                   {"Local Attention", 46.06, 0},
                   {"Sparse Transformer", 51.24, 0},
                   {"Longformer", 53.46, 0},
                   {"Linformer", 51.36, 0},
                   {"Reformer", 50.67, 0},
                   {"Synthesizer", 52.88, 0},
                   {"BigBird", 55.01, 0},
                   {"Linear Transformer", 50.55, 0},
                   {"Performer", 51.41, 0},
                   {"Luna-256", 61.95, 0},
                   {"Luna-256 (S4's figures)", 0, 59.37},
                   {"Nyströmformer", 58.95, 57.46},
                   {"Transformer (MEGA's)", 59.24, 0},
                   {"S4-v1", 0, 80.48},
                   {"S4-v2", 0, 86.09},
                   {"MEGA", 0, 88.21},
                   {"MEGA-chunk", 0, 85.66},
                   {"FNet", 0, 54.42},
                   {"CAST Top-K", 0, 59.32},
                   {"CAST SA Top-K", 0, 57.57},
                   {"TLB", 66.48, 0}};
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        const Paper *p = paper(printed[i].model);
        const double five = papers_mean_of_five(p->accuracy), six = papers_mean_of_six(p->accuracy);
        if (printed[i].five > 0 && fabs(five - printed[i].five) > 0.011)
            fail_msg("%s: %.3f", p->model, five);
        if (printed[i].six > 0 && fabs(six - printed[i].six) > 0.011)
            fail_msg("%s: %.3f", p->model, six);
    }
    for (int i = 0; papers[i].model; i++) assert_true(papers[i].source && papers[i].source[0]);
}

static void test_means_need_all_cells(void **state) {
    (void)state;
    const double whole[PAPER_TASKS] = {10, 20, 30, 40, 50, 60},
                 failed[PAPER_TASKS] = {10, 20, 30, 40, 50, PAPER_FAIL},
                 missing[PAPER_TASKS] = {10, 20, 30, 40, 50, NAN},
                 lacks[PAPER_TASKS] = {10, NAN, 30, 40, 50, 60},
                 none[PAPER_TASKS] = {10, 20, PAPER_NONE, 40, 50, 60};
    assert_true(papers_mean_of_five(whole) == 30 && papers_mean_of_six(whole) == 35);
    assert_true(papers_mean_of_five(failed) == 30);
    assert_true(fabs(papers_mean_of_six(failed) - 200 / 6.0) < 1e-12);
    assert_true(fabs(papers_mean_of_six(missing) - 200 / 6.0) < 1e-12);
    assert_true(isnan(papers_mean_of_five(lacks)) && isnan(papers_mean_of_six(lacks)));
    assert_true(isnan(papers_mean_of_five(none)));
}

/* Of 16 clusters one seed is finished, which did better in validation than two of 4 clusters. */
static void test_ours_beside(void **state) {
    (void)state;
    Groups g;
    Table t;
    make_sweep();
    RunSet set = read_all("sweep");
    groups_make(&g, &set, false);
    papers_table(&t, &g);
    const int cast = t.rows - 3, last = t.rows - 2, full = t.rows - 1;
    assert_string_equal(cell(&t, cast, "model")->text, "ours: cast topk");
    assert_true(cell(&t, cast, "listops")->mean == 25 && cell(&t, cast, "image")->mean == 50);
    assert_true(isnan(cell(&t, cast, "text")->mean) && !cell(&t, cast, "text")->text);
    assert_true(isnan(cell(&t, cast, "mean_of_5")->mean));
    assert_string_equal(cell(&t, cast, "source")->text, "finished: ListOps 2 of 3, Image 1 of 1");
    assert_string_equal(cell(&t, last, "model")->text, "ours: cast topk, last");
    assert_true(cell(&t, last, "listops")->mean == 25 && cell(&t, last, "image")->mean == 50);
    assert_string_equal(cell(&t, full, "model")->text, "ours: full");
    assert_true(isnan(cell(&t, full, "listops")->mean));
    assert_string_equal(cell(&t, full, "source")->text, "finished: ListOps 0 of 1");
    assert_string_equal(cell(&t, 0, "pathx")->text, "FAIL");
    table_free(&t);
    groups_free(&g);
    runs_free(&set);
}

/* A config of which no run is finished, and a run that never had a finite loss in validation. */
static void test_ours_that_failed(void **state) {
    (void)state;
    Groups g;
    Table t;
    scratch_mkdir("failed");
    make_run("failed/a", CONFIG("listops", CAST(4), "\"seed\": 1"), DONE(0.5, 0.5, 0.5));
    make_run("failed/b", CONFIG("listops", CAST(8), "\"seed\": 1"), NULL);
    make_run("failed/c", CONFIG("image", CAST(8), "\"seed\": 1"),
             TRAIN(10, 1, 1) VAL(10, 0.5, null) TEST(10, "last", 0.25));
    RunSet set = read_all("failed");
    groups_make(&g, &set, false);
    papers_table(&t, &g);
    const int best = t.rows - 2, last = t.rows - 1;
    assert_string_equal(cell(&t, best, "source")->text, "finished: ListOps 1 of 1, Image 1 of 1");
    assert_true(isnan(cell(&t, best, "image")->mean) && cell(&t, last, "image")->mean == 25);
    assert_int_equal(t.nnotes, 4);
    assert_non_null(strstr(t.notes[2], "several configs of a task"));
    assert_string_equal(t.notes[3], "ours: cast topk: ListOps clusters 4, of 2 configs");
    table_free(&t);
    groups_free(&g);
    runs_free(&set);
}

/* One lucky seed of 4 clusters, two of 8 and of 16; of full attention one of each. */
static void test_ours_of_several_seeds(void **state) {
    (void)state;
    Groups g;
    Table t;
    scratch_mkdir("lucky");
    make_run("lucky/a", CONFIG("listops", CAST(4), "\"seed\": 1"), DONE(0.75, 0.75, 0.75));
    make_run("lucky/b", CONFIG("listops", CAST(8), "\"seed\": 1"), DONE(0.375, 0.5, 0.5));
    make_run("lucky/c", CONFIG("listops", CAST(8), "\"seed\": 2"), DONE(0.5, 0.25, 0.25));
    make_run("lucky/d", CONFIG("listops", CAST(16), "\"seed\": 1"), DONE(0.25, 0.875, 0.875));
    make_run("lucky/e", CONFIG("listops", CAST(16), "\"seed\": 2"), DONE(0.25, 0.875, 0.875));
    make_run("lucky/f", CONFIG("listops", FULL, "\"lr\": 1"), DONE(0.5, 0.125, 0.125));
    make_run("lucky/g", CONFIG("listops", FULL, "\"lr\": 2"), DONE(0.25, 0.625, 0.625));
    RunSet set = read_all("lucky");
    groups_make(&g, &set, false);
    papers_table(&t, &g);
    const int cast = t.rows - 4, full = t.rows - 2;
    assert_string_equal(cell(&t, cast, "source")->text, "finished: ListOps 2 of 2");
    assert_true(cell(&t, cast, "listops")->mean == 37.5);
    assert_true(cell(&t, full, "listops")->mean == 12.5);
    assert_string_equal(t.notes[t.nnotes - 2], "ours: cast topk: ListOps clusters 8, of 3 configs");
    assert_string_equal(t.notes[t.nnotes - 1], "ours: full: ListOps lr 1, of 2 configs");
    table_free(&t);
    groups_free(&g);
    runs_free(&set);
}

/* Of 20,000 examples: chance is 50 +- 0.71. Of half of them it is left out, and has not failed. */
static void test_a_pathx_at_chance(void **state) {
    static const char *const pathx[] = {"0.507", "0.508", "0.9"};
    static const double counted[] = {50, 50.8, NAN};
    (void)state;
    for (int i = 0; i < 3; i++) {
        Groups g;
        Table t;
        char metrics[512], name[32], config[256], run[64];
        snprintf(name, sizeof name, "chance%d", i);
        scratch_mkdir(name);
        for (int task = 0; task < PAPER_TASKS; task++) {
            const bool last = task == PAPER_TASKS - 1;
            snprintf(config, sizeof config, CONFIG("%s", CAST(4), "\"seed\": 1"),
                     paper_tasks[task]);
            snprintf(metrics, sizeof metrics,
                     TRAIN(10, 1, 1) VAL(10, 0.5, 1) TEST(
                         10, "last", 0.5) "{\"kind\": \"test\", \"step\": 10, \"which\": \"best\", "
                                          "\"accuracy\": %s, \"loss\": 1, \"count\": %d}\n",
                     last ? pathx[i] : "0.25",
                     task_find(paper_tasks[task])->official[SPLIT_TEST] >> (last && i == 2));
            snprintf(run, sizeof run, "%s/%s", name, paper_tasks[task]);
            make_run(run, config, metrics);
        }
        RunSet set = read_all(name);
        groups_make(&g, &set, false);
        papers_table(&t, &g);
        assert_true(fabs(cell(&t, t.rows - 2, "mean_of_5")->mean - 25) < 1e-9);
        const double six = cell(&t, t.rows - 2, "mean_of_6")->mean;
        assert_true(isnan(counted[i]) ? isnan(six) : fabs(six - (125 + counted[i]) / 6) < 1e-9);
        table_free(&t);
        groups_free(&g);
        runs_free(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_keys_that_are_missing),
        cmocka_unit_test(test_other_data),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_bits_of_a_part),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_names_of_keys),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_published_means),
        cmocka_unit_test(test_means_need_all_cells),
        cmocka_unit_test(test_ours_beside),
        cmocka_unit_test(test_ours_that_failed),
        cmocka_unit_test(test_ours_of_several_seeds),
        cmocka_unit_test(test_a_pathx_at_chance),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
