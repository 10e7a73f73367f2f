#include "data/listops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/lanes.h"
#include "data/dataset.h"
#include "data/import.h"
#include "data/task.h"

enum { SHORTEST = 501, LONGEST = 1999 }; /* of the Long Range Arena */

/* Ids of words separated by blanks ("(" and ")" are passed over, as in Google's files); their
 * number, or -1. */
static int parse(const char *text, int *ids, int most) {
    const Task *t = task_find("listops");
    int n = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        int id = 1;
        while (id < t->vocab &&
               !(strlen(t->words[id]) == length && memcmp(t->words[id], text, length) == 0))
            id++;
        bool parenthesis = length == 1 && (*text == '(' || *text == ')');
        if (!parenthesis && (id == t->vocab || n == most)) return -1;
        if (!parenthesis) ids[n++] = id;
        text += length;
        text += strspn(text, " ");
    }
    return n;
}

static int value_of(const char *text) {
    int ids[64], n = parse(text, ids, 64);
    assert_true(n >= 0);
    return listops_value(ids, n);
}

static void test_values(void **state) {
    static const struct {
        const char *text;
        int value;
    } cases[] = {
        {"[MAX 4 [MIN 2 3 ] ]", 4},
        {"7", 7},
        {"[MIN 5 3 9 ]", 3},
        {"[MAX 5 3 9 ]", 9},
        {"[MED 3 4 ]", 3},
        {"[MED 4 3 ]", 3},
        {"[MED 9 0 1 ]", 1},
        {"[MED 1 2 9 9 ]", 5},
        {"[MED 9 8 ]", 8},
        {"[MED 6 6 6 6 6 ]", 6},
        {"[MED 5 ]", 5},
        {"[SM 9 9 9 9 9 9 9 9 9 9 ]", 0},
        {"[SM 3 4 ]", 7},
        {"[SM [SM 9 2 ] [MED 8 1 5 ] [MAX 0 0 ] ]", 6},
        {"[MAX 2 9 [MIN 4 7 ] 0 ]", 9},
        {"[MIN [MAX [MED [SM [MIN [MAX [MED [SM [MIN 7 8 ] ] ] ] ] ] ] ] ]", 7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int value = value_of(cases[i].text);
        if (value != cases[i].value) fail_msg("%s: %d", cases[i].text, value);
    }
}

static void test_malformed(void **state) {
    static const char *const bad[] = {
        "",
        "]",
        "[MIN",
        "[MIN 3",
        "[MIN ]",
        "3 4",
        "[MIN 3 ] ]",
        "[MIN 3 ] 4",
        "[MIN 3 [MAX 4 ]",
        /* deeper than 9 */
        "[MIN [MIN [MIN [MIN [MIN [MIN [MIN [MIN [MIN [MIN 1 ] ] ] ] ] ] ] ] ] ]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (value_of(bad[i]) != -1) fail_msg("accepted: %s", bad[i]);
    static const int strange[] = {0, 16, -1, 1 << 20};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        assert_int_equal(listops_value(&strange[i], 1), -1);
        assert_int_equal(listops_value((const int[]){LISTOPS_SM, strange[i], LISTOPS_CLOSE}, 3),
                         -1);
    }
}

static void generate(const char *out, uint64_t seed, int train, int val, int test, int threads) {
    TaskRequest r = {.out = out, .seed = seed, .train = train, .val = val, .test = test};
    Err err = {0};
    lanes_open(threads);
    if (!task_generate(task_find("listops"), &r, &err)) fail_msg("%s", err.text);
}

static void test_threads(void **state) {
    (void)state;
    generate(scratch("one"), 5, 300, 40, 50, 1);
    for (int threads = 2; threads <= 5; threads++) {
        generate(scratch("many"), 5, 300, 40, 50, threads);
        for (int s = 0; s < SPLITS; s++)
            assert_true(import_same(scratch("one"), scratch("many"), s));
    }
}

static void test_seeds_and_sizes(void **state) {
    (void)state;
    generate(scratch("five"), 5, 300, 40, 50, 2);
    generate(scratch("six"), 6, 300, 40, 50, 2);
    generate(scratch("short"), 5, 10, 40, 50, 2);
    for (int s = 0; s < SPLITS; s++) assert_false(import_same(scratch("five"), scratch("six"), s));
    assert_true(import_same(scratch("five"), scratch("short"), SPLIT_TEST));
    assert_true(import_same(scratch("five"), scratch("short"), SPLIT_VAL));
    assert_false(import_same(scratch("five"), scratch("short"), SPLIT_TRAIN));
}

/* The set of seed 1 stays what it is: results are set beside each other for years. */
static void test_golden(void **state) {
    static const char *const hash[SPLITS] = {"7bacbaf3", "d43573c9", "bafd6cb2"};
    (void)state;
    generate(scratch("golden"), 1, 500, 20, 20, 2);
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        import_open(&d, scratch("golden"), s);
        assert_string_equal(st_meta(&d.file, "hash"), hash[s]);
        dataset_close(&d);
    }
}

