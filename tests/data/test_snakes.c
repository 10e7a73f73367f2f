#include "data/snakes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <zlib.h>

#include "core/lanes.h"
#include "data/paddles.h"
#include "data/raster.h"
#include "data/task.h"
#include "scratch.h"

/* Lines from the centre of a square, as Pillow 13 draws them, and shrunk as it shrinks them. */
typedef struct Line {
    int side, y, x, width;
    const char *picture;
    uint8_t small[36];
} Line;

static const Line lines[] = {
    {9,
     7,
     5,
     1,
     "........."
     "........."
     "........."
     "........."
     "....#...."
     "....#...."
     ".....#..."
     ".....#..."
     ".........",
     {0, 0, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 116, 0, 0, 2, 0, 110, 71, 0, 2, 0, 29, 51, 0}},
    {11,
     9,
     8,
     3,
     "..........."
     "..........."
     "..........."
     "..........."
     "......#...."
     ".....###..."
     "....####..."
     ".....####.."
     "......####."
     "......###.."
     ".......#...",
     {0, 0, 1,   3,   1,   0, 0, 0, 0,  0,   0,   0,  1, 1, 13, 144, 21,  1,
      3, 0, 151, 255, 112, 0, 1, 3, 26, 215, 253, 61, 0, 3, 0,  123, 167, 9}},
    {11,
     1,
     7,
     4,
     "..........."
     ".....#....."
     ".....####.."
     "....####..."
     "....####..."
     "...####...."
     "......#...."
     "..........."
     "..........."
     "..........."
     "...........",
     {2, 1,  31, 40,  9, 2, 4, 0, 117, 240, 150, 1, 1, 29, 243, 255, 61, 0,
      0, 30, 70, 127, 0, 1, 0, 0, 0,   0,   1,   0, 0, 1,  4,   2,   0,  0}},
    {11,
     5,
     9,
     2,
     "..........."
     "..........."
     "..........."
     "..........."
     "..........."
     ".....#####."
     ".....#####."
     "..........."
     "..........."
     "..........."
     "...........",
     {0, 0, 1,  4,   4,   2,   0, 0, 0, 0, 0, 0, 1, 0, 22, 80, 80, 38,
      4, 0, 61, 225, 225, 107, 0, 0, 0, 0, 0, 0, 0, 0, 1,  2,  2,  1}},
};

static void test_lines(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        const Line *l = &lines[k];
        uint8_t picture[121] = {0}, small[36];
        int side = l->side, to = (side - 1) / 2 + 1;
        raster_line(picture, side, side / 2, side / 2, l->y, l->x, l->width);
        for (int i = 0; i < side * side; i++)
            assert_int_equal(picture[i], l->picture[i] == '#' ? 255 : 0);
        raster_shrink(small, to, picture, side);
        assert_memory_equal(small, l->small, (size_t)(to * to));
    }
}

/* Lines that leave the square are cut off, and a single point is a point. */
static void test_line_edges(void **state) {
    uint8_t picture[49] = {0};
    (void)state;
    raster_line(picture, 7, 3, 3, 3, 3, 3);
    for (int i = 0; i < 49; i++) assert_int_equal(picture[i], i == 24 ? 255 : 0);
    raster_line(picture, 7, -40, 2, 40, 2, 1);
    raster_line(picture, 7, 5, -40, 5, 40, 3);
    for (int y = 0; y < 7; y++)
        for (int x = 0; x < 7; x++)
            assert_int_equal(picture[y * 7 + x],
                             x == 2 || (y >= 4 && y <= 6) || (y == 3 && x == 3) ? 255 : 0);
}

static void test_dilate(void **state) {
    uint8_t in[81] = {0}, out[81];
    (void)state;
    in[4 * 9 + 4] = in[0] = 255;
    raster_dilate(out, in, 9, 2);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 9; x++) {
            bool near = (y - 4) * (y - 4) + (x - 4) * (x - 4) <= 4 || y * y + x * x <= 4;
            assert_int_equal(out[y * 9 + x], near ? 255 : 0);
        }
}

