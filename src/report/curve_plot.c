#include "report/curve_plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/text.h"

static void print_point(FILE *f, CurvePoint p) {
    fprintf(f, "%.10g %.10g %.10g %.10g\n", p.x, p.y, p.low, p.high);
}

/* Bands end where values do. A mean of fewer runs than before is no continuation: an empty line
 * makes gnuplot begin anew. */
static void data_block(FILE *f, const char *name, int i, const Curve *c, double scale) {
    fprintf(f, "$%s%d << END\n", name, i);
    for (int k = 0; k < c->n; k++) {
        const CurvePoint p = c->point[k];
        if (k && p.n != c->point[k - 1].n) fputc('\n', f);
        print_point(f, (CurvePoint){scale * p.x, p.y, fmax(p.low, 0), p.high, p.n});
    }
    fputs("END\n", f);
}

/* One part of the plot command; the next continues it. */
static void part(FILE *f, bool *first) {
    fputs(*first ? "plot " : ", \\\n     ", f);
    *first = false;
}

/* ---- over training ---- */

typedef struct Lines {
    Curve train, val;
    char *name;
} Lines;

static const char points_name[] = "points: validation";

/* In layers: bands, lines, points, so that none hides what is thinner. */
static void plot_bands(FILE *f, const Lines *l, int i, int runs, bool *first) {
    if (l->train.n == 0 || runs == 1) return;
    part(f, first);
    fprintf(f,
            "$train%d using 1:3:4 with filledcurves lc rgb '%s' fs transparent solid 0.15 noborder "
            "notitle",
            i, plot_colour(i));
}

static void plot_line(FILE *f, const Lines *l, int i, bool *first) {
    part(f, first);
    if (l->train.n > 0)
        fprintf(f, "$train%d using 1:2", i);
    else
        fputs("NaN", f);
    fputs(l->train.n == 1 ? " with linespoints pt 1 ps 0.8" : " with lines", f);
    plot_line_style(f, i);
    fputs(" title ", f);
    text_gnuplot(f, l->name);
}

static void plot_points(FILE *f, const Lines *l, int i, int runs, bool *first) {
    if (l->val.n == 0) return;
    if (runs > 1) {
        part(f, first);
        fprintf(f, "$val%d using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '%s' notitle", i,
                plot_colour(i));
    }
    part(f, first);
    fprintf(f, "$val%d using 1:2 with points ps 0.6 lc rgb '%s'", i, plot_colour(i));
    plot_point_style(f, i);
    fputs(" notitle", f);
}

static double last_x(const Curve *c) { return c->n ? c->point[c->n - 1].x : 0; }

static char *legend_of(const Groups *g, const Group *group) {
    char *label = group_label(g, group, NULL);
    if (group->n == 1) return label;
    char *text = text_format("%s (%d runs)", label, group->n);
    mem_free(label);
    return text;
}

/* 9000, 20k, 1.5M. */
static void print_count(FILE *f, double n) {
    static const char units[] = "\0kMGT";
    int unit = 0;
    while (n >= (unit ? 1e3 : 1e4) && unit < 4) n /= 1e3, unit++;
    fprintf(f, "%.6g%.1s", n, units + unit);
}

/* From 0 on: by 1, 2 or 5 times a power of ten, as many as have room for their labels, gnuplot's
 * own being too many for a narrow plot. */
static void plot_tics(FILE *f, double end, int width) {
    enum { MARGINS = 110, LABEL = 60, MOST = 10 };
    const double room = fmax(1, fmin(MOST, (width - MARGINS) / LABEL));
    double power = pow(10, floor(log10(end / room))), step = power;
    for (int i = 0; i < 3 && end / step > room; i++) step = power * (i == 0 ? 2 : i == 1 ? 5 : 10);
    fputs("set xtics (", f);
    for (int i = 0; i * step <= end * (1 + 1e-9); i++) {
        fputs(i ? ", '" : "'", f);
        print_count(f, i * step);
        fprintf(f, "' %.10g", i * step);
    }
    fputs(")\n", f);
}

/* Of time, in hours to its end: how many to an hour of what the axis has. */
static double time_scale(double end) { return end >= 2 ? 1 : end >= 2 / 60.0 ? 60 : 3600; }

static const char *axis_name(CurveAxis axis, double scale) {
    static const char *const names[] = {"update", "hours of training", "tokens"};
    return scale == 60     ? "minutes of training"
           : scale == 3600 ? "seconds of training"
                           : names[axis];
}

