#include "report/points.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/text.h"
#include "report/figures.h"
#include "report/settings.h"

static const struct {
    const char *key, *title, *column; /* in a row; for people; in CSV */
    double scale;
    int digits;
    ColumnBest best;
    int spare; /* as in Column */
} values[POINT_VALUES] = {
    {"seconds", "ms a sample", "milliseconds", 1e3, SIGNIFICANT + 3, BEST_NONE, 0},
    {"flops_share", "of exact FLOPs, %", "flops_percent", 100, SIGNIFICANT + 3, BEST_NONE, 3},
    {"error", "error, %", "error_percent", 100, SIGNIFICANT + 3, BEST_LEAST, 0},
    {"kept", "kept, %", "kept_percent", 100, 1, BEST_MOST, 4},
    {"accuracy", "accuracy, %", "accuracy_percent", 100, 2, BEST_MOST, 0},
    {"accuracy_error", "standard error", "standard_error", 100, 2, BEST_NONE, 2},
    {"seeds", "seeds", "seeds", 1, 0, BEST_NONE, 1},
};

/* ---- reading ---- */

static int line_of(const Points *s, const char *mechanism) {
    int next = 0;
    for (int i = 0; i < s->n; i++) {
        if (!strcmp(s->point[i].mechanism, mechanism)) return s->point[i].line;
        if (s->point[i].line >= next) next = s->point[i].line + 1;
    }
    return next;
}

/* The standard error of a share of so many examples, where none is said. Masked tokens of one
 * document are no examples of their own. */
static void add_standard_error(Point *p, const cJSON *o) {
    const char *objective = json_string(o, "config.train.objective");
    if (objective && !strcmp(objective, "masked")) return;
    const double share = p->value[POINT_ACCURACY], count = json_number(o, "count");
    if (isnan(p->value[POINT_ACCURACY_ERROR]) && count > 0)
        p->value[POINT_ACCURACY_ERROR] = sqrt(share * (1 - share) / count);
}

static cJSON *recipe_of(const cJSON *o) {
    const cJSON *config = json_at(o, "config");
    cJSON *recipe = cJSON_IsObject(config) ? group_flat(config, false) : NULL;
    cJSON_DeleteItemFromObjectCaseSensitive(recipe, "data.dir");
    return recipe;
}

/* What it comes to; false: nothing. */
static bool read_point(Point *p, cJSON *o) {
    const char *mechanism = json_string(o, "mechanism");
    *p = (Point){.attention = settings_of(o)};
    p->mechanism = mechanism ? mechanism : json_string(p->attention, "type");
    for (int i = 0; i < POINT_VALUES; i++) p->value[i] = json_number(o, values[i].key);
    add_standard_error(p, o);
    p->above = p->above_error = NAN;
    p->crc32 = json_string(o, "crc32");
    p->which = json_string(o, "which");
    p->recipe = p->crc32 ? recipe_of(o) : NULL;
    return p->mechanism && !(isnan(p->value[POINT_ERROR]) && isnan(p->value[POINT_ACCURACY]));
}

/* Accuracies of other examples say nothing beside each other. */
static bool of_same_examples(Points *s, const Point *p, const cJSON *o, const char **why) {
    static const char *const count[] = {"count"};
    const char *split = json_string(o, "split");
    if (isnan(p->value[POINT_ACCURACY])) return true;
    const bool same = !split || !s->split || !strcmp(split, s->split);
    if (split) s->split = split;
    *why = "has the accuracy of other examples than those before it: another split, or another "
           "number of them";
    return same && rows_alike(&s->count, count, 1, o);
}

static bool take_row(void *to, cJSON *o, const char **why) {
    Points *s = to;
    Point p;
    s->json = mem_grow(s->json, (size_t)s->rows + 1, sizeof *s->json);
    s->point = mem_grow(s->point, (size_t)s->n + 1, sizeof *s->point);
    s->json[s->rows++] = o;
    const bool ok = read_point(&p, o);
    if (ok) p.line = line_of(s, p.mechanism);
    s->point[s->n++] = p;
    *why = "is no row of a comparison: it names no mechanism, or has neither 'error' nor "
           "'accuracy'";
    return ok && rows_of_one_task(s->task, o, why) && of_same_examples(s, &p, o, why);
}

