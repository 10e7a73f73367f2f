#include "data/paddles.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "data/raster.h"

enum { CANVAS_MAX = 2 * HALF_MAX * ANTIALIAS + 1, STAMP_MAX = 2 * HALF_MAX + 1 };

static const double pi = 3.14159265358979323846;

/* Memory that paddles_close frees. */
static void *own(Paddles *p, size_t count, size_t size) {
    void *block = mem_alloc(count, size);
    p->owned = mem_grow(p->owned, (size_t)p->nowned + 1, sizeof *p->owned);
    return p->owned[p->nowned++] = block;
}

static const void *keep(Paddles *p, const void *list, int n, size_t size) {
    return memcpy(own(p, (size_t)n + 1, size), list, (size_t)n * size);
}

/* The square `side` shrunk to a stamp, in rows of p->width. */
static const uint8_t *stamp(Paddles *p, const uint8_t *canvas, int side) {
    uint8_t small[STAMP_MAX * STAMP_MAX];
    int n = 2 * p->half + 1;
    uint8_t *out = own(p, (size_t)n, (size_t)p->width);
    raster_shrink(small, n, canvas, side);
    for (int y = 0; y < n; y++) memcpy(out + y * p->width, small + y * n, (size_t)n);
    return out;
}

/* The paddle that begins in the stamp's centre. Ends are rounded up, as the program has it. */
static Stroke draw_stroke(Paddles *p, const SnakeStyle *s, double angle) {
    uint8_t line[CANVAS_MAX * CANVAS_MAX] = {0}, mask[CANVAS_MAX * CANVAS_MAX];
    int n = 2 * p->half + 1, centre = p->half * ANTIALIAS, side = 2 * centre + 1;
    double reach = s->length * ANTIALIAS;
    raster_line(line, side, centre, centre, (int)ceil(centre + reach * sin(angle)),
                (int)ceil(centre + reach * cos(angle)), (int)lround(s->thickness * ANTIALIAS));
    raster_dilate(mask, line, side, p->margin * ANTIALIAS);
    Stroke stroke = {.line = stamp(p, line, side), .mask = stamp(p, mask, side), .top = n};
    for (int y = 0; y < n; y++) {
        bool any = false;
        for (int x = 0; x < n; x++) any |= stroke.mask[y * p->width + x] > 0;
        if (any && stroke.top == n) stroke.top = y;
        if (any) stroke.rows = y + 1 - stroke.top;
    }
    return stroke;
}

/* What the program dilates with is a mask drawn one cell right below its kernel's centre, in a
 * window that cuts it off at margin and length from there. */
static void list_full(Paddles *p, const SnakeStyle *s, Opening *o) {
    Offset list[CELLS_MAX];
    int n = 2 * p->half + 1, reach = s->length + p->margin;
    for (int y = 0; y < n; y++) {
        for (int x = 0; x < n; x++) {
            int dy = y - p->half + 1, dx = x - p->half + 1;
            if (o->stroke.mask[y * p->width + x] < 255 || dy < -reach || dy > reach ||
                dx < -reach || dx > reach)
                continue;
            list[o->nfull++] = (Offset){(int8_t)dy, (int8_t)dx};
        }
    }
    o->full = keep(p, list, o->nfull, sizeof *list);
}

/* Where a paddle is so thin that all its full pixels lie to one side, there are pixels at the
 * border from which none of them is in the window. The program then finds no free pixel at all, in
 * whatever image: its dilation leaves minus infinity there, which it takes for an error. */
static bool sees_window(const SnakeStyle *s, const Opening *o, int y, int x) {
    for (int i = 0; i < o->nfull; i++) {
        int yy = y + o->full[i].y, xx = x + o->full[i].x;
        if (yy >= 0 && yy < s->side && xx >= 0 && xx < s->side) return true;
    }
    return false;
}

static bool is_usable(const SnakeStyle *s, const Opening *o) {
    for (int i = 0; i < s->side; i++)
        if (!sees_window(s, o, 0, i) || !sees_window(s, o, s->side - 1, i) ||
            !sees_window(s, o, i, 0) || !sees_window(s, o, i, s->side - 1))
            return false;
    return true;
}

/* The first snake's beginning keeps so far from the borders that the second one's fits anywhere
 * around it; nothing else is in its way. */
static bool may_start(const SnakeStyle *s, const Opening *o, int y, int x) {
    int from = 2 * s->seed_distance, to = s->side - from;
    for (int i = 0; i < o->nfull; i++) {
        int yy = y + o->full[i].y, xx = x + o->full[i].x;
        if (yy < 0 || yy >= s->side || xx < 0 || xx >= s->side) continue;
        if (yy < from || yy >= to || xx < from || xx >= to) return false;
    }
    return true;
}