static void plot_axes(const Plot *p, int key, CurveAxis axis, double end, double scale) {
    FILE *f = p->f;
    fprintf(f, "set xlabel '%s'\nset ylabel '%s'\n", axis_name(axis, scale),
            key == RUN_LOSS   ? "loss"
            : key == RUN_BITS ? "bits a token"
                              : "accuracy, %");
    if (end > 0) plot_tics(f, scale * end, p->width);
    fprintf(f, "set yrange [0<*:*%s]\n", key == RUN_ACCURACY ? "<100" : "");
    fputs("set xrange [0:*]\nset autoscale xfixmax\n", f);
    fputs("set offsets 0, graph 0.01, graph 0.02, graph 0.02\n", f);
}

static void make_lines(Lines *l, const Groups *g, int i, int key, CurveAxis axis, CurveBand band) {
    l->name = legend_of(g, &g->group[i]);
    curve_train(&l->train, &g->group[i], key, axis, band);
    curve_validation(&l->val, &g->group[i], key, axis, band);
}

static void free_lines(Lines *l, int n) {
    for (int i = 0; i < n; i++) {
        curve_free(&l[i].train);
        curve_free(&l[i].val);
        mem_free(l[i].name);
    }
    mem_free(l);
}

static void plot_lines(FILE *f, const Lines *l, const Groups *g, double scale) {
    bool first = true;
    for (int i = 0; i < g->n; i++) {
        data_block(f, "train", i, &l[i].train, scale);
        data_block(f, "val", i, &l[i].val, scale);
    }
    for (int i = 0; i < g->n; i++) plot_bands(f, &l[i], i, g->group[i].n, &first);
    for (int i = 0; i < g->n; i++) plot_line(f, &l[i], i, &first);
    for (int i = 0; i < g->n; i++) plot_points(f, &l[i], i, g->group[i].n, &first);
    fprintf(f, ", \\\n     NaN with points pt 7 ps 0.6 lc rgb '#808080' title '%s'\n", points_name);
}

int curve_plot_key(const Groups *g, int key) {
    for (int i = 0; i < g->n; i++)
        if (!g->group[i].masked) return key;
    return key == RUN_LOSS ? RUN_BITS : key;
}

bool curve_plot(Plot *p, PlotSize size, const Groups *g, int key, CurveAxis axis, CurveBand band,
                Err *err) {
    Lines *l = mem_alloc((size_t)g->n, sizeof *l);
    Legend legend = {0};
    int n = 0;
    double end = 0;
    key = curve_plot_key(g, key);
    legend_add(&legend, points_name);
    for (int i = 0; i < g->n; i++) {
        make_lines(&l[i], g, i, key, axis, band);
        n += l[i].train.n + l[i].val.n;
        legend_add(&legend, l[i].name);
        end = fmax(end, fmax(last_x(&l[i].train), last_x(&l[i].val)));
    }
    if (n > 0) {
        const double scale = axis == CURVE_TIME ? time_scale(end) : 1;
        plot_open(p, size, &legend);
        plot_axes(p, key, axis, end, scale);
        plot_lines(p->f, l, g, scale);
    }
    free_lines(l, g->n);
    return n > 0 ||
           err_set(err, EX_NOINPUT, "nothing to plot: no run has written a line of metrics yet");
}

/* ---- over a key of configs ---- */

typedef struct Dot {
    char *label;
    CurvePoint at;
} Dot;

static int by_label(const void *a, const void *b) {
    const Dot *x = a, *y = b;
    const int d = strcmp(x->label, y->label);
    return d ? d : (x->at.x > y->at.x) - (x->at.x < y->at.x);
}

static bool is_number(const char *text, double *x) {
    char *end;
    *x = text ? strtod(text, &end) : NAN;
    return isfinite(*x) && end != text && !*end;
}

