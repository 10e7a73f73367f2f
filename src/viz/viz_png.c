#include "viz/viz_png.h"

#include <math.h>

#include "core/log.h"
#include "viz/canvas.h"

enum {
    PANEL = 256,     /* about how wide a picture's panel is */
    PIXEL_MOST = 32, /* and how large a token's square may be */
    GAP = 16,
    CAPTION = 22, /* the line of a caption */
    SWATCH = 14,
    CORNER_LEAST = 4, /* a smaller square has no room for a corner */
    PANELS_MOST = PALETTE,
    BAR = 160 /* a heat map's scale */
};
static const Rgb white = {255, 255, 255}, ink = {32, 32, 32}, grey = {72, 72, 72},
                 black = {0, 0, 0};

/* ---- the grid ---- */

/* Panels of width x height tokens, each token `pixel` wide and high, in `columns` columns. */
typedef struct Grid {
    const Viz *v;
    const VizDoc *d;
    const Clusters *c;
    Canvas canvas;
    int width, height, pixel, columns, panels, extra; /* extra: panels that are no cluster's */
} Grid;

static void open_grid(Grid *g, const Viz *v, const VizDoc *d, int part, int extra) {
    *g = (Grid){.v = v, .d = d, .c = &d->part[part], .width = d->width, .extra = extra};
    const int C = g->c->C < PANELS_MOST ? g->c->C : PANELS_MOST;
    g->height = (d->length + d->width - 1) / d->width;
    g->pixel = PANEL / g->width < 1 ? 1 : PANEL / g->width;
    if (g->pixel > PIXEL_MOST) g->pixel = PIXEL_MOST;
    g->panels = C + extra;
    g->columns = (int)ceil(sqrt(1.5 * g->panels));
    const int rows = (g->panels + g->columns - 1) / g->columns;
    const int w = g->columns * (g->width * g->pixel + GAP) + GAP;
    const int h = 3 * CAPTION + 3 * GAP + rows * (g->height * g->pixel + CAPTION + GAP);
    g->canvas = canvas_open(w, h, white);
}

/* The upper left of a panel's caption. */
static void panel_at(const Grid *g, int panel, int *x, int *y) {
    *x = GAP + panel % g->columns * (g->width * g->pixel + GAP);
    *y = GAP + CAPTION + panel / g->columns * (g->height * g->pixel + CAPTION + GAP);
}

/* Few panels are narrower than the words. */
static TypeSize fitting(int room, const char *text) {
    return canvas_text_width(TYPE_LARGE, text) <= room ? TYPE_LARGE : TYPE_SMALL;
}

/* A square of the colour, and words behind it. */
static void swatch(Grid *g, int x, int y, Rgb colour, const char *text) {
    const int at = x + SWATCH + 6, room = g->canvas.width - at;
    canvas_fill(&g->canvas, x, y, SWATCH, SWATCH, colour);
    canvas_text(&g->canvas, at, y - 2, fitting(room, text), ink, text);
}

static void caption(Grid *g, int panel, const char *text) {
    int x, y;
    panel_at(g, panel, &x, &y);
    canvas_text(&g->canvas, x, y, TYPE_LARGE, ink, text);
}

static void caption_cluster(Grid *g, int panel, int cluster) {
    char text[64];
    int x, y;
    panel_at(g, panel, &x, &y);
    snprintf(text, sizeof text, "%d: %d tokens", cluster, g->c->size[cluster]);
    swatch(g, x, y + 2, palette_colour(cluster), text);
}

/* Pixel i's square, or the lower right quarter of it. */
static void put(Grid *g, int panel, int i, bool corner, Rgb colour) {
    int x, y;
    panel_at(g, panel, &x, &y);
    const int skip = corner ? g->pixel / 2 : 0, side = g->pixel - skip;
    canvas_fill(&g->canvas, x + i % g->width * g->pixel + skip,
                y + CAPTION + i / g->width * g->pixel + skip, side, side, colour);
}

/* "layer 1, clusters: example 3 of test: ..., document b" */
static void title_text(char *text, size_t size, const Viz *v, const VizDoc *d, int part,
                       const char *what) {
    const char *which = v->docs == 1 ? "" : d == &v->doc[0] ? ", document a" : ", document b";
    char name[CLUSTER_NAME];
    snprintf(text, size, "%s, %s: %s%s", clusters_name(name, &v->traces, &v->part[part]), what,
             v->title, which);
}

static void title(Grid *g, int part, const char *what) {
    char text[512];
    title_text(text, sizeof text, g->v, g->d, part, what);
    canvas_text(&g->canvas, GAP, GAP - 6, fitting(g->canvas.width - 2 * GAP, text), ink, text);
}

static bool finish(Canvas *c, const char *path, Err *err) {
    const bool ok = canvas_write(c, path, err);
    canvas_close(c);
    return ok;
}

/* ---- clusters ---- */

