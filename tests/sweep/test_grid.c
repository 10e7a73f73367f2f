#include "sweep/grid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8 };
#define LISTS(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static Grid open_grid(char *const *lists, const char *seeds) {
    Grid g;
    Err err;
    int n = 0;
    while (lists[n]) n++;
    if (!grid_open(&g, lists, n, seeds, &err)) fail_msg("%s", err.text);
    return g;
}

/* A run's overrides, with spaces between, and its name. */
static void expect(const Grid *g, int run, const char *overrides, const char *name) {
    char *list[MOST], text[1024] = "", got[GRID_NAME_SIZE];
    const int keys = grid_overrides(g, run, list);
    for (int i = 0; i < keys; i++) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i ? " " : "", list[i]);
    }
    if (overrides) assert_string_equal(text, overrides);
    grid_name(g, run, got);
    assert_string_equal(got, name);
}

static void test_product(void **state) {
    (void)state;
    Grid g = open_grid(LISTS("model.d=8,16", "train.lr=1", "model.heads=2,4"), "3..4,9");
    char *plain[MOST];
    assert_int_equal(g.runs, 12);
    expect(&g, 0, "model.d=8 train.lr=1 model.heads=2 train.seed=3", "d=8,heads=2,seed=3");
    expect(&g, 1, "model.d=8 train.lr=1 model.heads=4 train.seed=3", "d=8,heads=4,seed=3");
    expect(&g, 2, "model.d=16 train.lr=1 model.heads=2 train.seed=3", "d=16,heads=2,seed=3");
    expect(&g, 4, "model.d=8 train.lr=1 model.heads=2 train.seed=4", "d=8,heads=2,seed=4");
    expect(&g, 11, "model.d=16 train.lr=1 model.heads=4 train.seed=9", "d=16,heads=4,seed=9");
    assert_int_equal(grid_value(&g, 11, 3), 2);
    assert_int_equal(grid_plain(&g, plain), 1);
    assert_string_equal(plain[0], "train.lr=1");
    grid_name_key(&g, "train.lr");
    expect(&g, 0, NULL, "d=8,lr=1,heads=2,seed=3");
    grid_free(&g);
}

/* A key of a mechanism goes to those that have it; one that none has to all. */
static void test_mechanisms(void **state) {
    (void)state;
    Grid g = open_grid(LISTS("model.attention.clusters=4,8", "model.attention.type=cast,full,lsh",
                             "model.attention.rounds=1,2", "train.lr=1,2", "model.attention.x=0"),
                       "3,4");
    assert_int_equal(g.runs, 2 * 2 * (2 + 1 + 2));
    expect(&g, 0,
           "model.attention.clusters=4 model.attention.type=cast train.lr=1 "
           "model.attention.x=0 train.seed=3",
           "clusters=4,type=cast,lr=1,seed=3");
    expect(&g, 2, "model.attention.type=full train.lr=1 model.attention.x=0 train.seed=3",
           "type=full,lr=1,seed=3");
    expect(&g, 7,
           "model.attention.type=lsh model.attention.rounds=2 train.lr=2 "
           "model.attention.x=0 train.seed=3",
           "type=lsh,rounds=2,lr=2,seed=3");
    expect(&g, 8, NULL, "clusters=8,type=cast,lr=1,seed=3");
    expect(&g, 19, NULL, "clusters=8,type=cast,lr=2,seed=4");
    assert_int_equal(grid_value(&g, 2, 0), -1);
    assert_int_equal(grid_value(&g, 8, 0), 1);
    grid_free(&g);
    g = open_grid(LISTS("model.attention.type=full", "model.attention.clusters=4,8"), NULL);
    assert_int_equal(g.runs, 2); /* each of which is refused */
    grid_free(&g);
}

static void test_single_values(void **state) {
    (void)state;
    Grid g = open_grid(LISTS("train.lr=1", "data.dir="), NULL);
    assert_int_equal(g.runs, 1);
    expect(&g, 0, "train.lr=1 data.dir=", "run");
    grid_free(&g);
    g = open_grid(LISTS("train.lr=1"), "5"); /* --seeds is told even if it is one */
    expect(&g, 0, "train.lr=1 train.seed=5", "seed=5");
    grid_free(&g);
    g = open_grid(LISTS("data.dir=1.1,1.10,\"1.1\""),
                  NULL); /* texts, though they look like numbers */
    assert_int_equal(g.runs, 2);
    expect(&g, 1, "data.dir=1.10", "dir=1.10");
    grid_free(&g);
    g = open_grid(LISTS("a={\"b\":1}", "a.c=2", "ab=3"), NULL); /* within what came before */
    assert_int_equal(g.runs, 1);
    grid_free(&g);
}

static void test_top_level_commas(void **state) {
    (void)state;
    Grid g = open_grid(LISTS("a={\"x\":[1,2],\"y\":\"},\\\",{\"},[3,4],\"p,q\",r"), NULL);
    assert_int_equal(g.runs, 4);
    assert_string_equal(g.keys[0].assignment[0], "a={\"x\":[1,2],\"y\":\"},\\\",{\"}");
    assert_string_equal(g.keys[0].assignment[1], "a=[3,4]");
    assert_string_equal(g.keys[0].assignment[2], "a=\"p,q\"");
    assert_string_equal(g.keys[0].assignment[3], "a=r");
    grid_free(&g);
}