/* The groups that have a number there and a finished run. */
static int find_dots(Dot *dots, const Groups *g, const char *key, CurveBand band) {
    int n = 0;
    for (int i = 0; i < g->n; i++) {
        Result r;
        double x;
        const char *value = group_value(&g->group[i], key);
        if (!is_number(value, &x)) continue;
        char *label = group_label(g, &g->group[i], key);
        group_result(&r, &g->group[i], false);
        if (r.finished < r.runs)
            log_warn("%s %s of %s: %d of %d runs finished%s", value, group_key_title(g, key), label,
                     r.finished, r.runs,
                     r.best.n > 0 ? ": the plot shows these" : ": left out of the plot");
        if (r.best.n > 0)
            dots[n++] = (Dot){label, curve_point(x, &r.best, band)};
        else
            mem_free(label);
    }
    if (n) qsort(dots, (size_t)n, sizeof *dots, by_label);
    return n;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* At each value, with its label where there is room beside those before. */
static void dot_tics(FILE *f, const Dot *dots, int n, bool logarithmic, int width) {
    enum { MARGINS = 110, DIGIT = 9 };
    double *x = mem_alloc((size_t)n, sizeof *x), end = -INFINITY;
    for (int i = 0; i < n; i++) x[i] = dots[i].at.x;
    qsort(x, (size_t)n, sizeof *x, by_value);
    const double from = logarithmic ? log(x[0]) : x[0];
    const double scale = (width - MARGINS) / ((logarithmic ? log(x[n - 1]) : x[n - 1]) - from);
    fputs("set xtics (", f);
    for (int i = 0; i < n; i++) {
        char text[32];
        if (i && x[i] == x[i - 1]) continue;
        const double at = scale * ((logarithmic ? log(x[i]) : x[i]) - from);
        const double half = DIGIT / 2. * snprintf(text, sizeof text, "%g", x[i]);
        const bool room = at - half > end + DIGIT;
        fprintf(f, "%s'%s' %.10g", i ? ", " : "", room ? text : "", x[i]);
        if (room) end = at + half;
    }
    fputs(")\n", f);
    mem_free(x);
}

static void print_axis(const Plot *p, const Dot *dots, int n, const char *title) {
    FILE *f = p->f;
    double least = dots[0].at.x, most = least;
    for (int i = 0; i < n; i++) {
        least = fmin(least, dots[i].at.x);
        most = fmax(most, dots[i].at.x);
    }
    const bool logarithmic = least > 0 && most >= 4 * least;
    if (logarithmic)
        fprintf(f, "set logscale x 2\nset xrange [%g:%g]\n", least / 1.25, most * 1.25);
    fputs("set xlabel ", f);
    text_gnuplot(f, title);
    fputs("\nset ylabel 'test accuracy of best, %'\n", f);
    dot_tics(f, dots, n, logarithmic, p->width);
    fputs("set offsets graph 0.03, graph 0.03, graph 0.05, graph 0.05\n", f);
}

static int several(const Dot *dots, int n) {
    for (int i = 1; i < n; i++)
        if (dots[i].at.x != dots[0].at.x) return true;
    return false;
}

static bool starts_line(const Dot *dots, int i) {
    return i == 0 || strcmp(dots[i].label, dots[i - 1].label) != 0;
}

/* One line needs none. */
static Legend legend_of_dots(const Dot *dots, int n) {
    Legend legend = {0};
    for (int i = 0; i < n; i++)
        if (starts_line(dots, i)) legend_add(&legend, dots[i].label);
    return legend.names > 1 ? legend : (Legend){0};
}

static void plot_dots(FILE *f, const Dot *dots, int n) {
    int lines = 0;
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (starts_line(dots, i)) fprintf(f, "%s$line%d << END\n", i ? "END\n" : "", lines++);
        print_point(f, dots[i].at);
    }
    fputs("END\n", f);
    for (int i = 0, line = 0; i < n; i++) {
        if (!starts_line(dots, i)) continue;
        part(f, &first);
        fprintf(f,
                "$line%d using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '%s' notitle, \\\n"
                "     $line%d using 1:2 with linespoints ps 0.8",
                line, plot_colour(line), line);
        plot_line_end(f, line, dots[i].label);
        line++;
    }
    fputc('\n', f);
}

bool curve_plot_over(Plot *p, PlotSize size, const Groups *g, const char *key, CurveBand band,
                     Err *err) {
    Dot *dots = mem_alloc((size_t)g->n, sizeof *dots);
    const int n = find_dots(dots, g, key, band);
    const char *title = group_key_title(g, key);
    const bool ok = several(dots, n);
    if (ok) {
        const Legend legend = legend_of_dots(dots, n);
        plot_open(p, size, &legend);
        print_axis(p, dots, n, title);
        plot_dots(p->f, dots, n);
    } else {
        err_set(err, EX_NOINPUT,
                "nothing to plot over %s: finished runs with at least two values of %s that are "
                "numbers are needed",
                title, key);
    }
    for (int i = 0; i < n; i++) mem_free(dots[i].label);
    mem_free(dots);
    return ok;
}