/* A cluster's colour with the picture's light and shade. */
static Rgb shade(Rgb colour, int value) {
    return value < 128 ? palette_mix(black, colour, 0.6 + 0.4 * value / 128.0)
                       : palette_mix(colour, white, 0.7 * (value - 128) / 127.0);
}

static int brightness(const Grid *g, int i) {
    const int vocab = g->v->t->config.model.task.vocab;
    return g->d->ids[i] * 255 / (vocab > 1 ? vocab - 1 : 1);
}

static void draw_input(Grid *g, int panel) {
    caption(g, panel, "input");
    for (int i = 0; i < g->d->length; i++) {
        const unsigned char b = (unsigned char)brightness(g, i);
        put(g, panel, i, false, (Rgb){b, b, b});
    }
}

/* The cluster with the highest affinity fills a token's square, the next one a corner. */
static void draw_all(Grid *g, int panel) {
    const Clusters *c = g->c;
    caption(g, panel, c->affinity ? "all clusters" : "all groups");
    for (int i = 0; i < g->d->length; i++) {
        const int n = i + g->d->cls, count = clusters_of_token(c, n), value = brightness(g, i);
        const int *holders = c->holders + c->start[n];
        put(g, panel, i, false, shade(count ? palette_colour(holders[0]) : grey, value));
        if (count > 1 && g->pixel >= CORNER_LEAST)
            put(g, panel, i, true, shade(palette_colour(holders[1]), value));
    }
}

/* Its members bright, all else faint. */
static void draw_cluster(Grid *g, int panel, int cluster) {
    const Clusters *c = g->c;
    const Rgb faint = {64, 64, 64};
    caption_cluster(g, panel, cluster);
    for (int i = 0; i < g->d->length; i++)
        put(g, panel, i, false, palette_mix(black, faint, brightness(g, i) / 255.0));
    for (int s = 0; s < c->k; s++) {
        const int n = c->list[(size_t)cluster * (size_t)c->k + (size_t)s] - g->d->cls;
        if (n >= 0) put(g, panel, n, false, shade(palette_colour(cluster), brightness(g, n)));
    }
}

/* Appends what is missing from a picture. */
static void note_shown(char *text, size_t size, int shown, const Clusters *c) {
    if (shown < c->C)
        format_add(text, size, "; of %d %s the first %d", c->C, c->affinity ? "clusters" : "groups",
                   shown);
}

/* Below the panels, in two lines: what colours mean that are no cluster's. A token is in one group
 * at most. */
static void legend(Grid *g) {
    enum { HALF = SWATCH / 2 };
    char text[256];
    int none, several;
    const bool groups = !g->c->affinity, corners = g->pixel >= CORNER_LEAST;
    const int y = g->canvas.height - GAP - 2 * CAPTION;
    clusters_count(g->c, g->d->cls, &none, &several);
    snprintf(text, sizeof text, "in no %s: %d tokens", groups ? "group" : "cluster", none);
    if (groups) note_shown(text, sizeof text, g->panels - g->extra, g->c);
    swatch(g, GAP, y, grey, text);
    if (groups) return;
    snprintf(text, sizeof text, "in several: %d, coloured by the highest affinity%s", several,
             corners ? ", the next in the corner" : "");
    note_shown(text, sizeof text, g->panels - g->extra, g->c);
    swatch(g, GAP, y + CAPTION, palette_colour(0), text);
    if (corners)
        canvas_fill(&g->canvas, GAP + HALF, y + CAPTION + HALF, HALF, HALF, palette_colour(1));
}

bool viz_png_clusters(const Viz *v, const VizDoc *d, int part, const char *path, Err *err) {
    enum { EXTRA = 2 };
    Grid g;
    open_grid(&g, v, d, part, EXTRA);
    title(&g, part, g.c->affinity ? "clusters" : "groups");
    draw_input(&g, 0);
    draw_all(&g, 1);
    for (int c = 0; c + EXTRA < g.panels; c++) draw_cluster(&g, c + EXTRA, c);
    legend(&g);
    return finish(&g.canvas, path, err);
}

/* ---- affinities ---- */

typedef struct Range {
    double least, most;
} Range;

/* Without fmin and fmax, as predict_probabilities. */
static Range range_of(const Clusters *c) {
    Range r = {INFINITY, -INFINITY};
    for (size_t i = 0; i < (size_t)c->N * (size_t)c->C; i++) {
        const double a = (double)c->affinity[i];
        if (a < r.least) r.least = a;
        if (a > r.most) r.most = a;
    }
    return r;
}

static Rgb heat(const Range *r, double x) {
    return palette_heat(r->most > r->least ? (x - r->least) / (r->most - r->least) : 0);
}

static double affinity(const Clusters *c, int n, int cluster) {
    return (double)c->affinity[(size_t)n * (size_t)c->C + (size_t)cluster];
}

