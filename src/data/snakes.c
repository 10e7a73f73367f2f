/* The room that paddles take is kept as bytes ("taken"), 255 being all of a pixel: a paddle's mask
 * goes in only when the next paddle of its snake is in place, so that neighbours of one snake may
 * come close. The two snakes grow in turns; where one finds no way on, both begin anew, which all
 * but a few in a thousand do. So an attempt costs a few microseconds: what a paddle looks like is
 * kept for all directions (data/paddles.h), room is looked at only where a snake may go, and the
 * image is drawn when all is in place. */
#include "data/snakes.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/paddles.h"
#include "data/raster.h"

enum {
    FULL = 255,
    /* A paddle does not fit where taken and its mask sum to this, 1.8 * 255. (For sums of just that
     * the program leaves it to rounding.) */
    CROWDED = 459,
    FREE_MOST = 76,  /* a pixel taken less than .3 still counts as free */
    TRIES = 3,       /* at a paddle */
    SNAKE_TRIES = 5, /* at a distractor */
    EDGE_Y = 2 * HALF_MAX,
    EDGE_X = 32, /* unused bytes around the window, so that stamps need no cutting in most places */
    STAMP_BYTES = (2 * HALF_MAX + 1) * 32,
    PLACED_MAX = 2 * 14 + DISTRACTORS_MAX * 14
};

struct Snakes {
    SnakeStyle style;
    Paddles *paddles[2]; /* of each margin; both the same where margins are */
};

Snakes *snakes_open(const SnakeStyle *s) {
    REQUIRE(s->side <= SIDE_MAX && s->distractors <= DISTRACTORS_MAX && s->paddles <= 14 &&
                s->distractor_size <= 14,
            "side %d, %d distractors of %d, %d paddles", s->side, s->distractors,
            s->distractor_size, s->paddles);
    Snakes *all = mem_alloc(1, sizeof *all);
    all->style = *s;
    all->paddles[0] = all->paddles[1] = paddles_open(s, s->margin[0]);
    if (s->margin[1] != s->margin[0]) all->paddles[1] = paddles_open(s, s->margin[1]);
    return all;
}

void snakes_close(Snakes *s) {
    if (!s) return;
    if (s->paddles[1] != s->paddles[0]) paddles_close(s->paddles[1]);
    paddles_close(s->paddles[0]);
    mem_free(s);
}

/* A stroke in place: its centre, and how bright it is. */
typedef struct Placed {
    const Stroke *stroke;
    int y, x;
    double contrast;
} Placed;

typedef struct Snake {
    Placed last; /* not yet taken */
    int heading; /* of the last paddle */
    int pivot_y, pivot_x;
    int origin_y, origin_x, tip_y, tip_x;
} Snake;

typedef struct Work {
    const SnakeStyle *style;
    const Paddles *paddles;
    RngStream stream; /* the image's, in the order of use */
    int stride;
    size_t bytes;
    uint8_t *fresh;         /* what is taken before the first paddle */
    uint8_t *taken, *saved; /* with edges; saved: of before a distractor */
    uint8_t *blocked, *met; /* likewise: not free; where an opening meets that, and the edges */
    Placed placed[PLACED_MAX];
    int nplaced;
    uint8_t spare[STAMP_BYTES];
} Work;

static int below(Work *w, int n) { return (int)rng_stream_below(&w->stream, (uint32_t)n); }

static uint8_t *pixel(const Work *w, uint8_t *map, int y, int x) {
    return map + (ptrdiff_t)(y + EDGE_Y) * w->stride + x + EDGE_X;
}
static uint8_t *taken_at(const Work *w, int y, int x) { return pixel(w, w->taken, y, x); }

static bool inside(const Work *w, int y, int x) {
    return y >= 0 && y < w->style->side && x >= 0 && x < w->style->side;
}

/* The mask of a stroke at (y,x), without what lies outside the window. */
static const uint8_t *cut_mask(Work *w, const Stroke *s, int y, int x) {
    const Paddles *p = w->paddles;
    int side = w->style->side, half = p->half, top = y - half + s->top;
    if (top >= 0 && top + s->rows <= side && x >= half && x + half < side) return s->mask;
    memset(w->spare, 0, sizeof w->spare);
    for (int r = s->top; r < s->top + s->rows; r++)
        for (int c = 0; c <= 2 * half; c++)
            if (inside(w, y - half + r, x - half + c))
                w->spare[r * p->width + c] = s->mask[r * p->width + c];
    return w->spare;
}