static void test_values_once(void **state) {
    (void)state;
    Grid g = open_grid(LISTS("lr=1e-3,0.001,0.0010,2e-3", "t=cast,\"cast\""), "1,1..2,2");
    assert_int_equal(g.runs, 4);
    expect(&g, 0, "lr=1e-3 t=cast train.seed=1", "lr=0.001,seed=1");
    expect(&g, 1, "lr=2e-3 t=cast train.seed=1", "lr=0.002,seed=1");
    grid_free(&g);
}

static void test_short_names(void **state) {
    (void)state;
    Grid g = open_grid(LISTS("a.b.d=1,2", "c.b.d=1,2", "a.e=1,2", "x.be=1,2"), NULL);
    expect(&g, 0, NULL, "a.b.d=1,c.b.d=1,e=1,be=1");
    grid_free(&g);
    g = open_grid(LISTS("model.dropout=0,1", "model.attention.dropout=0,1"), NULL);
    expect(&g, 0, NULL, "model.dropout=0,attention.dropout=0");
    grid_free(&g);
    g = open_grid(LISTS("d=0,1", "model.d=0,1"), NULL); /* the whole of one ends the other */
    expect(&g, 0, NULL, "d=0,model.d=0");
    grid_free(&g);
}

/* No name leads elsewhere, and none is another's, whatever the values. */
static void test_safe_names(void **state) {
    (void)state;
    char list[3000] = "dir=../a,.._a,a b,a_b,'a\\,{\"x\":1},\xc3\xa9,\xc3\xa8,-,$(a),A,a,";
    for (int i = 0; i < 2; i++) { /* two that differ in the last of 900 characters */
        char *at = list + strlen(list);
        memset(at, 'z', 900);
        snprintf(at + 900, 4, i ? "2" : "1,");
    }
    Grid g = open_grid(LISTS(list, "y=" /* nothing */), "7");
    char name[32][GRID_NAME_SIZE];
    assert_int_equal(g.runs, 14);
    for (int i = 0; i < g.runs; i++) {
        grid_name(&g, i, name[i]);
        assert_true(strlen(name[i]) < 100);
        assert_int_equal(name[i][strspn(name[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                                                 "VWXYZ0123456789._+-=,@")],
                         '\0');
        for (int j = 0; j < i; j++) assert_string_not_equal(name[i], name[j]);
    }
    assert_string_equal(name[1], "dir=.._a,seed=7");
    assert_memory_equal(name[0], "dir=.._a@", 9);
    grid_free(&g);
}

static void test_long_names(void **state) {
    (void)state;
    char text[MOST][128], *lists[MOST + 1] = {NULL}, name[2][GRID_NAME_SIZE];
    for (int i = 0; i < MOST; i++) {
        snprintf(text[i], sizeof text[i], "section.a_key_of_thirty_letters_%d=%040d1,%040d2", i, 0,
                 0);
        lists[i] = text[i];
    }
    Grid g = open_grid(lists, NULL);
    grid_name(&g, 0, name[0]);
    grid_name(&g, 1, name[1]);
    assert_true(strlen(name[0]) < 255);
    assert_string_not_equal(name[0], name[1]);
    grid_free(&g);
}

static void refused(const char *list, const char *seeds, const char *text) {
    Grid g;
    Err err;
    char copy[128];
    snprintf(copy, sizeof copy, "%s", list);
    char *lists[] = {copy, (char *)"x=1"};
    if (grid_open(&g, lists, 2, seeds, &err)) fail_msg("%s is not refused", list);
    assert_int_equal(err.code, EX_USAGE);
    if (!strstr(err.text, text)) fail_msg("%s", err.text);
}

static void test_refused(void **state) {
    (void)state;
    refused("a", NULL, "key=value");
    refused("=1", NULL, "key=value");
    refused("a=1,,2", NULL, "is empty");
    refused("a=1,", NULL, "is empty");
    refused("a=,", NULL, "is empty");
    refused("a=[1,2", NULL, "not closed");
    refused("a=\"1,2", NULL, "not closed");
    refused("x=2", NULL, "given twice");
    refused("x.y=2,3", NULL, "'x' replaces 'x.y'");
    refused("train.seed=1", "1", "not both");
    refused("a=1", "", "--seeds");
    refused("a=1", "1,", "--seeds");
    refused("a=1", "-1", "--seeds");
    refused("a=1", "3..1", "--seeds");
    refused("a=1", "1..", "--seeds");
    refused("a=1", "1..2147483648", "--seeds");
    refused("a=1", "0..2147483647", "more than 10000");
    refused("a=1,2", "1..9999", "more than 10000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),     cmocka_unit_test(test_single_values),
        cmocka_unit_test(test_mechanisms),  cmocka_unit_test(test_top_level_commas),
        cmocka_unit_test(test_values_once), cmocka_unit_test(test_short_names),
        cmocka_unit_test(test_safe_names),  cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