/* What is counted over many samples. */
typedef struct Counts {
    double samples, length, target[10], op[4], digit[10], args[11];
} Counts;

static void count_sample(Counts *c, const int *ids, int n, int label) {
    int args[LISTOPS_NESTING], depth = 0, nesting = 0;
    assert_in_range(n, SHORTEST, LONGEST);
    assert_int_equal(listops_value(ids, n), label);
    for (int i = 0; i < n; i++) {
        bool opens = ids[i] <= LISTOPS_SM, closes = ids[i] == LISTOPS_CLOSE;
        if (closes)
            c->args[args[--depth]]++;
        else if (depth > 0)
            args[depth - 1]++;
        if (opens) {
            c->op[ids[i] - LISTOPS_MIN]++;
            assert_true(depth < LISTOPS_NESTING);
            args[depth++] = 0;
            if (depth > nesting) nesting = depth;
        } else if (!closes) {
            c->digit[ids[i] - LISTOPS_DIGIT]++;
        }
    }
    assert_int_equal(nesting, LISTOPS_NESTING);
    c->samples++;
    c->length += n;
    c->target[label]++;
}

static int compare_samples(const void *a, const void *b) {
    const uint8_t *x = *(const uint8_t *const *)a, *y = *(const uint8_t *const *)b;
    return memcmp(x, y, LONGEST);
}

/* Padded with zeros to one length, sorted, compared with the neighbour. */
static void expect_distinct(const uint8_t *padded, int n) {
    const uint8_t **order = malloc((size_t)n * sizeof *order);
    for (int i = 0; i < n; i++) order[i] = padded + (size_t)i * LONGEST;
    qsort(order, (size_t)n, sizeof *order, compare_samples);
    for (int i = 1; i < n; i++) assert_true(compare_samples(&order[i - 1], &order[i]) != 0);
    free(order);
}

static void count_splits(Counts *c, const char *dir, int total) {
    uint8_t *padded = calloc((size_t)total, LONGEST);
    int done = 0;
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        import_open(&d, dir, s);
        for (int i = 0; i < d.examples; i++) {
            int ids[LONGEST], n = dataset_tokens(&d, i, LONGEST, ids);
            count_sample(c, ids, n, d.labels[i]);
            for (int j = 0; j < n; j++)
                padded[(size_t)done * LONGEST + (size_t)j] = (uint8_t)ids[j];
            done++;
        }
        dataset_close(&d);
    }
    assert_int_equal(done, total);
    expect_distinct(padded, total);
    free(padded);
}

static double sum(const double *x, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i];
    return s;
}

static void expect_near(const char *what, double got, double expected, double bar) {
    if (fabs(got - expected) > bar)
        fail_msg("%s: %.4f, expected %.4f +- %.4f", what, got, expected, bar);
}

/* Against what LRA's own program makes: means over 1,000,000 of its accepted samples. */
static void test_statistics(void **state) {
    static const double targets[10] = {.170, .092, .069, .075, .096, .088, .080, .074, .088, .168};
    Counts c = {0};
    (void)state;
    generate(scratch("many"), 3, 16000, 2000, 2000, 2);
    count_splits(&c, scratch("many"), 20000);
    expect_near("mean length", c.length / c.samples, 1034.5, 9);
    for (int k = 0; k < 10; k++) {
        expect_near("share of a target", c.target[k] / c.samples, targets[k], .010);
        expect_near("share of a digit", c.digit[k] / sum(c.digit, 10), .1, .001);
    }
    expect_near("share of target 0", c.target[0] / c.samples, .170, .008);
    expect_near("share of target 9", c.target[9] / c.samples, .168, .008);
    for (int k = 0; k < 4; k++)
        expect_near("share of an operator", c.op[k] / sum(c.op, 4), .25, .003);
    expect_near("operators a sample", sum(c.op, 4) / c.samples, 148, 3);
    assert_true(c.args[0] == 0 && c.args[1] == 0);
    for (int k = 2; k <= 10; k++)
        expect_near("share of a count of arguments", c.args[k] / sum(c.args, 11), 1.0 / 9, .003);
}