/* The highest sum of a pixel of the mask and what is taken of it. */
static inline int highest_sum(const uint8_t *mask, const uint8_t *taken, int stride, int rows,
                              int width) {
    uint16_t most[32] = {0};
    for (int r = 0; r < rows; r++, mask += width, taken += stride) {
        for (int c = 0; c < width; c++) {
            uint16_t sum = (uint16_t)(mask[c] + taken[c]);
            most[c] = sum > most[c] ? sum : most[c];
        }
    }
    int highest = 0;
    for (int c = 0; c < width; c++) highest = most[c] > highest ? most[c] : highest;
    return highest;
}

static inline void raise_taken(uint8_t *taken, const uint8_t *mask, int stride, int rows,
                               int width) {
    for (int r = 0; r < rows; r++, mask += width, taken += stride)
        for (int c = 0; c < width; c++) taken[c] = mask[c] > taken[c] ? mask[c] : taken[c];
}

/* Stamps have one of two widths; each gets a loop of its own, which compilers unroll. */
static bool fits(Work *w, const Stroke *s, int y, int x) {
    int half = w->paddles->half, width = w->paddles->width;
    const uint8_t *mask = cut_mask(w, s, y, x) + s->top * width;
    const uint8_t *taken = taken_at(w, y - half + s->top, x - half);
    int sum = width == 16 ? highest_sum(mask, taken, w->stride, s->rows, 16)
                          : highest_sum(mask, taken, w->stride, s->rows, 32);
    return sum < CROWDED;
}

static void take(Work *w, const Placed *at) {
    const Stroke *s = at->stroke;
    int half = w->paddles->half, width = w->paddles->width;
    const uint8_t *mask = cut_mask(w, s, at->y, at->x) + s->top * width;
    uint8_t *taken = taken_at(w, at->y - half + s->top, at->x - half);
    if (width == 16)
        raise_taken(taken, mask, w->stride, s->rows, 16);
    else
        raise_taken(taken, mask, w->stride, s->rows, 32);
}

/* The most that is taken within the margin of (y,x). */
static int crowd(const Work *w, int y, int x) {
    const Paddles *p = w->paddles;
    const uint8_t *t = taken_at(w, y, x);
    int most = 0;
    for (int i = 0; i < p->ndisk; i++) {
        int v = t[p->disk[i].y * w->stride + p->disk[i].x];
        most = v > most ? v : most;
    }
    return most;
}

static void layout(Work *w, Snake *s, const Stroke *stroke, int y, int x, double contrast) {
    s->last = (Placed){.stroke = stroke, .y = y, .x = x, .contrast = contrast};
    w->placed[w->nplaced++] = s->last;
}

/* Adds a paddle to the snake; false where it finds no way on. */
static bool extend(Work *w, Snake *s, double contrast) {
    const Paddles *p = w->paddles;
    const Heading *h = &p->heading[s->heading];
    int y = (int)ceil(s->pivot_y + h->on_y), x = (int)ceil(s->pivot_x + h->on_x);
    float chance[ARMS_MAX], total = 0; /* chance: summed up */
    for (int i = 0; i < h->nturns; i++) {
        const Arm *a = &p->arm[h->turns[i].arm];
        if (inside(w, y + a->y, x + a->x))
            /* One rounding, with or without a processor's FMA: the same images everywhere. */
            total = fmaf(h->turns[i].weight, (float)(FULL - crowd(w, y + a->y, x + a->x)), total);
        chance[i] = total;
    }
    if (total < 1e-4f * FULL) return false;
    for (int try = 0; try < TRIES; try++) {
        double at =
            rng_stream_u32(&w->stream) * 0x1p-32 * total; /* below total: no float could say so */
        int i = 0;
        while (chance[i] <= at) i++;
        const Arm *a = &p->arm[h->turns[i].arm];
        if (!fits(w, &a->stroke, y + a->y, x + a->x)) continue;
        take(w, &s->last);
        layout(w, s, &a->stroke, y + a->y, x + a->x, contrast);
        s->heading = DEGREES + h->turns[i].arm;
        s->pivot_y = y, s->pivot_x = x;
        s->tip_y = y + a->y, s->tip_x = x + a->x;
        return true;
    }
    return false;
}

