#include "report/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "report/figures.h"
#include "report/runs.h"

/* ---- which runs are one recipe ---- */

/* The same config and seed twice is one result, not two. */
static void test_copies(void **state) {
    (void)state;
    Groups g;
    Result r;
    scratch_mkdir("copies");
    make_run("copies/a", CONFIG("listops", CAST(4), "\"seed\": 1"), TRAIN(4, 2, 1));
    make_run("copies/b", CONFIG("listops", CAST(4), "\"seed\": 1"), DONE(0.5, 0.5, 0.5));
    make_run("copies/c", CONFIG("listops", CAST(4), "\"seed\": 1, \"log_every\": 3"),
             DONE(0.5, 0.5, 0.5));
    make_run("copies/d", CONFIG("listops", CAST(4), "\"seed\": 2"), DONE(0.5, 0.5, 0.25));
    RunSet set = read_all("copies");
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 1);
    group_result(&r, &g.group[0], false);
    assert_true(r.runs == 2 && r.finished == 2 && r.best.mean == 37.5);
    groups_free(&g);
    groups_make(&g, &set, true);
    assert_int_equal(g.n, 4);
    groups_free(&g);
    runs_free(&set);
}

#define INIT(run, file, d, seed)                                                                   \
    "\"init\": {\"file\": \"" run "/" file                                                         \
    "\", \"config\": {\"task\": \"listops\", \"model\": {\"d\": " #d                               \
    "}, \"train\": {\"seed\": " #seed "}}}"

static void begun(const char *name, const char *seed, const char *init, const char *env,
                  const char *metrics) {
    char train[128], config[512], file[128];
    snprintf(train, sizeof train, "\"seed\": %s, \"init\": \"%s\"", seed, init);
    snprintf(
        config, sizeof config,
        "{\"task\": \"listops\", \"data\": {\"dir\": \"x\"}, \"model\": {\"attention\": {" CAST(
            4) "}}, \"train\": {\"steps\": 10, %s}}",
        train);
    make_run(name, config, metrics);
    snprintf(file, sizeof file, "%s/env.json", name);
    scratch_write(file, env, strlen(env));
}

#define STAGES(run, d, seed)                                                                       \
    "\"init\": {\"file\": \"" run "-hard/last.safetensors\", \"config\": {\"task\": \"listops\", " \
    "\"model\": {\"d\": 8}, \"train\": {\"seed\": " #seed ", \"init\": \"" run                     \
    "-easy/last.safetensors\"}}, " INIT(run "-easy", "last.safetensors", d, seed) "}"

/* Seeds of two stages are united where env.json tells of both, and of the first by its recipe too.
 */
static void test_seeds_of_two_stages(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("stages");
    begun("stages/a", "1", "p1", "{" STAGES("p1", 8, 1) "}", DONE(0.5, 0.5, 0.5));
    begun("stages/b", "2", "p2", "{" STAGES("p2", 8, 2) "}", DONE(0.5, 0.5, 0.25));
    begun("stages/c", "3", "q3", "{" STAGES("q3", 9, 3) "}", DONE(0.5, 0.5, 0.25));
    RunSet set = read_all("stages");
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 2);
    assert_int_equal(g.group[0].n, 2);
    groups_free(&g);
    runs_free(&set);
}

/* The weights that runs begin with may be of another seed too; not of another config, nor another
 * file of a run, nor where nothing is known of them. */
static void test_seeds_of_first_weights(void **state) {
    (void)state;
    Groups g;
    Result r;
    scratch_mkdir("begun");
    begun("begun/a", "1", "p1", "{" INIT("p1", "best.safetensors", 8, 1) "}", DONE(0.5, 0.5, 0.5));
    /* gone on with: what it began with is among the processes before */
    begun("begun/b", "2", "p2",
          "{\"earlier\": [{}, {" INIT("p2", "best.safetensors", 8, 2) "}, {}]}",
          DONE(0.5, 0.5, 0.25));
    begun("begun/c", "1", "p2", "{" INIT("p2", "best.safetensors", 8, 2) "}", DONE(0.5, 0.5, 0.75));
    begun("begun/d", "1", "p2", "{" INIT("p2", "best.safetensors", 8, 2) "}", DONE(0.5, 0.5, 0.75));
    begun("begun/e", "1", "q1", "{" INIT("q1", "best.safetensors", 9, 1) "}", DONE(0.5, 0.5, 0.5));
    begun("begun/f", "1", "p1/last", "{" INIT("p1", "last.safetensors", 8, 1) "}",
          DONE(0.5, 0.5, 0.5));
    begun("begun/g", "1", "t1", "{\"init\": {\"file\": \"t1\"}}", DONE(0.5, 0.5, 0.5));
    begun("begun/h", "2", "t2", "{\"init\": {\"file\": \"t2\"}}", DONE(0.5, 0.5, 0.5));
    begun("begun/i", "2", "t2", "{}", DONE(0.5, 0.5, 0.5));
    begun("begun/j", "1", "", "{}", DONE(0.5, 0.5, 0.5));
    RunSet set = read_all("begun");
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 6);
    int three = 0;
    while (g.group[three].n != 3) three++;
    group_result(&r, &g.group[three], false);
    assert_true(r.runs == 3 && r.best.mean == 50 && r.best.sd == 25);
    assert_int_equal(g.nkeys, 1);
    assert_string_equal(g.key[0], "train.init");
    char *label = group_label(&g, &g.group[0], NULL);
    assert_string_equal(label, "no init");
    mem_free(label);
    label = group_label(&g, &g.group[three], NULL);
    assert_string_equal(label, "init p1 and others");
    mem_free(label);
    groups_free(&g);
    runs_free(&set);
}

