#include "report/curve_plot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "report/scaling.h"
#include "train/made.h"

#define SEED(seed)                                                                                 \
    "{\"task\": \"listops\", \"model\": {\"attention\": {\"clusters\": 4}}, "                      \
    "\"train\": {\"steps\": 10, \"batch\": 4, \"accumulate\": 2, \"seed\": " #seed "}}"
#define CONFIG SEED(1)
#define LINE(step, loss, seconds, samples, tokens)                                                 \
    "{\"kind\": \"train\", \"step\": " #step ", \"loss\": " #loss ", \"samples_per_s\": " #samples \
    ", \"tokens_per_s\": " #tokens ", \"seconds\": " #seconds "}\n"

typedef struct Made {
    RunSet set;
    Groups g;
} Made;

static Made read_all(const char *name) {
    Made m;
    Err err;
    char *paths[] = {(char *)(size_t)scratch(name)};
    if (!runs_read(&m.set, paths, 1, true, &err)) fail_msg("%s", err.text);
    groups_make(&m.g, &m.set, false);
    return m;
}

static void close_all(Made *m) {
    groups_free(&m->g);
    runs_free(&m->set);
}

/* Losses of 4 and 6 at the first update; one run goes on to the second half alone. */
static Made two_runs(void) {
    scratch_mkdir("two");
    make_run("two/a", CONFIG, LINE(10, 4, 3600, 10, 20) LINE(20, 2, 7200, 10, 20) VAL(15, 0.5, 3));
    make_run("two/b", SEED(2), LINE(10, 6, 1800, 5, 20) VAL(5, 0.25, 7) VAL(15, 0.25, 5));
    return read_all("two");
}

static bool near(double a, double b) { return fabs(a - b) < 1e-9; }

static void test_mean_and_band(void **state) {
    (void)state;
    Made m = two_runs();
    Curve c;
    assert_int_equal(m.g.n, 1);
    curve_train(&c, m.g.group, RUN_LOSS, CURVE_STEPS, CURVE_RANGE);
    assert_int_equal(c.n, CURVE_POINTS);
    assert_true(c.point[0].x == 10 && c.point[0].n == 2);
    assert_true(c.point[0].y == 5 && c.point[0].low == 4 && c.point[0].high == 6);
    const CurvePoint *end = &c.point[c.n - 1], *middle = &c.point[200];
    assert_true(end->x == 20 && end->n == 1 && end->y == 2 && end->low == 2 && end->high == 2);
    assert_true(near(middle->y, 4 - 0.2 * (middle->x - 10))); /* on the straight line between */
    curve_free(&c);
    curve_train(&c, m.g.group, RUN_LOSS, CURVE_STEPS, CURVE_SD);
    assert_true(near(c.point[0].high - c.point[0].y, sqrt(2)));
    curve_free(&c);
    close_all(&m);
}

static void test_validation(void **state) {
    (void)state;
    Made m = two_runs();
    Curve c;
    curve_validation(&c, m.g.group, RUN_ACCURACY, CURVE_STEPS, CURVE_RANGE);
    assert_int_equal(c.n, 2);
    assert_true(c.point[0].x == 5 && c.point[0].y == 25 && c.point[0].n == 1);
    assert_true(c.point[1].x == 15 && c.point[1].y == 37.5 && c.point[1].n == 2);
    assert_true(c.point[1].low == 25 && c.point[1].high == 50);
    curve_free(&c);
    close_all(&m);
}

/* A line of training that has no time has no place on that axis, and moves no validation. */
static void test_a_line_without_time(void **state) {
    (void)state;
    scratch_mkdir("timeless");
    make_run("timeless/a", CONFIG,
             LINE(10, 4, 3600, 10, 20) LINE(20, 3, null, 10, 20) LINE(30, 2, 10800, 10, 20)
                 VAL(20, 0.5, 3));
    Made m = read_all("timeless");
    Curve c;
    curve_validation(&c, m.g.group, RUN_LOSS, CURVE_TIME, CURVE_RANGE);
    assert_true(near(c.point[0].x, 2));
    curve_free(&c);
    close_all(&m);
}

/* Seeds that have begun, and have no line of training yet. */
static void test_nothing_trained(void **state) {
    (void)state;
    scratch_mkdir("begun");
    make_run("begun/a", CONFIG, VAL(5, 0.5, 3));
    make_run("begun/b", SEED(2), VAL(5, 0.5, 3));
    Made m = read_all("begun");
    Curve c;
    assert_int_equal(m.g.n, 1);
    assert_int_equal(m.g.group->n, 2);
    curve_train(&c, m.g.group, RUN_LOSS, CURVE_STEPS, CURVE_RANGE);
    assert_int_equal(c.n, 0);
    curve_free(&c);
    close_all(&m);
}