static void list_starts(Paddles *p, const SnakeStyle *s, Opening *o) {
    int cells = s->side * s->side;
    int *starts = mem_alloc((size_t)cells, sizeof *starts);
    for (int i = 0; i < cells; i++)
        if (o->usable && may_start(s, o, i / s->side, i % s->side)) starts[o->nstarts++] = i;
    o->starts = keep(p, starts, o->nstarts, sizeof *starts);
    mem_free(starts);
}

static double degree(int i) { return (i - DEGREES / 2) * pi / 180; }

static void fill_openings(Paddles *p, const SnakeStyle *s) {
    for (int i = 0; i < DEGREES; i++) {
        Opening *o = &p->opening[i];
        double angle = degree(i), back = angle < 0 ? angle + pi : angle - pi;
        o->stroke = draw_stroke(p, s, angle);
        o->head_y = s->length * sin(angle);
        o->head_x = s->length * cos(angle);
        o->back_y = (s->length + p->margin) * sin(back);
        o->back_x = (s->length + p->margin) * cos(back);
        list_full(p, s, o);
        o->usable = is_usable(s, o);
        list_starts(p, s, o);
    }
}

/* The circle is sampled at every pixel of its length, from angle 0 on, and cells are cut down to
 * whole numbers; in the order of rows, then columns. */
static void fill_arms(Paddles *p, const SnakeStyle *s) {
    int radius = s->length + p->margin, n = 2 * radius + 1;
    uint8_t *seen = mem_alloc((size_t)n, (size_t)n);
    double step = 360. / (2 * radius * pi);
    for (int i = 0; i * step < 360; i++) {
        double angle = i * step * pi / 180;
        int y = (int)floor(radius * sin(angle)), x = (int)floor(radius * cos(angle));
        seen[(y + radius) * n + x + radius] = 1;
    }
    for (int i = 0; i < n * n; i++) {
        if (!seen[i]) continue;
        REQUIRE(p->arms < ARMS_MAX, "radius %d", radius);
        Arm *a = &p->arm[p->arms++];
        a->y = i / n - radius;
        a->x = i % n - radius;
        double angle = atan2(a->y, a->x);
        a->stroke = draw_stroke(p, s, angle < 0 ? angle + pi : angle - pi);
    }
    mem_free(seen);
}

static double arm_angle(const Arm *a) { return atan2(a->y, a->x); }

/* cos^2 of the change of course times continuity; a right angle and more has no weight. */
static double turn_weight(double from, double to, double continuity) {
    double change = fabs(to - from);
    if (change > pi) change = 2 * pi - change;
    change *= continuity;
    return change < pi / 2 ? cos(change) * cos(change) : 0;
}

static void fill_headings(Paddles *p, const SnakeStyle *s) {
    for (int i = 0; i < DEGREES + p->arms; i++) {
        Heading *h = &p->heading[i];
        double angle = i < DEGREES ? degree(i) : arm_angle(&p->arm[i - DEGREES]);
        Turn *turns = own(p, (size_t)p->arms, sizeof *turns);
        h->on_y = (s->length + 2 * p->margin) * sin(angle);
        h->on_x = (s->length + 2 * p->margin) * cos(angle);
        h->turns = turns;
        for (int a = 0; a < p->arms; a++) {
            double w = turn_weight(angle, arm_angle(&p->arm[a]), s->continuity);
            if (w > 0) turns[h->nturns++] = (Turn){.arm = a, .weight = (float)w};
        }
    }
}

Paddles *paddles_open(const SnakeStyle *s, int margin) {
    Paddles *p = mem_alloc(1, sizeof *p);
    p->margin = margin;
    p->half = s->length + (int)ceil(s->thickness) + margin;
    p->width = 2 * p->half + 1 <= 16 ? 16 : 32;
    REQUIRE(p->half <= HALF_MAX, "paddles that reach %d pixels", p->half);
    for (int y = -margin; y <= margin; y++)
        for (int x = -margin; x <= margin; x++)
            if (y * y + x * x <= margin * margin)
                p->disk[p->ndisk++] = (Offset){(int8_t)y, (int8_t)x};
    fill_openings(p, s);
    fill_arms(p, s);
    fill_headings(p, s);
    return p;
}

void paddles_close(Paddles *p) {
    if (!p) return;
    for (int i = 0; i < p->nowned; i++) mem_free(p->owned[i]);
    mem_free(p->owned);
    mem_free(p);
}
