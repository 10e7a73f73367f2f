#include "sweep/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/json_print.h"
#include "text.h"
#include "train/small.h"

#define TRAIN "\"batch\":4,\"steps\":20"
#define LISTS(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static bool try_plan(Plan *p, char *const *lists, const char *seeds, Err *err) {
    int n = 0;
    while (lists[n]) n++;
    const PlanRequest r = {scratch("config.json"), scratch("sweep"), seeds, lists, n};
    return plan_open(p, &r, err);
}

static Plan open_plan(char *const *lists, const char *seeds) {
    Plan p;
    Err err;
    if (!try_plan(&p, lists, seeds, &err)) fail_msg("%s", err.text);
    return p;
}

static void refused(char *const *lists, int code, const char *text) {
    Plan p;
    Err err;
    if (try_plan(&p, lists, NULL, &err)) fail_msg("%s is not refused for %s", lists[0], text);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text)) fail_msg("%s", err.text);
}

/* The names of the runs, with spaces between. */
static void names_are(const Plan *p, const char *names) {
    char text[1024] = "";
    for (int i = 0; i < p->grid.runs; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", p->runs[i].name);
    }
    assert_string_equal(text, names);
}

static void record(const Plan *p) {
    Err err;
    if (!plan_record(p, &err)) fail_msg("%s", err.text);
}

/* As training leaves it: the run's config, and metrics up to the final tests. */
static void make_run(const Plan *p, int run, const char *metrics) {
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX + 32], *overrides[8];
    Config c;
    Err err;
    plan_run_dir(p, run, dir);
    const int n = grid_overrides(&p->grid, run, overrides);
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_true(file_make_dirs(dir, &err));
    assert_true(config_load(&c, p->config, overrides, n, &err));
    assert_true(json_write(c.resolved, path, &err));
    config_free(&c);
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    FILE *f = fopen(path, "w");
    fputs(metrics, f);
    fclose(f);
}
#define TESTED(step)                                                                               \
    "{\"kind\": \"train\", \"step\": " step ", \"seconds\": 3}\n"                                  \
    "{\"kind\": \"val\", \"step\": " step ", \"accuracy\": 0.5, \"loss\": 1}\n"                    \
    "{\"kind\": \"test\", \"step\": " step                                                         \
    ", \"which\": \"last\", \"accuracy\": 0.5, \"loss\": 1}\n"                                     \
    "{\"kind\": \"test\", \"step\": " step                                                         \
    ", \"which\": \"best\", \"accuracy\": 0.5, \"loss\": 1}\n"

static int start_anew(void **state) {
    Config c;
    (void)state;
    scratch_remove(scratch("sweep"));
    small_data(12, 5, 5, false);
    small_config(&c, TRAIN, false);
    config_free(&c);
    return 0;
}

static void test_fresh(void **state) {
    (void)state;
    Plan p = open_plan(LISTS("model.attention.clusters=2,3", "model.d_ff=8"), "1..2");
    names_are(&p, "clusters=2,seed=1 clusters=3,seed=1 clusters=2,seed=2 clusters=3,seed=2");
    assert_int_equal(plan_count(&p, PLAN_NEW), 4);
    assert_true(p.runs[0].work > 0);
    assert_false(file_exists(scratch("sweep")));
    assert_false(p.recorded);
    record(&p);
    plan_close(&p);
    p = open_plan(LISTS("model.attention.clusters=2,3", "model.d_ff=8"), "1..2");
    assert_true(p.recorded);
    plan_close(&p);
    char *text = text_read(scratch("sweep/sweep.json"));
    assert_non_null(strstr(text, "\"model.attention.clusters\": [2, 3]"));
    assert_non_null(strstr(text, "\"seeds\": [1, 2]"));
    assert_non_null(strstr(text, "\"steps\": 20"));
    assert_null(strstr(text, "\"seed\":"));
    free(text);
}

static void test_how_far(void **state) {
    (void)state;
    char *const *lists = LISTS("model.d_ff=8,12,16");
    Plan p = open_plan(lists, NULL);
    make_run(&p, 0, TESTED("20"));
    make_run(&p, 1, TESTED("10"));
    plan_close(&p);
    p = open_plan(lists, NULL);
    assert_int_equal(p.runs[0].state, PLAN_DONE);
    assert_int_equal(p.runs[1].state, PLAN_BEGUN);
    assert_int_equal(p.runs[2].state, PLAN_NEW);
    assert_true(p.runs[0].seconds == 3);
    assert_true(p.runs[0].made == 1 && p.runs[1].made == 0.5 && p.runs[2].made == 0);
    plan_close(&p);
    /* Without an end of the schedule, training may be made longer. */
    p = open_plan(LISTS("model.d_ff=8,12,16", "train.steps=30"), NULL);
    assert_int_equal(p.runs[0].state, PLAN_BEGUN);
    names_are(&p, "d_ff=8 d_ff=12 d_ff=16");
    assert_true(fabs(p.runs[0].made - 2.0 / 3) < 1e-12);
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=8,12,16", "train.steps=30", "train.minutes=0.1"), NULL);
    assert_true(p.runs[0].made == 0.5);
    plan_close(&p);
}