/* Hours: halfway between the lines of the first run; at the last line of the second. */
static void test_axes(void **state) {
    (void)state;
    Made m = two_runs();
    Curve c;
    curve_validation(&c, m.g.group, RUN_LOSS, CURVE_TIME, CURVE_RANGE);
    assert_true(near(c.point[0].x, 0.25)); /* before the second's first line, at 0.5 h */
    assert_true(near(c.point[1].x, (1.5 + 0.5) / 2));
    curve_free(&c);
    /* 10 updates of 8 samples: of 2 tokens, and of 4. */
    curve_train(&c, m.g.group, RUN_LOSS, CURVE_TOKENS, CURVE_RANGE);
    assert_true(near(c.point[0].x, 160) && near(c.point[c.n - 1].x, 320));
    assert_true(c.point[0].n == 1 && c.point[c.n - 1].n == 2);
    curve_free(&c);
    close_all(&m);
}

/* A run of 200 lines whose losses are those of `loss`. */
static Curve smoothed(const char *name, double (*loss)(int step)) {
    char text[200 * 64] = "";
    Curve c;
    for (int i = 1; i <= 200; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "{\"kind\": \"train\", \"step\": %d, \"loss\": %g}\n", i, loss(i));
    make_run(name, CONFIG, text);
    Made m = read_all(name);
    curve_train(&c, m.g.group, RUN_LOSS, CURVE_STEPS, CURVE_RANGE);
    close_all(&m);
    assert_int_equal(c.n, 200);
    return c;
}

static double peak(int step) { return step == 100 ? 9 : 0; }
static double slope(int step) { return step; }

static void test_smoothing(void **state) {
    (void)state;
    Curve c = smoothed("peak", peak);
    for (int i = 0; i < 200; i++) assert_true(near(c.point[i].y, abs(i - 99) <= 4 ? 1 : 0));
    curve_free(&c);
    c = smoothed("slope", slope);
    /* A straight line stays from its beginning; the end has the mean of what there is. */
    for (int i = 0; i < 196; i++) assert_true(near(c.point[i].y, i + 1));
    for (int i = 196; i < 200; i++) assert_true(near(c.point[i].y, (i - 3 + 200) / 2.));
    curve_free(&c);
}

static void test_nothing_to_plot(void **state) {
    (void)state;
    Plot p;
    Err err;
    scratch_mkdir("none");
    make_run("none/a", CONFIG, NULL);
    Made m = read_all("none");
    assert_false(curve_plot(&p, (PlotSize){0, 0}, &m.g, RUN_LOSS, CURVE_STEPS, CURVE_RANGE, &err));
    assert_int_equal(err.code, EX_NOINPUT);
    assert_false(
        curve_plot_over(&p, (PlotSize){0, 0}, &m.g, "model.attention.clusters", CURVE_RANGE, &err));
    assert_int_equal(err.code, EX_NOINPUT);
    close_all(&m);
}

/* ---- lengths ---- */

static bool read_scaling(Scaling *s, const char *text, Err *err) {
    char *paths[] = {(char *)(size_t)scratch_write("bench", text, strlen(text))};
    return scaling_read(s, paths, 1, err);
}

static void test_scaling(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"mechanism\": \"full\", \"tokens\": 512, \"samples_per_s\": 1, \"peak_rss_mb\": 9}\n"
        "{\"mechanism\": \"cast\", \"tokens\": 512, \"samples_per_s\": 4}\n\n"
        "{\"mechanism\": \"full\", \"tokens\": 256, \"samples_per_s\": 3, \"peak_rss_mb\": 7}",
        "\npeak_rss_mb,other,mechanism,tokens,samples_per_s\r\n9,\"a,\"\"b\",full,512,1\r\n"
        ",,\"cast\",512,4\r\n7,,full,256,3\r\n"};
    for (int i = 0; i < 2; i++) {
        Scaling s;
        Err err;
        if (!read_scaling(&s, texts[i], &err)) fail_msg("%s", err.text);
        assert_int_equal(s.n, 3);
        assert_string_equal(s.row[0].mechanism, "full");
        assert_true(s.row[0].value[SCALING_TOKENS] == 256 && s.row[0].value[SCALING_SAMPLES] == 3);
        assert_true(s.row[1].value[SCALING_TOKENS] == 512 && s.row[1].value[SCALING_MEMORY] == 9);
        assert_string_equal(s.row[2].mechanism, "cast");
        assert_true(isnan(s.row[2].value[SCALING_MEMORY]));
        Table t;
        scaling_table(&t, &s);
        assert_string_equal(t.columns[t.n - 1].title, "full is faster by");
        assert_true(t.cells[3 * t.n - 1].mean == 0.25); /* of cast, 512 tokens */
        assert_true(isnan(t.cells[t.n - 1].mean));
        table_free(&t);
        scaling_free(&s);
    }
}