/* The scale from the least to the highest affinity. */
static void draw_scale(Canvas *canvas, int x, int y, const Range *r, int shown, const Clusters *c) {
    char text[96];
    snprintf(text, sizeof text, "%.3g ", r->least);
    x = canvas_text(canvas, x, y - 2, TYPE_LARGE, ink, text);
    for (int i = 0; i < BAR; i++)
        canvas_fill(canvas, x + i, y, 1, SWATCH, palette_heat(i / (BAR - 1.0)));
    snprintf(text, sizeof text, " %.3g", r->most);
    note_shown(text, sizeof text, shown, c);
    canvas_text(canvas, x + BAR, y - 2, TYPE_LARGE, ink, text);
}

static bool write_affinity_panels(const Viz *v, const VizDoc *d, int part, const char *path,
                                  Err *err) {
    Grid g;
    open_grid(&g, v, d, part, 1);
    const Range r = range_of(g.c);
    title(&g, part, "affinity A_g");
    draw_input(&g, 0);
    for (int c = 0; c + 1 < g.panels; c++) {
        caption_cluster(&g, c + 1, c);
        for (int i = 0; i < d->length; i++)
            put(&g, c + 1, i, false, heat(&r, affinity(g.c, i + d->cls, c)));
    }
    draw_scale(&g.canvas, GAP, g.canvas.height - GAP - CAPTION, &r, g.panels - g.extra, g.c);
    return finish(&g.canvas, path, err);
}

/* ---- a sequence's affinities: a row a cluster, a column some tokens ---- */

enum { ROW = 16, WIDEST = 4096, NARROWEST = 1024, MARGIN = 64 };

typedef struct Matrix {
    Canvas canvas;
    int group, cell; /* tokens a column, pixels a column */
    int columns, rows;
} Matrix;

static void draw_matrix(Matrix *m, const Clusters *c, const Range *r) {
    for (int row = 0; row < m->rows; row++) {
        char text[16];
        const int y = GAP + CAPTION + row * ROW;
        canvas_fill(&m->canvas, GAP, y + 2, ROW - 4, ROW - 4, palette_colour(row));
        snprintf(text, sizeof text, "%d", row);
        canvas_text(&m->canvas, GAP + ROW, y + 1, TYPE_SMALL, ink, text);
        for (int i = 0; i < m->columns; i++) {
            double sum = 0;
            int n = i * m->group, end = n + m->group < c->N ? n + m->group : c->N;
            const int count = end - n;
            for (; n < end; n++) sum += affinity(c, n, row);
            canvas_fill(&m->canvas, MARGIN + i * m->cell, y, m->cell, ROW - 1,
                        heat(r, sum / count));
        }
    }
}

/* Token numbers below, at about every 128th pixel. */
static void draw_ticks(Matrix *m, int N) {
    const int y = GAP + CAPTION + m->rows * ROW;
    for (int i = 0; i < m->columns; i += 128 / m->cell) {
        char text[16];
        const int x = MARGIN + i * m->cell + 4;
        snprintf(text, sizeof text, "%d", i * m->group);
        canvas_fill(&m->canvas, MARGIN + i * m->cell, y, 1, 6, ink);
        if (x + canvas_text_width(TYPE_SMALL, text) <= m->canvas.width)
            canvas_text(&m->canvas, x, y + 2, TYPE_SMALL, ink, text);
    }
    char text[32];
    snprintf(text, sizeof text, "%d tokens", N);
    canvas_text(&m->canvas, MARGIN, y + 16, TYPE_SMALL, ink, text);
}

static bool write_affinity_matrix(const Viz *v, const VizDoc *d, int part, const char *path,
                                  Err *err) {
    const Clusters *c = &d->part[part];
    const Range r = range_of(c);
    char text[512];
    Matrix m = {.group = (c->N + WIDEST - 1) / WIDEST, .rows = c->C};
    if (m.rows > (CANVAS_MOST - 200) / ROW) m.rows = (CANVAS_MOST - 200) / ROW;
    m.columns = (c->N + m.group - 1) / m.group;
    m.cell = m.columns < NARROWEST ? NARROWEST / m.columns : 1;
    if (m.cell > ROW) m.cell = ROW;
    title_text(text, sizeof text, v, d, part, "affinity A_g");
    const int words = canvas_text_width(TYPE_LARGE, text), cells = m.columns * m.cell;
    const int wide = MARGIN + (cells > words ? cells : words) + GAP;
    m.canvas = canvas_open(wide, 2 * GAP + 2 * CAPTION + m.rows * ROW + 2 * GAP, white);
    canvas_text(&m.canvas, MARGIN, GAP - 6, TYPE_LARGE, ink, text);
    draw_matrix(&m, c, &r);
    draw_ticks(&m, c->N);
    draw_scale(&m.canvas, MARGIN, m.canvas.height - GAP - CAPTION + 4, &r, m.rows, c);
    return finish(&m.canvas, path, err);
}

bool viz_png_affinity(const Viz *v, const VizDoc *d, int part, const char *path, Err *err) {
    return d->width ? write_affinity_panels(v, d, part, path, err)
                    : write_affinity_matrix(v, d, part, path, err);
}