/* ---- settings ---- */

/* `all` is scratch for as many as there are. */
static char *setting_of(const Points *s, const Point *p, const cJSON **all) {
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (s->point[i].line == p->line) all[n++] = s->point[i].attention;
    return settings_text(p->attention, all, n);
}

/* ---- several weights ---- */

static bool is_full(const Point *p) { return !strcmp(p->mechanism, "full"); }

static bool same(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

/* NULL: its accuracy with these weights is not among them. */
static const Point *full_of(const Points *s, const char *crc32) {
    for (int i = 0; i < s->n; i++) {
        const Point *p = &s->point[i];
        if (is_full(p) && !isnan(p->value[POINT_ACCURACY]) && same(p->crc32, crc32)) return p;
    }
    return NULL;
}

static void find_above(Points *s) {
    s->apart = true;
    for (int i = 0; i < s->n; i++) {
        Point *p = &s->point[i];
        const Point *full = full_of(s, p->crc32);
        if (!full || isnan(p->value[POINT_ACCURACY])) continue;
        p->above = p->value[POINT_ACCURACY] - full->value[POINT_ACCURACY];
        s->apart = s->apart && is_full(p);
    }
}

static bool says_as_much(const Point *a, const Point *b) {
    for (int k = 0; k < POINT_VALUES; k++)
        if (isnan(a->value[k]) != isnan(b->value[k])) return false;
    return true;
}

static bool differ_in_weights(const Point *a, const Point *b) {
    return a->line == b->line && a->crc32 && b->crc32 && strcmp(a->crc32, b->crc32) != 0 &&
           same(a->which, b->which) && settings_same(a->recipe, b->recipe) && says_as_much(a, b);
}

/* Moves those that are one with the first of these n points behind it; returns how many they are.
 */
static int gather(Point *p, int n) {
    int found = 1;
    for (int i = 1; i < n; i++) {
        bool all = true;
        for (int j = 0; j < found; j++) all = all && differ_in_weights(&p[j], &p[i]);
        if (!all) continue;
        const Point x = p[i];
        memmove(p + found + 1, p + found, (size_t)(i - found) * sizeof *p);
        p[found++] = x;
    }
    return found;
}

static double standard_error(const Spread *s) { return s->sd / sqrt(s->n); }

/* `x` is scratch for n. */
static Point mean_of(const Point *p, int n, double *x) {
    Point mean = p[0];
    Spread spread[POINT_VALUES];
    mean.weights = n;
    if (n == 1) return mean;
    for (int k = 0; k < POINT_VALUES; k++) {
        for (int i = 0; i < n; i++) x[i] = p[i].value[k];
        spread[k] = spread_of(x, n);
        mean.value[k] = spread[k].mean;
    }
    mean.value[POINT_ACCURACY_ERROR] = standard_error(&spread[POINT_ACCURACY]);
    for (int i = 0; i < n; i++) x[i] = p[i].above;
    const Spread above = spread_of(x, n);
    mean.above = above.mean;
    if (!is_full(&mean)) mean.above_error = standard_error(&above);
    return mean;
}

static void free_point(Point *p) {
    mem_free(p->setting);
    cJSON_Delete(p->recipe);
}

static void merge(Points *s) {
    double *x = mem_alloc((size_t)s->n, sizeof *x);
    int n = 0;
    for (int i = 0, k; i < s->n; i += k) {
        k = gather(&s->point[i], s->n - i);
        const Point mean = mean_of(&s->point[i], k, x);
        for (int j = 1; j < k; j++) free_point(&s->point[i + j]);
        s->point[n++] = mean;
        s->several = s->several || k > 1;
    }
    s->n = n;
    mem_free(x);
}

/* Of other weights than full attention's the error is of both. */
static void find_above_apart(Points *s) {
    const Point *full = NULL;
    for (int i = 0; i < s->n && !full; i++)
        if (is_full(&s->point[i]) && !isnan(s->point[i].value[POINT_ACCURACY])) full = &s->point[i];
    for (int i = 0; i < s->n && full; i++) {
        Point *p = &s->point[i];
        p->above = p->value[POINT_ACCURACY] - full->value[POINT_ACCURACY];
        if (p->weights > 1 && full->weights > 1 && !is_full(p))
            p->above_error =
                hypot(p->value[POINT_ACCURACY_ERROR], full->value[POINT_ACCURACY_ERROR]);
    }
}

/* ---- the whole ---- */

static double cost(const Point *p) {
    const double seconds = p->value[POINT_SECONDS];
    return isnan(seconds) ? p->value[POINT_FLOPS] : seconds;
}

/* Those of no known cost behind the others. */
static int by_cost(const void *x, const void *y) {
    const Point *a = x, *b = y;
    const double of_a = cost(a), of_b = cost(b);
    if (a->line != b->line) return a->line - b->line;
    if (isnan(of_a) || isnan(of_b)) return isnan(of_a) - isnan(of_b);
    return (of_a > of_b) - (of_a < of_b);
}

bool points_read(Points *s, char *const *paths, int n, Err *err) {
    static const char expected[] =
        "points a file of rows was expected, as 'cast_eval RUN ... --json' prints them";
    *s = (Points){0};
    if (!rows_read(paths, n, expected, take_row, s, err)) {
        points_free(s);
        return false;
    }
    const cJSON **all = mem_alloc((size_t)s->n, sizeof *all);
    for (int i = 0; i < s->n; i++) s->point[i].setting = setting_of(s, &s->point[i], all);
    mem_free(all);
    find_above(s);
    merge(s);
    if (s->apart) find_above_apart(s);
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < POINT_VALUES; k++) s->has[k] |= !isnan(s->point[i].value[k]);
    qsort(s->point, (size_t)s->n, sizeof *s->point, by_cost);
    return true;
}