static void test_flat_stays_flat(void **state) {
    uint8_t in[64 * 64], out[32 * 32];
    (void)state;
    memset(in, 77, sizeof in);
    raster_shrink(out, 32, in, 64);
    for (int i = 0; i < 32 * 32; i++) assert_int_equal(out[i], 77);
}

static void expect_row(const Paddles *p, const uint8_t *stamp, int row, int from,
                       const char *expected) {
    for (int x = from; *expected; x++) {
        char *end;
        assert_int_equal(stamp[row * p->width + x], strtol(expected, &end, 10));
        expected = end;
    }
}

/* Values of the official program, angle 0 being degree 180. */
static void test_strokes_32(void **state) {
    SnakeStyle style;
    (void)state;
    assert_true(snake_style(&style, 32, 14));
    Paddles *p = paddles_open(&style, 1);
    const Stroke *flat = &p->opening[180].stroke, *down = &p->opening[270].stroke;
    assert_int_equal(p->half, 4);
    expect_row(p, flat->line, 4, 3, "0 102 135 116 0 0");
    expect_row(p, flat->mask, 3, 3, "20 173 204 186 28 0");
    expect_row(p, flat->mask, 4, 3, "155 255 255 255 183");
    expect_row(p, flat->mask, 5, 3, "20 173 204 186 28 0");
    expect_row(p, down->line, 4, 4, "102 0");
    expect_row(p, down->line, 5, 4, "147 0");
    expect_row(p, down->line, 6, 4, "116 0");
    paddles_close(p);
}

static void test_strokes_128(void **state) {
    SnakeStyle style;
    (void)state;
    assert_true(snake_style(&style, 128, 14));
    Paddles *p = paddles_open(&style, 3);
    const Stroke *flat = &p->opening[180].stroke;
    assert_int_equal(p->half, 10);
    expect_row(p, flat->line, 9, 9, "0 49 64 64 64 64 55 0");
    expect_row(p, flat->line, 10, 9, "0 216 255 255 255 255 247 0");
    expect_row(p, flat->line, 11, 9, "0 49 64 64 64 64 55 0");
    paddles_close(p);
}

static void test_styles(void **state) {
    static const int cases[][4] = {/* side, paddles, distractors, their paddles */
                                   {32, 14, 5, 4},  {32, 9, 6, 3},   {32, 6, 10, 2},
                                   {64, 14, 5, 4},  {128, 14, 8, 4}, {128, 6, 17, 2},
                                   {256, 14, 7, 4}, {256, 9, 10, 3}};
    SnakeStyle s;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(snake_style(&s, cases[i][0], cases[i][1]));
        assert_int_equal(s.side, cases[i][0]);
        assert_int_equal(s.paddles, cases[i][1]);
        assert_int_equal(s.distractors, cases[i][2]);
        assert_int_equal(s.distractor_size, cases[i][3]);
    }
    assert_false(snake_style(&s, 48, 14));
}