static void test_more_epochs(void **state) {
    (void)state;
    Plan p = open_plan(LISTS("model.d_ff=8", "train.steps=0", "train.epochs=1"), NULL);
    make_run(&p, 0, TESTED("20") "{\"kind\": \"save\", \"step\": 20, \"epoch\": 1}\n");
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=8", "train.steps=0", "train.epochs=1"), NULL);
    assert_int_equal(p.runs[0].state, PLAN_DONE);
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=8", "train.steps=0", "train.epochs=3"), NULL);
    assert_int_equal(p.runs[0].state, PLAN_BEGUN);
    plan_close(&p);
}

/* How many updates operations are is what the run's env.json says; of more of them, as many more.
 */
static void test_operations(void **state) {
    static const char env[] = "{\"updates\": 20}";
    char path[512];
    (void)state;
    Plan p = open_plan(LISTS("model.d_ff=8", "train.steps=0", "train.petaflops=2e-6"), NULL);
    const double work = p.runs[0].work;
    make_run(&p, 0, TESTED("20"));
    snprintf(path, sizeof path, "sweep/%s/env.json", p.runs[0].name);
    scratch_write(path, env, sizeof env - 1);
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=8", "train.steps=0", "train.petaflops=2e-6"), NULL);
    assert_int_equal(p.runs[0].state, PLAN_DONE);
    assert_true(p.runs[0].made == 1);
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=8", "train.steps=0", "train.petaflops=8e-6"), NULL);
    assert_int_equal(p.runs[0].state, PLAN_BEGUN);
    assert_true(fabs(p.runs[0].made - 0.25) < 1e-12);
    assert_true(fabs(p.runs[0].work / work - 4) < 1e-12);
    plan_close(&p);
}

static void test_wrong_combinations(void **state) {
    (void)state;
    Plan p = open_plan(LISTS("model.heads=2,3", "train.lr=1,2"), NULL);
    assert_int_equal(plan_count(&p, PLAN_WRONG), 2);
    assert_int_equal(p.runs[2].state, PLAN_WRONG);
    assert_non_null(strstr(p.runs[2].why, "must divide model.d"));
    assert_string_equal(p.runs[2].name, "heads=3,lr=1");
    plan_close(&p);
    p = open_plan(LISTS("model.attention.type=cast,full", "model.attention.clusters=2,3"), NULL);
    assert_int_equal(plan_count(&p, PLAN_WRONG), 0); /* a key that full lacks is none of its */
    names_are(&p, "type=cast,clusters=2 type=cast,clusters=3 type=full");
    plan_close(&p);
}

static void test_errors_at_once(void **state) {
    (void)state;
    refused(LISTS("model.depht=1,2"), EX_CONFIG, "did you mean 'model.depth'");
    refused(LISTS("train.lr=1,2", "model.depht=1"), EX_CONFIG, "did you mean 'model.depth'");
    refused(LISTS("train.lr=1,fast"), EX_CONFIG, "'train.lr' must be a number");
    refused(LISTS("model.d_ff=8,0", "train.lr=1,2"), EX_CONFIG, "'model.d_ff' must be an integer");
    refused(LISTS("model.attention.type=cast,fulll"), EX_CONFIG, "did you mean \"full\"");
    refused(LISTS("model.attention={\"type\":\"full\"},{\"typ\":\"full\"}"), EX_CONFIG,
            "'model.att");
    refused(LISTS("model.heads=3,5"), EX_CONFIG, "must divide");
    refused(LISTS("task=listops,custom,nonsense"), EX_CONFIG, "'task' must be one of");
    refused(LISTS("model.attention={\"clusters\":3},{\"type\":\"cast\",\"clusters\":3}"), EX_CONFIG,
            "are the same config");
    assert_false(file_exists(scratch("sweep")));
}

static void test_extended(void **state) {
    (void)state;
    Plan p = open_plan(LISTS("model.d_ff=8,12"), NULL);
    record(&p);
    make_run(&p, 0, TESTED("20"));
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=16,8"), "2,1");
    names_are(&p, "d_ff=16,seed=2 d_ff=8,seed=2 d_ff=16,seed=1 d_ff=8");
    assert_int_equal(p.runs[3].state, PLAN_DONE); /* by its config, of which 1 is the seed */
    record(&p);
    plan_close(&p);
    char *text = text_read(scratch("sweep/sweep.json"));
    assert_non_null(strstr(text, "\"model.d_ff\": [8, 12, 16]"));
    assert_non_null(strstr(text, "\"seeds\": [2, 1]"));
    free(text);
    /* A key that was varied here is told from now on. */
    p = open_plan(LISTS("model.d_ff=8", "train.lr=1,2"), NULL);
    names_are(&p, "d_ff=8,lr=1 d_ff=8,lr=2");
    record(&p);
    plan_close(&p);
    text = text_read(scratch("sweep/sweep.json"));
    assert_null(strstr(text, "\"lr\": "));
    free(text);
}