void points_free(Points *s) {
    for (int i = 0; i < s->n; i++) free_point(&s->point[i]);
    for (int i = 0; i < s->rows; i++) cJSON_Delete(s->json[i]);
    mem_free(s->point);
    mem_free(s->json);
    *s = (Points){0};
}

static void add_columns(Table *t, const Points *s, bool above) {
    table_column(t, "attention", "mechanism", COLUMN_TEXT, 0);
    table_column(t, "setting", "setting", COLUMN_TEXT, 0);
    for (int k = 0; k < POINT_VALUES; k++) {
        if (!s->has[k]) continue;
        Column *c =
            table_column(t, values[k].title, values[k].column, COLUMN_NUMBER, values[k].digits);
        c->best = values[k].best;
        c->spare = values[k].spare;
    }
    if (s->several) table_column(t, "weights", "weights", COLUMN_NUMBER, 0);
    if (above)
        table_column(t, "above full", "above_full", s->several ? COLUMN_ESTIMATE : COLUMN_NUMBER,
                     2);
}

static void add_note(Table *t, const Points *s, bool above) {
    const char *differences =
        !above     ? ""
        : s->apart ? " above full: the difference from full attention's mean, with weights of its "
                     "own; ± is its standard error, of both."
                   : " above full: the mean difference from full attention with the same weights; "
                     "± is its standard error over those that full attention has, too.";
    table_note(t, text_format("Where a row has several weights it shows their means, and the "
                              "standard error is over them; of one it is that of the examples.%s",
                              differences));
}