static void test_acceptance(void **state) {
    const int trees = 200000;
    const RngKey key = rng_subkey_name(rng_key(9), "listops");
    int kept = 0;
    (void)state;
    for (int i = 0; i < trees; i++) {
        uint8_t out[LONGEST];
        int n = listops_candidate(out, &listops_lra, key, (uint64_t)i << 24);
        assert_true(n == 0 || (n >= SHORTEST && n <= LONGEST));
        kept += n > 0;
    }
    expect_near("acceptance", (double)kept / trees, .083, .003);
}

static void test_check(void **state) {
    const Task *t = task_find("listops");
    int ids[64], n = parse("[MAX 4 [MIN 2 3 ] ]", ids, 64);
    Err err = {0};
    (void)state;
    assert_true(t->check(ids, n, 4, &err));
    assert_false(t->check(ids, n, 5, &err));
    assert_non_null(strstr(err.text, "label is 5, but the expression's value is 4"));
    assert_false(t->check(ids, n - 1, 4, &err));
    assert_non_null(strstr(err.text, "well-formed"));
}

/* $CAST_DATA/samples: rows of LRA's own program, "Source<TAB>Target" with CRLF. */
static void test_official_rows(void **state) {
    const char *root = getenv("CAST_DATA");
    char path[FILE_PATH_MAX], line[20000];
    (void)state;
    snprintf(path, sizeof path, "%s/samples/listops_official_100.tsv", root ? root : "");
    FILE *f = root ? fopen(path, "r") : NULL;
    if (!f) skip();
    int rows = 0;
    assert_non_null(fgets(line, sizeof line, f));
    while (fgets(line, sizeof line, f)) {
        int ids[2000];
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab = 0;
        int n = parse(line, ids, 2000);
        assert_in_range(n, SHORTEST, LONGEST);
        assert_int_equal(listops_value(ids, n), tab[1] - '0');
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 100);
}

/* Every candidate of other rules is as these say, and all that they allow come. */
static void test_rules(void **state) {
    (void)state;
    const TaskRequest r = {
        .settings = {{"depth", "3"}, {"length", "16..128"}, {"ops", "MAX,MIN"}, {"args", "3..5"}},
        .nsettings = 4};
    ListopsRules rules;
    Err err;
    char text[LISTOPS_RULES];
    int shortest = LONGEST, longest = 0, deepest = 0, kept = 0, ops[LISTOPS_CLOSE] = {0},
        counts[7] = {0};
    assert_true(listops_rules(&rules, &r, &err));
    assert_string_equal(listops_describe(text, &rules),
                        "depth 3, 16 to 128 tokens, MIN MAX of 3 to 5 arguments");
    for (uint64_t i = 0; i < 200000; i++) {
        uint8_t out[128];
        int args[LISTOPS_NESTING], depth = 0;
        const int n = listops_candidate(out, &rules, rng_key(5), i);
        kept += n > 0;
        for (int k = 0; k < n; k++) {
            if (out[k] == LISTOPS_CLOSE)
                counts[args[--depth]]++;
            else if (depth > 0)
                args[depth - 1]++;
            if (out[k] >= LISTOPS_CLOSE) continue;
            ops[out[k]]++;
            args[depth++] = 0;
            deepest = depth > deepest ? depth : deepest;
        }
        shortest = n && n < shortest ? n : shortest;
        longest = n > longest ? n : longest;
    }
    assert_true(kept > 1000);
    assert_int_equal(shortest, 16);
    assert_in_range(longest, 60, 128);
    assert_int_equal(deepest, 3);
    expect_near("share of MIN", (double)ops[LISTOPS_MIN] / (ops[LISTOPS_MIN] + ops[LISTOPS_MAX]),
                0.5, .02);
    assert_int_equal(ops[LISTOPS_MED] + ops[LISTOPS_SM], 0);
    assert_true(counts[3] > 0 && counts[4] > 0 && counts[5] > 0);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[6], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),           cmocka_unit_test(test_values),
        cmocka_unit_test(test_malformed),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_seeds_and_sizes), cmocka_unit_test(test_golden),
        cmocka_unit_test(test_statistics),      cmocka_unit_test(test_acceptance),
        cmocka_unit_test(test_check),           cmocka_unit_test(test_official_rows),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