static void test_scaling_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"hello\n", "{\"a\": 1}\n", "{\"mechanism\": \n",
                                        "mechanism,tokens,samples_per_s\nfull,many,1\n",
                                        "mechanism,tokens,samples_per_s\nfull,512,-1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Scaling s;
        Err err;
        assert_false(read_scaling(&s, texts[i], &err));
        assert_int_equal(err.code, EX_DATAERR);
        assert_non_null(strstr(err.text, i < 3 ? "line 1" : "line 2"));
    }
}

#define MEASURED(mechanism, tokens, more)                                                          \
    "{\"mechanism\": \"" mechanism "\", \"tokens\": " #tokens                                      \
    ", \"samples_per_s\": 1, \"cpu\": \"AMD\"" more "}\n"
#define OF(length, more, attention)                                                                \
    ", \"config\": {\"task\": \"text\", \"model\": {\"max_length\": " #length ", \"d\": 64" more   \
    ", \"attention\": {" attention "}}}"
#define CLUSTERS(n) "\"type\": \"cast\", \"clusters\": " #n

/* Settings of a mechanism are lines of their own. What only the length decides, what a version did
 * not know and what a row is called by its user splits none. */
static void test_scaling_settings(void **state) {
    static const struct {
        const char *text, *names[3]; /* of lines */
    } tries[] = {
        {MEASURED("cast", 64, OF(64, "", CLUSTERS(20)))
             MEASURED("full", 64, OF(64, "", "\"type\": \"full\""))
                 MEASURED("cast", 128, OF(128, "", CLUSTERS(20)))
                     MEASURED("cast", 128, OF(128, "", CLUSTERS(100))),
         {"cast, clusters 20", "full", "cast, clusters 100"}},
        {MEASURED("cast", 64, OF(64, "", CLUSTERS(20)))
             MEASURED("cast", 128, OF(128, "", CLUSTERS(20) ", \"cluster_size\": \"fixed\"")),
         {"cast"}},
        {MEASURED("cast, 64 a cluster", 64, OF(64, "", CLUSTERS(1)))
             MEASURED("cast, 64 a cluster", 128, OF(128, "", CLUSTERS(2))),
         {"cast, 64 a cluster"}},
        {MEASURED("cast", 64, "") MEASURED("cast", 64, OF(64, "", CLUSTERS(20))),
         {"cast, settings not said", "cast"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        Scaling s;
        Err err;
        int lines = 0;
        if (!read_scaling(&s, tries[i].text, &err)) fail_msg("%s", err.text);
        for (int j = 0; j < s.n; j++) {
            assert_string_equal(s.row[j].name, tries[i].names[s.row[j].line]);
            lines = s.row[j].line + 1;
        }
        assert_true(lines == 3 || !tries[i].names[lines]);
        scaling_free(&s);
    }
}

/* A table is of one model and one processor. */
static void test_scaling_unlike(void **state) {
    static const char *const texts[][2] = {
        {MEASURED("cast", 64, OF(64, "", CLUSTERS(20)))
             MEASURED("full", 64, OF(64, ", \"depth\": 3", "\"type\": \"full\"")),
         "another model.depth"},
        {MEASURED("cast", 64, "") "{\"mechanism\": \"cast\", \"tokens\": 128, \"samples_per_s\": "
                                  "1, \"cpu\": \"Intel\"}\n",
         "another processor"}};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Scaling s;
        Err err;
        assert_false(read_scaling(&s, texts[i][0], &err));
        assert_int_equal(err.code, EX_DATAERR);
        assert_non_null(strstr(err.text, "line 2"));
        assert_non_null(strstr(err.text, texts[i][1]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean_and_band),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_a_line_without_time),
        cmocka_unit_test(test_nothing_trained),
        cmocka_unit_test(test_smoothing),
        cmocka_unit_test(test_nothing_to_plot),
        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_scaling_refused),
        cmocka_unit_test(test_scaling_settings),
        cmocka_unit_test(test_scaling_unlike),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