void points_table(Table *t, const Points *s) {
    bool above = false;
    for (int i = 0; i < s->n; i++) above = above || !isnan(s->point[i].above);
    *t = (Table){0};
    add_columns(t, s, above);
    for (int i = 0; i < s->n; i++) {
        const Point *p = &s->point[i];
        Cell *c = table_row(t);
        cell_text(c++, p->mechanism);
        cell_text(c++, p->setting);
        for (int k = 0; k < POINT_VALUES; k++)
            if (s->has[k]) (c++)->mean = values[k].scale * p->value[k];
        if (s->several) (c++)->mean = p->weights;
        if (above) c->mean = 100 * p->above, c->sd = 100 * p->above_error;
    }
    if (s->several) add_note(t, s, above);
}

/* ---- the plot: a panel for each of what they come to ---- */

static bool starts_line(const Points *s, int i) {
    return i == 0 || s->point[i].line != s->point[i - 1].line;
}

static void print_number(FILE *f, double x) {
    if (isnan(x))
        fputs(" NaN", f);
    else
        fprintf(f, " %.10g", x);
}

static void print_data(FILE *f, const Points *s) {
    for (int i = 0; i < s->n; i++) {
        if (starts_line(s, i)) fprintf(f, "%s$line%d << END\n", i ? "END\n" : "", s->point[i].line);
        for (int k = 0; k < POINT_VALUES; k++)
            print_number(f, values[k].scale * s->point[i].value[k]);
        fputc('\n', f);
    }
    fputs("END\n", f);
}

/* Costs and errors are drawn on logarithmic axes, where some of them are above 0. */
static bool is_log(const Points *s, int value) {
    bool above = false;
    for (int i = 0; i < s->n; i++)
        above = above || (s->point[i].value[value] > 0 && isfinite(s->point[i].value[value]));
    return above && (value == POINT_SECONDS || value == POINT_FLOPS || value == POINT_ERROR);
}

static bool on_axis(const Points *s, const Point *p, int value) {
    return is_log(s, value) ? p->value[value] > 0 : !isnan(p->value[value]);
}

static bool has_place(const Points *s, const Point *p, int x, int y) {
    return on_axis(s, p, x) && on_axis(s, p, y);
}

/* Whether a mechanism's line, which row i starts, has a place in a panel. */
static bool is_drawn(const Points *s, int i, int x, int y) {
    const int line = s->point[i].line;
    for (; i < s->n && s->point[i].line == line; i++)
        if (has_place(s, &s->point[i], x, y)) return true;
    return false;
}

/* How many rows have one. */
static int places(const Points *s, int x, int y) {
    int n = 0;
    for (int i = 0; i < s->n; i++) n += has_place(s, &s->point[i], x, y);
    return n;
}

/* At these steps of each power of ten; returns how many there are. */
static int log_tics(double *tic, int room, const char *steps, double least, double most) {
    const int first = (int)floor(log10(least)), last = (int)floor(log10(most));
    int n = 0;
    for (int power = first; power <= last; power++)
        for (const char *step = steps; *step; step++) {
            const double at = (*step - '0') * pow(10, power);
            if (at >= least && at <= most && n < room) tic[n++] = at;
        }
    return n;
}

/* With labels at 1, 2 and 5, and without at the others, which show that the axis is logarithmic.
 * Where it has less than three labels all have one, in the end its ends. */
static void print_log_tics(FILE *f, char axis, double least, double most) {
    enum { ROOM = 256 };
    static const char *const all = "123456789";
    double tic[ROOM], minor[ROOM];
    const int minors = log_tics(minor, ROOM, all, least, most);
    int n = log_tics(tic, ROOM, "125", least, most);
    if (n < 3) n = log_tics(tic, ROOM, all, least, most);
    if (n < 2) tic[0] = least, tic[1] = most, n = 2;
    fprintf(f, "set %ctics (", axis);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s'%.*g' %.10g", i ? ", " : "", tic[i] < 1000 ? 3 : 6, tic[i], tic[i]);
    for (int i = 0; i < minors; i++) fprintf(f, ", '' %.10g 1", minor[i]);
    fputs(")\n", f);
}

/* A logarithmic axis of its own would go from one power of ten to another. Where nothing is above 0
 * it stays a linear one. */