/* The settings of both tasks, as LRA's data set builder states them. */
static void test_settings(void **state) {
    static const struct {
        int side, length, margin[2], seed_distance;
        double thickness, continuity, marker, contrast, paddle_contrast;
    } cases[] = {{32, 2, {1, 1}, 7, 0.5, 1.0, 1.5, 2.0, 0.75},
                 {128, 5, {2, 3}, 20, 1.5, 1.8, 3.0, 0.9, 1.0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SnakeStyle s;
        assert_true(snake_style(&s, cases[i].side, 14));
        assert_int_equal(s.padding, 1);
        assert_int_equal(s.length, cases[i].length);
        assert_int_equal(s.margin[0], cases[i].margin[0]);
        assert_int_equal(s.margin[1], cases[i].margin[1]);
        assert_int_equal(s.seed_distance, cases[i].seed_distance);
        assert_true(s.thickness == cases[i].thickness && s.continuity == cases[i].continuity);
        assert_true(s.marker == cases[i].marker && s.contrast == cases[i].contrast);
        assert_true(s.paddle_contrast == cases[i].paddle_contrast);
    }
}

typedef struct Figures {
    double label, mean, zeros, above64, above128, distractors, attempts, components;
    double means[2]; /* of the mean, by label */
    int labels[2];
} Figures;

static double share(const uint8_t *p, int n, int above) {
    int count = 0;
    for (int i = 0; i < n; i++) count += p[i] > above;
    return (double)count / n;
}

/* Parts of the picture above 48 that touch at sides or corners: paddles, for the most part. */
static int components(const uint8_t *p, int side) {
    static uint8_t seen[SIDE_MAX * SIDE_MAX];
    static int stack[SIDE_MAX * SIDE_MAX];
    int count = 0;
    memset(seen, 0, sizeof seen);
    for (int start = 0; start < side * side; start++) {
        if (p[start] <= 48 || seen[start]) continue;
        int n = 0;
        stack[n++] = start, seen[start] = 1, count++;
        while (n > 0) {
            const int at = stack[--n], y = at / side, x = at % side;
            for (int to = 0; to < 9; to++) {
                const int v = y + to / 3 - 1, u = x + to % 3 - 1, next = v * side + u;
                if (v < 0 || u < 0 || v >= side || u >= side || p[next] <= 48 || seen[next])
                    continue;
                stack[n++] = next, seen[next] = 1;
            }
        }
    }
    return count;
}

static Figures measure(const SnakeStyle *style, int images) {
    static uint8_t p[SIDE_MAX * SIDE_MAX];
    Figures f = {0};
    Snakes *snakes = snakes_open(style);
    int n = style->side * style->side;
    for (int i = 0; i < images; i++) {
        SnakeFacts facts;
        double sum = 0;
        snakes_draw(snakes, 1, (uint64_t)i, p, &facts);
        assert_true(share(p, n, 254) > 0 && share(p, n, 0) < 1);
        for (int k = 0; k < n; k++) sum += p[k];
        f.label += (double)facts.label / images;
        f.mean += sum / n / images;
        f.zeros += (1 - share(p, n, 0)) / images;
        f.above64 += share(p, n, 64) / images;
        f.above128 += share(p, n, 128) / images;
        f.distractors += (double)facts.distractors / images;
        f.attempts += (double)facts.attempts / images;
        f.components += (double)components(p, style->side) / images;
        f.means[facts.label] += sum / n;
        f.labels[facts.label]++;
    }
    snakes_close(snakes);
    for (int k = 0; k < 2; k++) f.means[k] /= f.labels[k];
    return f;
}

static void expect_near(const char *what, double value, double expected, double bound) {
    printf("# %s %.4f (%.4f +- %.4f)\n", what, value, expected, bound);
    if (!(fabs(value - expected) <= bound))
        fail_msg("%s: %.4f, expected %.4f +- %.4f", what, value, expected, bound);
}

/* Against figures measured on images of the official program. */
static void test_figures_32(void **state) {
    SnakeStyle style;
    (void)state;
    assert_true(snake_style(&style, 32, 14));
    Figures f = measure(&style, 5000);
    expect_near("Pathfinder-32: positives", f.label, .5, .02);
    expect_near("mean", f.mean, 20.1, .4);
    expect_near("zeros", f.zeros, .66, .01);
    expect_near("above 64", f.above64, .1255, .004);
    expect_near("above 128", f.above128, .0843, .003);
    expect_near("distractors", f.distractors, 1.16, .08);
    expect_near("components", f.components, 13.0, .4);
    expect_near("attempts", f.attempts, 334, 100);
    expect_near("mean of positives", f.means[1], f.means[0], .8);
}

static void test_figures_128(void **state) {
    SnakeStyle style;
    (void)state;
    assert_true(snake_style(&style, 128, 14));
    Figures f = measure(&style, 300);
    expect_near("Path-X: mean", f.mean, 7.9, .4);
    expect_near("zeros", f.zeros, .862, .008);
    expect_near("above 64", f.above64, .041, .002);
    expect_near("distractors", f.distractors, 7.7, .2);
    style.distractors = 17;
    style.contrast = .7;
    f = measure(&style, 24);
    expect_near("Path-X as released: mean", f.mean, 9.1, .9);
    expect_near("zeros", f.zeros, .798, .02);
    expect_near("distractors", f.distractors, 15, 2);
}

/* Sides and difficulties of which we know no more than that they are drawn. */
static void test_other_styles(void **state) {
    static const int cases[][3] = {{32, 9, 2}, {32, 6, 4}, {64, 6, 3}, {128, 9, 8}, {256, 6, 3}};
    SnakeStyle style;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(snake_style(&style, cases[i][0], cases[i][1]));
        Figures f = measure(&style, cases[i][2]);
        assert_true(f.zeros > .5 && f.zeros < .99);
    }
    style.distractors = 0;
    assert_true(measure(&style, 2).distractors == 0);
}