/* Puts a snake's first paddle there; false where its head or its pivot lies outside. */
static bool begin(Work *w, Snake *s, int degree, int y, int x, double contrast) {
    const Opening *o = &w->paddles->opening[degree];
    int head_y = (int)ceil(y + o->head_y), head_x = (int)ceil(x + o->head_x);
    s->pivot_y = (int)ceil(head_y + o->back_y), s->pivot_x = (int)ceil(head_x + o->back_x);
    if (!inside(w, head_y, head_x) || !inside(w, s->pivot_y, s->pivot_x)) return false;
    s->heading = degree;
    s->origin_y = y, s->origin_x = x;
    layout(w, s, &o->stroke, y, x, contrast);
    return true;
}

static bool begin_first(Work *w, Snake *s, double contrast) {
    for (int try = 0; try < TRIES; try++) {
        int degree = below(w, DEGREES);
        const Opening *o = &w->paddles->opening[degree];
        if (o->nstarts == 0) return false;
        int cell = o->starts[below(w, o->nstarts)], side = w->style->side;
        if (begin(w, s, degree, cell / side, cell % side, contrast)) return true;
    }
    return false;
}

/* At a fixed distance from where the first one began, in any direction. */
static bool begin_second(Work *w, Snake *s, const Snake *first, double contrast) {
    const double pi = 3.14159265358979323846;
    for (int try = 0; try < TRIES; try++) {
        int degree = below(w, DEGREES);
        double around = below(w, DEGREES) * pi / 180;
        int y = (int)nearbyint(first->origin_y + w->style->seed_distance * sin(around));
        int x = (int)nearbyint(first->origin_x + w->style->seed_distance * cos(around));
        if (begin(w, s, degree, y, x, contrast)) return true;
    }
    return false;
}

static bool grow_pair(Work *w, Snake snake[2]) {
    double contrast = w->style->paddle_contrast * w->style->contrast;
    memcpy(w->taken, w->fresh, w->bytes);
    w->nplaced = 0;
    if (!begin_first(w, &snake[0], contrast) || !begin_second(w, &snake[1], &snake[0], contrast))
        return false;
    for (int i = 1; i < w->style->paddles; i++)
        for (int k = 0; k < 2; k++)
            if (!extend(w, &snake[k], contrast)) return false;
    /* Only the second one's: so the program has it. */
    take(w, &snake[1].last);
    return true;
}

/* What no opening may meet: pixels that are not free, and the window's border. Returns how many
 * pixels are free. */
static int mark_blocked(Work *w) {
    const int side = w->style->side;
    int n = 0;
    for (int y = 0; y < side; y++) {
        const uint8_t *taken = taken_at(w, y, 0);
        uint8_t *blocked = pixel(w, w->blocked, y, 0);
        for (int x = 0; x < side; x++) {
            n += taken[x] <= FREE_MOST;
            blocked[x] = taken[x] > FREE_MOST;
        }
        blocked[0] = blocked[side - 1] = 1;
        if (y == 0 || y == side - 1) memset(blocked, 1, (size_t)side);
    }
    return n;
}

/* Where one of the opening's full pixels meets a blocked one. Returns how many pixels are left. */
static int mark_met(Work *w, const Opening *o) {
    const int side = w->style->side;
    int left = 0;
    for (int y = 0; y < side; y++) {
        uint8_t *met = pixel(w, w->met, y, 0);
        memset(met, 0, (size_t)side);
        for (int k = 0; k < o->nfull; k++) {
            const uint8_t *blocked = pixel(w, w->blocked, y + o->full[k].y, o->full[k].x);
#pragma omp simd
            for (int x = 0; x < side; x++) met[x] |= blocked[x];
        }
        for (int x = 0; x < side; x++) left += !met[x];
    }
    return left;
}

static bool begin_distractor(Work *w, Snake *s) {
    const int side = w->style->side;
    if (100 * mark_blocked(w) < side * side) return false;
    for (int try = 0; try < TRIES; try++) {
        const int degree = below(w, DEGREES);
        const Opening *o = &w->paddles->opening[degree];
        const int left = o->usable ? mark_met(w, o) : 0;
        if (left == 0) return false;
        const uint8_t *met = pixel(w, w->met, 0, 0);
        int i = 0;
        for (int n = below(w, left); met[i] || n-- > 0;) i++;
        if (begin(w, s, degree, i / w->stride, i % w->stride, w->style->contrast)) return true;
    }
    return false;
}

static bool grow_distractor(Work *w) {
    Snake s;
    if (!begin_distractor(w, &s)) return false;
    for (int i = 1; i < w->style->distractor_size; i++)
        if (!extend(w, &s, w->style->contrast)) return false;
    take(w, &s.last);
    return true;
}