/* What may differ in a run that goes on still tells two runs apart where it is varied. */
static void test_varied_lengths(void **state) {
    (void)state;
    Plan p = open_plan(LISTS("train.steps=20,30"), NULL);
    record(&p);
    make_run(&p, 0, TESTED("20"));
    plan_close(&p);
    p = open_plan(LISTS("train.steps=20,30,40"), NULL);
    names_are(&p, "steps=20 steps=30 steps=40");
    assert_int_equal(p.runs[0].state, PLAN_DONE);
    assert_int_equal(p.runs[1].state, PLAN_NEW);
    plan_close(&p);
    p = open_plan(LISTS("train.steps=30"), NULL);
    names_are(&p, "steps=30");
    plan_close(&p);
}

static void test_other_configs(void **state) {
    (void)state;
    Config c;
    Plan p = open_plan(LISTS("model.d_ff=8,12"), NULL);
    record(&p);
    plan_close(&p);
    refused(LISTS("model.d_ff=8,12", "train.batch=2"), EX_CONFIG, "train.batch (4, now 2)");
    small_config(&c, TRAIN ",\"warmup\":3", false);
    config_free(&c);
    refused(LISTS("model.d_ff=8,12"), EX_CONFIG, "train.warmup (0, now 3)");
    p = open_plan(LISTS("model.d_ff=8,12", "train.warmup=0"), NULL);
    plan_close(&p);
    p = open_plan(LISTS("model.d_ff=8,12", "train.warmup=0,3"), NULL);
    names_are(&p, "d_ff=8,warmup=0 d_ff=8,warmup=3 d_ff=12,warmup=0 d_ff=12,warmup=3");
    make_run(&p, 0, "");
    plan_close(&p);
    /* A directory whose name is right, and its config not. */
    scratch_write("sweep/d_ff=8,warmup=0/config.json", "{\"train\": {\"lr\": 7}}", 20);
    refused(LISTS("model.d_ff=8,12", "train.warmup=0,3"), EX_CONFIG, "train.lr (7, now 0.001)");
    /* An older version's: what it lacks is what is the default now. */
    static const char old[] =
        "{\"task\": \"listops\", \"model\": {\"attention\": {\"clusters\": 3}}}";
    scratch_write("sweep/d_ff=8,warmup=0/config.json", old, sizeof old - 1);
    refused(LISTS("model.d_ff=8,12", "train.warmup=0,3"), EX_CONFIG, "train.batch (32, now 4)");
}

/* A base without its mechanism's name does not say which keys are the mechanism's. */
static void test_varied_mechanism(void **state) {
    (void)state;
    static const char cast[] = "\"clusters\":3";
    char *text = text_read(scratch("config.json")), *at = strstr(text, cast), full[2048];
    const int n = snprintf(full, sizeof full, "%.*s\"type\":\"full\"%s", (int)(at - text), text,
                           at + sizeof cast - 1);
    scratch_write("config.json", full, (size_t)n);
    free(text);
    for (int again = 0; again < 2; again++) {
        Plan p = open_plan(LISTS("model.attention.type=full,cast"), NULL);
        names_are(&p, "type=full type=cast");
        assert_true(p.recorded == again);
        record(&p);
        plan_close(&p);
    }
    refused(LISTS("model.attention.type=full,cast", "model.d_ff=16"), EX_CONFIG,
            "model.d_ff (8, now 16)");
}

static void test_other_directories(void **state) {
    (void)state;
    scratch_mkdir("sweep");
    scratch_write("sweep/sweep.json", "{\"base\": {", 10);
    refused(LISTS("model.d_ff=8,12"), EX_DATAERR, "sweep.json");
    scratch_write("sweep/sweep.json", "{\"keys\": {}}", 12);
    refused(LISTS("model.d_ff=8,12"), EX_DATAERR, "has no \"base\"");
    scratch_write("sweep/sweep.json", "{\"base\": {}, \"keys\": {\"model.d_ff\": 8}}", 39);
    refused(LISTS("model.d_ff=8,12"), EX_DATAERR, "no list");
    scratch_remove(scratch("sweep/sweep.json"));
    scratch_write("sweep/config.json", "{}", 2);
    refused(LISTS("model.d_ff=8,12"), EX_CANTCREAT, "is the directory of a run");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_fresh, start_anew),
        cmocka_unit_test_setup(test_how_far, start_anew),
        cmocka_unit_test_setup(test_more_epochs, start_anew),
        cmocka_unit_test_setup(test_operations, start_anew),
        cmocka_unit_test_setup(test_wrong_combinations, start_anew),
        cmocka_unit_test_setup(test_errors_at_once, start_anew),
        cmocka_unit_test_setup(test_extended, start_anew),
        cmocka_unit_test_setup(test_varied_lengths, start_anew),
        cmocka_unit_test_setup(test_other_configs, start_anew),
        cmocka_unit_test_setup(test_varied_mechanism, start_anew),
        cmocka_unit_test_setup(test_other_directories, start_anew),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
