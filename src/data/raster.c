/* Pillow: src/libImaging/Draw.c and Resample.c. */
#include "data/raster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

static void set(uint8_t *picture, int side, int y, int x) {
    if (y >= 0 && y < side && x >= 0 && x < side) picture[y * side + x] = 255;
}

static void thin_line(uint8_t *picture, int side, int y, int x, int y1, int x1) {
    int dy = abs(y1 - y), dx = abs(x1 - x), sy = y1 < y ? -1 : 1, sx = x1 < x ? -1 : 1;
    bool flat = dx > dy;
    int along = flat ? dx : dy, across = flat ? dy : dx;
    for (int i = 0, e = 2 * across - along; i < along; i++) {
        set(picture, side, y, x);
        /* Lines along an axis never step aside: across is 0 and e stays below 0. */
        if (e >= 0) {
            e -= 2 * along;
            if (flat)
                y += sy;
            else
                x += sx;
        }
        e += 2 * across;
        if (flat)
            x += sx;
        else
            y += sy;
    }
    set(picture, side, y1, x1);
}

/* To the nearest whole number; halves away from 0, and towards 0. */
static int round_out(double v) { return (int)(v >= 0 ? floor(v + 0.5) : -floor(-v + 0.5)); }
static int round_in(double v) { return (int)(v >= 0 ? ceil(v - 0.5) : -ceil(-v - 0.5)); }

typedef struct Point {
    int y, x;
} Point;

/* a / b, b > 0, to the nearest whole number; halves down, or up. */
static int floor_div(int a, int b) { return a / b - (a % b < 0); }
static int nearest_down(int a, int b) { return -floor_div(b - 2 * a, 2 * b); }
static int nearest_up(int a, int b) { return floor_div(2 * a + b, 2 * b); }

/* Widens *from..*to by where the edge a-b crosses row y. The crossing is a fraction, so nothing is
 * rounded before its end: up at the left, down at the right, as Pillow does for coordinates that
 * are not negative. */
static void cross(Point a, Point b, int y, int *from, int *to) {
    if (a.y > b.y) {
        Point t = a;
        a = b;
        b = t;
    }
    if (y < a.y || y > b.y) return;
    int rise = b.y - a.y, left, right;
    if (rise == 0) {
        left = a.x < b.x ? a.x : b.x;
        right = a.x < b.x ? b.x : a.x;
    } else {
        int at = a.x * rise + (y - a.y) * (b.x - a.x);
        left = nearest_up(at, rise);
        right = nearest_down(at, rise);
    }
    if (left < *from) *from = left;
    if (right > *to) *to = right;
}

static void fill_quad(uint8_t *picture, int side, const Point p[4]) {
    for (int y = 0; y < side; y++) {
        int from = side, to = -1;
        for (int i = 0; i < 4; i++) cross(p[i], p[(i + 1) % 4], y, &from, &to);
        for (int x = from < 0 ? 0 : from; x <= to && x < side; x++) picture[y * side + x] = 255;
    }
}

void raster_line(uint8_t *picture, int side, int y0, int x0, int y1, int x1, int width) {
    if (width <= 1 || (y0 == y1 && x0 == x1)) {
        thin_line(picture, side, y0, x0, y1, x1);
        return;
    }
    int dy = y1 - y0, dx = x1 - x0;
    double length = hypot(dx, dy), half = (width - 1) / 2.0;
    double less = round_in(half) / length, more = round_out(half) / length;
    int x_less = round_in(less * dy), x_more = round_in(more * dy);
    int y_less = round_out(less * dx), y_more = round_out(more * dx);
    const Point corners[4] = {{y0 + y_more, x0 - x_less},
                              {y1 + y_more, x1 - x_less},
                              {y1 - y_less, x1 + x_more},
                              {y0 - y_less, x0 + x_more}};
    fill_quad(picture, side, corners);
}

void raster_disk(uint8_t *picture, int side, int cy, int cx, double radius) {
    int r = (int)ceil(radius);
    for (int y = -r; y <= r; y++)
        for (int x = -r; x <= r; x++)
            if (y * y + x * x <= radius * radius) set(picture, side, cy + y, cx + x);
}

void raster_dilate(uint8_t *out, const uint8_t *in, int side, int radius) {
    memset(out, 0, (size_t)side * (size_t)side);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            if (in[y * side + x]) raster_disk(out, side, y, x, radius);
}

/* What one pixel of a shrunken row reads: `count` pixels from `first`, weighted in fixed point. */
enum { BITS = 22, LOBES = 3, TAPS = 32 };
typedef struct Reach {
    int first, count;
    int32_t weight[TAPS];
} Reach;

static double sinc(double x) {
    const double pi = 3.14159265358979323846;
    return x == 0 ? 1 : sin(x * pi) / (x * pi);
}

static double lanczos(double x) { return x > -LOBES && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0; }

static void reach(Reach *r, int i, int to, int from) {
    double scale = (double)from / to, support = LOBES * scale, centre = (i + 0.5) * scale;
    double w[TAPS], sum = 0;
    int first = (int)(centre - support + 0.5), last = (int)(centre + support + 0.5);
    r->first = first < 0 ? 0 : first;
    r->count = (last > from ? from : last) - r->first;
    REQUIRE(r->count <= TAPS, "from %d to %d", from, to);
    for (int k = 0; k < r->count; k++)
        sum += w[k] = lanczos((k + r->first - centre + 0.5) * (1 / scale));
    for (int k = 0; k < r->count; k++) {
        double fixed = w[k] / sum * (1 << BITS);
        r->weight[k] = (int32_t)(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
    }
}

/* The pixels from p on, `stride` apart, under the weights. */
static uint8_t weigh(const Reach *r, const uint8_t *p, int stride) {
    int32_t sum = 1 << (BITS - 1);
    for (int k = 0; k < r->count; k++) sum += r->weight[k] * p[(r->first + k) * stride];
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static bool is_dark(const uint8_t *row, int n) {
    uint8_t any = 0;
    for (int i = 0; i < n; i++) any |= row[i];
    return any == 0;
}

void raster_shrink(uint8_t *out, int to, const uint8_t *in, int from) {
    Reach *r = mem_alloc((size_t)to, sizeof *r);
    uint8_t *narrow = mem_alloc((size_t)from * (size_t)to, 1);
    for (int i = 0; i < to; i++) reach(&r[i], i, to, from);
    for (int y = 0; y < from; y++) {
        if (is_dark(in + y * from, from)) continue; /* nor is there light in what it becomes */
        for (int i = 0; i < to; i++) narrow[y * to + i] = weigh(&r[i], in + y * from, 1);
    }
    for (int i = 0; i < to; i++)
        for (int x = 0; x < to; x++) out[i * to + x] = weigh(&r[i], narrow + x, to);
    mem_free(narrow);
    mem_free(r);
}