/* ---- and the same data in different places ---- */

#define HASHES(train) "\"hashes\": {\"train\": \"" train "\", \"val\": \"b\"}"

static void placed(const char *name, const char *place, const char *seed, const char *data) {
    char config[512], file[128], env[256];
    snprintf(config, sizeof config,
             "{\"task\": \"listops\", \"data\": {\"dir\": \"%s\"}, \"model\": {\"attention\": "
             "{" FULL "}}, \"train\": {\"steps\": 10, \"seed\": %s}}",
             place, seed);
    make_run(name, config, DONE(0.5, 0.5, 0.5));
    snprintf(file, sizeof file, "%s/env.json", name);
    snprintf(env, sizeof env, "{\"data\": {%s}}", data);
    scratch_write(file, env, strlen(env));
}

/* A job's copy of the data has a place of its own. */
static void test_seeds_of_other_places(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("moved");
    placed("moved/a", "/tmp/7/listops", "1", HASHES("a"));
    placed("moved/b", "/tmp/8/listops", "2", HASHES("a"));
    RunSet set = read_all("moved");
    groups_make(&g, &set, false);
    assert_true(g.n == 1 && g.group[0].n == 2 && g.nkeys == 0);
    groups_free(&g);
    runs_free(&set);
    placed("moved/c", "/tmp/9/listops", "3", HASHES("c"));
    set = read_all("moved");
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 2);
    int two = 0;
    while (g.group[two].n != 2) two++;
    char *label = group_label(&g, &g.group[two], "data.source");
    assert_string_equal(label, "dir /tmp/7/listops and others");
    mem_free(label);
    groups_free(&g);
    runs_free(&set);
}

/* Where the examples are counted and no more, they may be others. */
static void test_seeds_of_data_not_known(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("counted");
    placed("counted/a", "/tmp/7/listops", "1", "\"train\": 5");
    placed("counted/b", "/tmp/8/listops", "2", "\"train\": 5");
    placed("counted/c", "/tmp/8/listops", "3", "\"train\": 5, " HASHES("a"));
    RunSet set = read_all("counted");
    groups_make(&g, &set, false);
    assert_int_equal(g.n, 2);
    assert_int_equal(g.nkeys, 1);
    assert_string_equal(g.key[0], "data.dir");
    groups_free(&g);
    runs_free(&set);
}

/* ---- what it is called ---- */

/* Runs of a group that lie elsewhere than its first. */
static void test_names_of_places(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("places");
    scratch_mkdir("places/experiments");
    make_run("places/experiments/first", CONFIG("listops", CAST(4), "\"seed\": 1"), NULL);
    make_run("places/experiments/second", CONFIG("listops", CAST(8), "\"seed\": 1"), NULL);
    make_run("places/z", CONFIG("listops", CAST(4), "\"seed\": 2"), NULL);
    RunSet set = read_all("places");
    groups_make(&g, &set, false);
    char *name = group_name(&g, &g.group[0]);
    assert_string_equal(name, "experiments/first and 1 more");
    mem_free(name);
    groups_free(&g);
    runs_free(&set);
}

/* Not by the name of one of them, which the others' begin with. */
static void test_names_of_numbers(void **state) {
    (void)state;
    Groups g;
    scratch_mkdir("numbers");
    make_run("numbers/text-1", CONFIG("listops", CAST(4), "\"seed\": 1"), NULL);
    make_run("numbers/text-10", CONFIG("listops", CAST(4), "\"seed\": 2"), NULL);
    make_run("numbers/text-12", CONFIG("listops", CAST(4), "\"seed\": 3"), NULL);
    make_run("numbers/z", CONFIG("listops", CAST(8), "\"seed\": 1"), NULL);
    make_run("numbers/z-2", CONFIG("listops", CAST(8), "\"seed\": 2"), NULL);
    RunSet set = read_all("numbers");
    groups_make(&g, &set, false);
    for (int i = 0; i < 2; i++) {
        char *name = group_name(&g, &g.group[i]);
        assert_string_equal(name, i == 0 ? "text" : "z");
        mem_free(name);
    }
    groups_free(&g);
    runs_free(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_seeds_of_two_stages),
        cmocka_unit_test(test_seeds_of_first_weights),
        cmocka_unit_test(test_seeds_of_other_places),
        cmocka_unit_test(test_seeds_of_data_not_known),
        cmocka_unit_test(test_names_of_places),
        cmocka_unit_test(test_names_of_numbers),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
