#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "viz/canvas.h"
#include "viz/cluster_stats.h"

/* ---- token by token ---- */

static Clusters open_clusters(int *list, real *affinity, int N, int C, int k) {
    Clusters c;
    const Traces traces = {.C = C, .k = k};
    const AttnTrace trace = {.clusters = list, .affinities = affinity};
    const ClusterPart part = clusters_part(&traces, 0, -1, 0);
    clusters_open(&c, &traces, &trace, &part, N);
    return c;
}

static void expect_holders(const Clusters *c, int n, int count, const int *wanted) {
    assert_int_equal(clusters_of_token(c, n), count);
    for (int i = 0; i < count; i++) assert_int_equal(c->holders[c->start[n] + i], wanted[i]);
}

static void test_holders(void **state) {
    (void)state;
    int list[] = {0, 2, 1, 2, 2, -1};
    real affinity[] = {5, 1, 1, 1, 5, 1, 2, 3, 2, 9, 9, 9};
    Clusters c = open_clusters(list, affinity, 4, 3, 2);
    assert_int_equal(c.size[0], 2);
    assert_int_equal(c.size[1], 2);
    assert_int_equal(c.size[2], 1);
    expect_holders(&c, 0, 1, (int[]){0});
    expect_holders(&c, 1, 1, (int[]){1});
    expect_holders(&c, 2, 3, (int[]){1, 0, 2}); /* of the equal ones the lower first */
    expect_holders(&c, 3, 0, NULL);
    clusters_close(&c);
}

/* Two heads, two rounds, keys apart; rows are a token longer than the document. */
static void test_groups(void **state) {
    (void)state;
    int queries[] = {0, 0, 1, 9, 2, 0, 2, 9, 0, 1, 0, 9, 1, 1, 1, 9}, keys[16] = {0};
    const Traces t = {.heads = 2, .rounds = 2, .groups = queries, .groups_key = keys};
    const AttnTrace trace = {.groups = queries, .groups_key = keys, .stride = 4};
    char name[CLUSTER_NAME];
    assert_int_equal(clusters_parts(&t, -1), 8);
    assert_int_equal(clusters_parts(&t, 1), 4);
    ClusterPart p = clusters_part(&t, 3, -1, 2);
    assert_string_equal(clusters_name(name, &t, &p), "layer 3, head 0, round 1, queries");
    p = clusters_part(&t, 3, 1, 3);
    assert_string_equal(clusters_file(name, &t, &p), "layer3-head1-round1-keys");
    Clusters c;
    p = clusters_part(&t, 0, 0, 2);
    clusters_open(&c, &t, &trace, &p, 3); /* 2 0 2 */
    assert_int_equal(c.C, 3), assert_int_equal(c.k, 2);
    assert_int_equal(c.size[0], 1), assert_int_equal(c.size[1], 0), assert_int_equal(c.size[2], 2);
    assert_int_equal(c.list[4], 0), assert_int_equal(c.list[5], 2);
    expect_holders(&c, 1, 1, (int[]){0});
    clusters_close(&c);
    p = clusters_part(&t, 0, 1, 1);
    clusters_open(&c, &t, &trace, &p, 3);
    assert_int_equal(c.C, 1), assert_int_equal(c.size[0], 3);
    clusters_close(&c);
}

/* ---- figures ---- */

static LayerStats stats_of(int *list, real *affinity, int N, int C, int k, int cls, int width) {
    ClusterSums s = {.least = INFINITY};
    Clusters c = open_clusters(list, affinity, N, C, k);
    cluster_sums_add(&s, &c, cls, width);
    clusters_close(&c);
    return cluster_sums_means(&s);
}

static void near(double x, double wanted) {
    if (!(fabs(x - wanted) < 1e-12)) fail_msg("%.17g, not %.17g", x, wanted);
}

static void test_sizes_and_entropy(void **state) {
    (void)state;
    int list[] = {0, 1, 1, 2, -1, -1};
    real affinity[] = {1, 1, 0, 1, 0, 0, 2, 1, 1, 0, 0, 0}; /* 1, 0 and 1.5 bits, and none */
    const LayerStats l = stats_of(list, affinity, 4, 3, 2, 0, 0);
    near(l.size, 4.0 / 3);
    near(l.least, 0);
    near(l.most, 2);
    near(l.empty, 1.0 / 3);
    near(l.none, 0.25);
    near(l.several, 0.25);
    near(l.entropy, 2.5 / 3);
    near(l.clusters, 3);
}

/* Quarters of a picture of 4 x 4: a mean square distance of 1/2, and by chance 5/2 * 16/15 * 3/4.
 */