/* The first images of seed 1, so that they never change unnoticed; not the same for seed 2. */
static void test_seed(void **state) {
    static const int labels[8] = {0, 0, 1, 1, 0, 0, 1, 1};
    SnakeStyle style;
    SnakeFacts facts;
    uint8_t p[1024];
    uLong crc[2] = {0};
    (void)state;
    assert_true(snake_style(&style, 32, 14));
    Snakes *snakes = snakes_open(&style);
    for (int i = 15; i >= 0; i--) { /* in whatever order */
        snakes_draw(snakes, (uint64_t)(i / 8 + 1), (uint64_t)(i % 8), p, &facts);
        crc[i / 8] = crc[i / 8] ^ crc32(0, p, sizeof p);
        if (i < 8) assert_int_equal(facts.label, labels[i]);
    }
    assert_int_equal(crc[0], 0x7a1c8742u);
    assert_true(crc[0] != crc[1]);
    snakes_close(snakes);
}

/* The same for Path-X; both margins occur. */
static void test_seed_128(void **state) {
    static const int margins[8] = {2, 3, 2, 3, 3, 2, 3, 3};
    static uint8_t p[128 * 128];
    SnakeStyle style;
    SnakeFacts facts;
    uLong crc = 0;
    (void)state;
    assert_true(snake_style(&style, 128, 14));
    Snakes *snakes = snakes_open(&style);
    for (int i = 0; i < 8; i++) {
        snakes_draw(snakes, 1, (uint64_t)i, p, &facts);
        crc = crc32(crc, p, sizeof p);
        assert_int_equal(facts.margin, margins[i]);
    }
    assert_int_equal(crc, 0x2d0134dbu);
    snakes_close(snakes);
}

static void test_threads(void **state) {
    TaskRequest r = {.seed = 3, .train = 40, .val = 5, .test = 5};
    Err err = {0};
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        lanes_open(threads);
        r.out = scratch(threads == 1 ? "one" : "three");
        if (!task_generate(task_find("pathfinder"), &r, &err)) fail_msg("%s", err.text);
    }
    static const char *const names[] = {"train", "val", "test"};
    for (int i = 0; i < 3; i++) {
        char name[2][64];
        size_t n[2];
        snprintf(name[0], sizeof name[0], "one/%s.safetensors", names[i]);
        snprintf(name[1], sizeof name[1], "three/%s.safetensors", names[i]);
        unsigned char *a = scratch_read(scratch(name[0]), &n[0]);
        unsigned char *b = scratch_read(scratch(name[1]), &n[1]);
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(a, b, n[0]);
        free(a);
        free(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_line_edges),
        cmocka_unit_test(test_dilate),       cmocka_unit_test(test_flat_stays_flat),
        cmocka_unit_test(test_strokes_32),   cmocka_unit_test(test_strokes_128),
        cmocka_unit_test(test_styles),       cmocka_unit_test(test_settings),
        cmocka_unit_test(test_figures_32),   cmocka_unit_test(test_figures_128),
        cmocka_unit_test(test_other_styles), cmocka_unit_test(test_seed),
        cmocka_unit_test(test_seed_128),     cmocka_unit_test(test_threads),
    };
    lanes_open(1);
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