/* How many found room. */
static int grow_distractors(Work *w) {
    int grown = 0;
    for (int i = 0; i < w->style->distractors; i++) {
        for (int try = 0; try < SNAKE_TRIES; try++) {
            int nplaced = w->nplaced;
            memcpy(w->saved, w->taken, w->bytes);
            if (grow_distractor(w)) {
                grown++;
                break;
            }
            memcpy(w->taken, w->saved, w->bytes);
            w->nplaced = nplaced;
        }
    }
    return grown;
}

static void draw_placed(const Work *w, double *image) {
    int side = w->style->side, half = w->paddles->half, width = w->paddles->width;
    for (int i = 0; i < w->nplaced; i++) {
        const Placed *at = &w->placed[i];
        for (int r = 0; r <= 2 * half; r++) {
            for (int c = 0; c <= 2 * half; c++) {
                int y = at->y - half + r, x = at->x - half + c;
                if (!inside(w, y, x)) continue;
                /* The program keeps it as float: which way halves go in to_bytes hangs on that. */
                float v = (float)(at->stroke->line[r * width + c] / 255. * at->contrast);
                if (v > image[y * side + x]) image[y * side + x] = v;
            }
        }
    }
}

static void draw_marker(const SnakeStyle *s, double *image, int y, int x) {
    int side = s->side, large = side * ANTIALIAS;
    uint8_t *canvas = mem_alloc((size_t)large, (size_t)large);
    uint8_t *small = mem_alloc((size_t)side, (size_t)side);
    raster_disk(canvas, large, y * ANTIALIAS, x * ANTIALIAS, s->marker * ANTIALIAS);
    raster_shrink(small, side, canvas, large);
    for (int i = 0; i < side * side; i++)
        if (small[i] / 255. > image[i]) image[i] = small[i] / 255.;
    mem_free(small);
    mem_free(canvas);
}

/* From the darkest, 0, to the brightest, 255. Volatile keeps the product from being fused into the
 * sum, which would round halves differently. */
static void to_bytes(uint8_t *pixels, const double *image, int n) {
    double low = image[0], high = image[0];
    for (int i = 1; i < n; i++) {
        low = image[i] < low ? image[i] : low;
        high = image[i] > high ? image[i] : high;
    }
    double scale = 255 / (high - low);
    for (int i = 0; i < n; i++) {
        volatile double v = (image[i] - low) * scale;
        pixels[i] = (uint8_t)((v > 255 ? 255 : v) + 0.5);
    }
}

static Work *work_open(const Snakes *s, RngKey key) {
    Work *w = mem_alloc(1, sizeof *w);
    int side = s->style.side, padding = s->style.padding;
    w->style = &s->style;
    w->stream = rng_stream(key, 0);
    w->stride = side + 2 * EDGE_X;
    w->bytes = (size_t)(side + 2 * EDGE_Y) * (size_t)w->stride;
    w->fresh = mem_alloc(5, w->bytes);
    w->taken = w->fresh + w->bytes;
    w->saved = w->taken + w->bytes;
    w->blocked = w->saved + w->bytes;
    w->met = w->blocked + w->bytes;
    memset(w->met, 1, w->bytes);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            if (y < padding || y >= side - padding || x < padding || x >= side - padding)
                *pixel(w, w->fresh, y, x) = FULL;
    return w;
}

static void work_close(Work *w) {
    mem_free(w->fresh);
    mem_free(w);
}

void snakes_draw(const Snakes *s, uint64_t seed, uint64_t index, uint8_t *pixels,
                 SnakeFacts *facts) {
    Work *w = work_open(s, rng_subkey(rng_subkey_name(rng_key(seed), "pathfinder"), index));
    int n = s->style.side * s->style.side, from = below(w, 2);
    double *image = mem_alloc((size_t)n, sizeof *image);
    Snake snake[2];
    *facts = (SnakeFacts){.label = below(w, 2)};
    w->paddles = s->paddles[below(w, 2)];
    facts->margin = w->paddles->margin;
    do facts->attempts++;
    while (!grow_pair(w, snake));
    facts->distractors = grow_distractors(w);
    draw_placed(w, image);
    int to = facts->label ? from : 1 - from;
    draw_marker(&s->style, image, snake[from].origin_y, snake[from].origin_x);
    draw_marker(&s->style, image, snake[to].tip_y, snake[to].tip_x);
    to_bytes(pixels, image, n);
    mem_free(image);
    work_close(w);
}