static void print_log_axis(FILE *f, char axis, const Points *s, int value) {
    double least = INFINITY, most = 0;
    for (int i = 0; i < s->n; i++) {
        const double v = values[value].scale * s->point[i].value[value];
        if (v > 0 && isfinite(v)) least = fmin(least, v), most = fmax(most, v);
    }
    if (most <= 0) return;
    least /= 1.3, most = fmin(1.3 * most, DBL_MAX);
    fprintf(f, "set logscale %c\nset %crange [%.10g:%.10g]\n", axis, axis, least, most);
    print_log_tics(f, axis, least, most);
}

static void print_y_axis(FILE *f, const Points *s, int y) {
    fprintf(f, "unset logscale y\nset autoscale y\nset ytics autofreq\nset ylabel '%s'\n",
            values[y].title);
    if (y == POINT_ERROR) print_log_axis(f, 'y', s, y);
}

static void print_panel(FILE *f, const Points *s, int x, int y) {
    int drawn = 0;
    const bool bars = y == POINT_ACCURACY && s->has[POINT_ACCURACY_ERROR];
    print_y_axis(f, s, y);
    fputs("plot ", f);
    for (int i = 0; i < s->n; i++) {
        const int line = s->point[i].line;
        if (!starts_line(s, i) || !is_drawn(s, i, x, y)) continue;
        fputs(drawn++ ? ", \\\n     " : "", f);
        if (bars) /* not with the line's dashes */
            fprintf(f,
                    "$line%d using %d:%d:%d with yerrorbars ps 0 dt 1 lw 1 lc rgb '%s' notitle, "
                    "\\\n     ",
                    line, x + 1, y + 1, POINT_ACCURACY_ERROR + 1, plot_colour(line));
        fprintf(f, "$line%d using %d:%d with linespoints ps 0.8", line, x + 1, y + 1);
        plot_line_end(f, line, s->point[i].mechanism);
    }
    fputc('\n', f);
}

static const PointValue drawn[] = {POINT_ERROR, POINT_KEPT, POINT_ACCURACY};
enum { PANELS = sizeof drawn / sizeof *drawn };

static void warn_of_rows(const Points *s, int value, bool needed) {
    int none = 0, outside = 0;
    for (int i = 0; i < s->n; i++) {
        const bool is_none = isnan(s->point[i].value[value]);
        none += is_none;
        outside += !is_none && !on_axis(s, &s->point[i], value);
    }
    if (none && needed)
        log_warn("%d of %d rows have no '%s': left out of the plot", none, s->n, values[value].key);
    if (outside)
        log_warn("%d of %d rows have '%s' of 0, which its axis, a logarithmic one, has not: left "
                 "out of the plot",
                 outside, s->n, values[value].key);
}

bool points_plot(Plot *p, PlotSize size, const Points *s, Err *err) {
    const int x = s->has[POINT_SECONDS] ? POINT_SECONDS : POINT_FLOPS;
    Legend legend = {0};
    int panels = 0;
    for (int k = 0; k < PANELS; k++) panels += places(s, x, (int)drawn[k]) > 0;
    for (int i = 0; i < s->n; i++) {
        bool any = false;
        for (int k = 0; k < PANELS; k++) any = any || is_drawn(s, i, x, (int)drawn[k]);
        if (starts_line(s, i) && any) legend_add(&legend, s->point[i].mechanism);
    }
    if (!s->has[x])
        return err_set(err, EX_USAGE,
                       "--plot: rows have neither 'seconds' nor 'flops_share': there is nothing to "
                       "draw them over");
    warn_of_rows(s, x, true);
    warn_of_rows(s, POINT_ERROR, false);
    plot_panels(p, size, panels, &legend);
    print_data(p->f, s);
    fprintf(p->f, "set format y '%%g'\nset xlabel '%s'\n", values[x].title);
    print_log_axis(p->f, 'x', s, x);
    for (int k = 0; k < PANELS; k++)
        if (places(s, x, (int)drawn[k])) print_panel(p->f, s, x, (int)drawn[k]);
    plot_panels_end(p, panels);
    return true;
}