static void test_compact_pictures(void **state) {
    (void)state;
    int list[] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
    real affinity[16 * 4] = {0};
    near(stats_of(list, affinity, 16, 4, 4, 0, 4).compactness, 0.5);
    for (int i = 0; i < 16; i++) list[i] += 1; /* behind a cls token */
    real more[17 * 4] = {0};
    near(stats_of(list, more, 17, 4, 4, 1, 4).compactness, 0.5);
}

static void test_compact_texts(void **state) {
    (void)state;
    int all[] = {0, 1, 2, 3, 4, 5};
    real affinity[6 * 3] = {0};
    near(stats_of(all, affinity, 6, 1, 6, 0, 0).compactness, 1);
    /* Neighbours, and what lies at both ends: 1/4 and 25/4 over 35/12 * 6/5 * 1/2. */
    int two[] = {0, 1, 0, 5};
    near(stats_of(two, affinity, 6, 2, 2, 0, 0).compactness, sqrt((0.25 + 6.25) / 2 / 1.75));
    /* All sets of two out of four are what chance is. */
    int pairs[] = {0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3};
    real six[4 * 6] = {0};
    near(stats_of(pairs, six, 4, 6, 2, 0, 0).compactness, 1);
    int alone[] = {0, 1, 2};
    assert_true(isnan(stats_of(alone, affinity, 6, 3, 1, 0, 0).compactness));
}

/* ---- colours ---- */

static double apart(Rgb a, Rgb b) {
    return sqrt(pow(a.r - b.r, 2) + pow(a.g - b.g, 2) + pow(a.b - b.b, 2));
}

static void test_palette(void **state) {
    (void)state;
    for (int i = 0; i < PALETTE; i++) {
        assert_in_range(palette_xterm(i), 16, 231);
        for (int j = 0; j < i; j++) {
            const double least = i < 16 ? 50 : 40;
            if (apart(palette_colour(i), palette_colour(j)) < least)
                fail_msg("clusters %d and %d look alike", i, j);
            assert_int_not_equal(palette_symbol(i), palette_symbol(j));
        }
    }
    assert_int_equal(palette_xterm(PALETTE + 3), palette_xterm(3));
    assert_true(palette_takes_black((Rgb){255, 255, 95}));
    assert_false(palette_takes_black((Rgb){95, 0, 175}));
}

static void test_heat(void **state) {
    (void)state;
    const Rgb low = palette_heat(0), high = palette_heat(1), none = palette_heat(NAN);
    assert_true(low.b > low.r && high.r > high.b);
    assert_memory_equal(&none, &low, sizeof low);
    for (int i = 1; i <= 100; i++) /* brighter and brighter */
        assert_true(palette_heat(i / 100.0).g >= palette_heat((i - 1) / 100.0).g);
}

/* ---- drawing ---- */

static int painted(const Canvas *c) {
    int n = 0;
    for (int i = 0; i < c->width * c->height; i++) n += c->rgb[3 * i] != 0;
    return n;
}

static void test_canvas(void **state) {
    (void)state;
    const Rgb black = {0, 0, 0}, white = {255, 255, 255};
    Canvas c = canvas_open(20, 10, black);
    canvas_fill(&c, 3, 2, 4, 5, white);
    assert_int_equal(painted(&c), 20);
    assert_int_equal(c.rgb[3 * (2 * 20 + 3)], 255);
    assert_int_equal(c.rgb[3 * (7 * 20 + 3)], 0);
    canvas_fill(&c, -5, -5, 100, 6, white);
    assert_int_equal(painted(&c), 40);
    canvas_fill(&c, 19, 9, 100, 100, white);
    canvas_fill(&c, 20, 10, 1, 1, white);
    assert_int_equal(painted(&c), 41);
    canvas_close(&c);
}

/* As DejaVu Sans has it: the stem and the dot of an i, one pixel wide. */
static void test_text(void **state) {
    (void)state;
    const Rgb black = {0, 0, 0}, white = {255, 255, 255};
    Canvas c = canvas_open(60, 20, black);
    assert_int_equal(canvas_text(&c, 2, 0, TYPE_SMALL, white, "i"), 2 + 3);
    assert_int_equal(painted(&c), 7);
    const TypeGlyph *i = &typefaces[TYPE_SMALL]['i' - TYPE_FIRST];
    assert_int_equal(c.rgb[3 * (i->top * 60 + 2 + i->left)], 255);
    assert_int_equal(canvas_text(&c, -1, 15, TYPE_LARGE, white, "cut off at the end"),
                     canvas_text_width(TYPE_LARGE, "cut off at the end") - 1);
    assert_int_equal(canvas_text_width(TYPE_LARGE, "\xc3\xa9"), canvas_text_width(TYPE_LARGE, "?"));
    canvas_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_sizes_and_entropy),
        cmocka_unit_test(test_compact_pictures),
        cmocka_unit_test(test_compact_texts),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_palette),
        cmocka_unit_test(test_heat),
        cmocka_unit_test(test_canvas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
