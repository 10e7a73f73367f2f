#include "report/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "io/json.h"
#include "io/text.h"
#include "report/settings.h"

/* Of a row in JSON; a table of ours, as CSV, has PEAK_PERCENT in place of peak_share. */
#define MECHANISM_NAME "mechanism"
#define PEAK_PERCENT "peak_percent"
static const char *const names[SCALING_VALUES] = {"tokens", "samples_per_s", "tokens_per_s",
                                                  "gflops", "peak_share",    "peak_rss_mb"};

/* ---- reading ---- */

static bool same_line(const ScalingRow *a, const ScalingRow *b) {
    return !strcmp(a->mechanism, b->mechanism) && settings_same(a->attention, b->attention);
}

/* The line that the row is of, or will be. */
static int line_of(const Scaling *s, const ScalingRow *row) {
    int i = 0;
    while (i < s->n && !same_line(&s->row[i], row)) i++;
    return i < s->n ? s->row[i].line : s->n ? s->row[s->n - 1].line + 1 : 0;
}

static bool comes_before(const ScalingRow *a, const ScalingRow *b) {
    return a->line < b->line ||
           (a->line == b->line && a->value[SCALING_TOKENS] < b->value[SCALING_TOKENS]);
}

/* In its place, behind its equals. Tables are short. Whoever gave a row another name than its
 * config has says what its line is: clusters of one size, say, whose number follows the length. */
static void add_row(Scaling *s, const char *mechanism, const cJSON *attention,
                    const double *value) {
    const char *type = json_string(attention, "type");
    const bool named = !type || strcmp(type, mechanism) != 0;
    ScalingRow row = {.mechanism = mem_strdup(mechanism),
                      .attention = named ? NULL : cJSON_Duplicate(attention, true)};
    row.line = line_of(s, &row);
    int at = s->n++;
    memcpy(row.value, value, sizeof row.value);
    s->row = mem_grow(s->row, (size_t)s->n, sizeof *s->row);
    for (; at > 0 && comes_before(&row, &s->row[at - 1]); at--) s->row[at] = s->row[at - 1];
    s->row[at] = row;
}

static bool is_row(const char *mechanism, const double *value) {
    const double tokens = value[SCALING_TOKENS], samples = value[SCALING_SAMPLES];
    return mechanism && tokens > 0 && samples > 0 && isfinite(tokens) && isfinite(samples);
}

static bool wrong(const Lines *l, const char *what, Err *err) {
    return err_set(err, EX_DATAERR,
                   "%s: line %d: %s; expected what 'cast_bench CONFIG --lengths N,M --mechanisms "
                   "A,B --json' prints, or a CSV with columns %s, %s, %s and %s",
                   l->path, l->line, what, MECHANISM_NAME, names[SCALING_TOKENS],
                   names[SCALING_SAMPLES], names[SCALING_MEMORY]);
}

/* A key of the model that is another than in rows before it, as far as both say it: not those that
 * rows of a table are there to differ in. NULL: none. */
static const char *other_key(Scaling *s, const cJSON *row) {
    const cJSON *model = json_at(row, "config.model"), *k;
    if (model && !s->model) s->model = cJSON_Duplicate(model, true);
    cJSON_ArrayForEach(k, model) {
        const cJSON *was = cJSON_GetObjectItemCaseSensitive(s->model, k->string);
        if (strcmp(k->string, "attention") != 0 && strcmp(k->string, "max_length") != 0 && was &&
            !cJSON_Compare(k, was, true))
            return k->string;
    }
    return NULL;
}

static bool of_one_cpu(Scaling *s, const cJSON *row) {
    const char *cpu = json_string(row, "cpu");
    if (cpu && !s->cpu) s->cpu = mem_strdup(cpu);
    return !cpu || !strcmp(cpu, s->cpu);
}

/* Whether the row was measured as those before it; else `why` says what it has. */
static bool is_alike(Scaling *s, const cJSON *row, char *why, size_t size) {
    static const char *const keys[SCALING_SETTINGS] = {"threads", "batch"};
    const char *task, *key;
    if (!rows_of_one_task(s->task, row, &task))
        snprintf(why, size, "%s", task);
    else if (!rows_alike(s->setting, keys, SCALING_SETTINGS, row))
        snprintf(why, size,
                 "has another batch, or other threads, than those before it: a table is of one "
                 "setting");
    else if (!of_one_cpu(s, row))
        snprintf(why, size, "is of another processor than those before it: a table is of one");
    else if ((key = other_key(s, row)))
        snprintf(why, size, "has another model.%s than those before it: a table is of one model",
                 key);
    else
        return true;
    return false;
}

static bool read_object(Scaling *s, const Lines *l, Err *err) {
    Err inner;
    double v[SCALING_VALUES];
    char why[160] = "is not a row of cast_bench";
    cJSON *o = json_parse(l->text.at, l->text.size, LINE_MOST, JSON_MAX_DEPTH, l->path, &inner);
    if (!o) return wrong(l, inner.text, err);
    for (int i = 0; i < SCALING_VALUES; i++) v[i] = json_number(o, names[i]);
    const char *mechanism = json_string(o, MECHANISM_NAME);
    const cJSON *attention = settings_of(o);
    const bool ok = (is_row(mechanism, v) && is_alike(s, o, why, sizeof why)) || wrong(l, why, err);
    if (ok) add_row(s, mechanism, attention, v);
    cJSON_Delete(o);
    return ok;
}

/* The next field of a line of CSV, its quotes taken off, into `out`; false behind the last. */
static bool next_field(const char **at, const char *end, char *out, size_t size) {
    size_t n = 0;
    const char *s = *at;
    if (s > end) return false;
    const bool quoted = s < end && *s == '"';
    for (s += quoted; s < end; s++) {
        if (quoted && *s == '"' && (s + 1 == end || s[1] != '"')) break;
        if (!quoted && *s == ',') break;
        if (quoted && *s == '"') s++;
        if (n + 1 < size) out[n++] = *s;
    }
    while (s < end && *s != ',') s++;
    out[n] = '\0';
    *at = s + 1;
    return true;
}

/* What a column can hold besides a value; -1: nothing of ours. */
enum { MOST_COLUMNS = 64, PERCENT = SCALING_VALUES, MECHANISM, HOLDS };

/* Which column holds what. */
static bool read_header(const Lines *l, int *holds, Err *err) {
    char word[128];
    unsigned seen = 0;
    const char *at = l->text.at, *end = at + l->text.size;
    for (int c = 0; c < MOST_COLUMNS; c++) {
        holds[c] = -1;
        if (!next_field(&at, end, word, sizeof word)) continue;
        for (int i = 0; i < HOLDS; i++) {
            const char *name = i == MECHANISM ? MECHANISM_NAME
                               : i == PERCENT ? PEAK_PERCENT
                                              : names[i];
            if (!strcmp(word, name)) holds[c] = i, seen |= 1u << i;
        }
    }
    const unsigned needed = 1u << MECHANISM | 1u << SCALING_TOKENS | 1u << SCALING_SAMPLES;
    return (seen & needed) == needed || wrong(l, "does not name the columns", err);
}

static bool read_csv_row(Scaling *s, const Lines *l, const int *holds, Err *err) {
    char word[128], mechanism[128] = "", *stop;
    double v[HOLDS];
    const char *at = l->text.at, *end = at + l->text.size;
    for (int i = 0; i < HOLDS; i++) v[i] = NAN;
    for (int c = 0; c < MOST_COLUMNS && next_field(&at, end, word, sizeof word); c++) {
        if (holds[c] < 0) continue;
        if (holds[c] == MECHANISM) snprintf(mechanism, sizeof mechanism, "%s", text_of_csv(word));
        const double x = strtod(word, &stop);
        if (*word && !*stop) v[holds[c]] = x;
    }
    if (isnan(v[SCALING_PEAK_SHARE])) v[SCALING_PEAK_SHARE] = v[PERCENT] / 100;
    if (!is_row(*mechanism ? mechanism : NULL, v))
        return wrong(l, "lacks a mechanism, or finite positive tokens and samples_per_s", err);
    add_row(s, mechanism, NULL, v);
    return true;
}

static bool read_lines(Scaling *s, Lines *l, Err *err) {
    int holds[MOST_COLUMNS];
    bool first = true, csv = false, ok;
    while ((ok = lines_next(l, err)) && l->text.at) {
        if (l->text.size == 0) continue;
        if (*l->text.at == '{')
            ok = read_object(s, l, err);
        else if (first)
            csv = ok = read_header(l, holds, err);
        else
            ok = csv ? read_csv_row(s, l, holds, err) : wrong(l, "is not a row of cast_bench", err);
        if (!ok) return false;
        first = false;
    }
    return ok;
}

static bool read_file(Scaling *s, const char *path, Err *err) {
    Lines l;
    if (!rows_open(&l, path, "length a file that cast_bench --json printed was expected", err))
        return false;
    const bool ok = read_lines(s, &l, err);
    lines_close(&l);
    return ok;
}

/* "cast", or "cast, clusters 20" beside others of it. `all` is scratch for as many as there are. */
static char *name_of(const Scaling *s, const ScalingRow *row, const cJSON **all) {
    int n = 0;
    bool told = false;
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->row[i].mechanism, row->mechanism) != 0) continue;
        told |= s->row[i].attention != NULL;
        all[n++] = s->row[i].attention;
    }
    char *setting = told && !row->attention ? mem_strdup("settings not said")
                                            : settings_text(row->attention, all, n);
    char *name = text_format("%s%s%s", row->mechanism, *setting ? ", " : "", setting);
    mem_free(setting);
    return name;
}

bool scaling_read(Scaling *s, char *const *paths, int n, Err *err) {
    bool ok = true;
    *s = (Scaling){0};
    for (int i = 0; ok && i < n; i++) ok = read_file(s, paths[i], err);
    if (ok && s->n == 0) ok = err_set(err, EX_NOINPUT, "%s: has no row of cast_bench", paths[0]);
    const cJSON **all = mem_alloc((size_t)s->n + 1, sizeof *all);
    for (int i = 0; i < s->n; i++) s->row[i].name = name_of(s, &s->row[i], all);
    mem_free(all);
    if (!ok) scaling_free(s);
    return ok;
}

void scaling_free(Scaling *s) {
    for (int i = 0; i < s->n; i++) {
        mem_free(s->row[i].mechanism);
        mem_free(s->row[i].name);
        cJSON_Delete(s->row[i].attention);
    }
    mem_free(s->row);
    mem_free(s->cpu);
    cJSON_Delete(s->model);
    *s = (Scaling){0};
}

/* ---- writing ---- */

/* How many times as fast the first line is at the same length; NaN: that is not known. */
static double first_over(const Scaling *s, const ScalingRow *r) {
    for (const ScalingRow *first = s->row; r->line > 0 && first->line == 0; first++)
        if (first->value[SCALING_TOKENS] == r->value[SCALING_TOKENS])
            return first->value[SCALING_SAMPLES] / r->value[SCALING_SAMPLES];
    return NAN;
}

void scaling_table(Table *t, const Scaling *s) {
    char *faster = text_format("%s is faster by", s->n ? s->row[0].name : "it");
    *t = (Table){0};
    table_column(t, "attention", MECHANISM_NAME, COLUMN_TEXT, 0);
    table_column(t, "tokens", names[SCALING_TOKENS], COLUMN_NUMBER, 0);
    table_column(t, "samples/s", names[SCALING_SAMPLES], COLUMN_NUMBER, SIGNIFICANT + 3);
    table_column(t, "tokens/s", names[SCALING_TOKEN_RATE], COLUMN_NUMBER, SIGNIFICANT + 3)->spare =
        1;
    table_column(t, "GFLOP/s", names[SCALING_GFLOPS], COLUMN_NUMBER, SIGNIFICANT + 3)->spare = 2;
    table_column(t, "of the peak, %", PEAK_PERCENT, COLUMN_NUMBER, 1)->spare = 3;
    table_column(t, "peak memory MB", names[SCALING_MEMORY], COLUMN_NUMBER, SIGNIFICANT + 3);
    table_column(t, faster, "first_over", COLUMN_NUMBER, SIGNIFICANT + 3)->spare = 4;
    mem_free(faster);
    for (int i = 0; i < s->n; i++) {
        Cell *c = table_row(t);
        cell_text(c++, s->row[i].name);
        for (int k = 0; k < SCALING_VALUES; k++)
            (c++)->mean = (k == SCALING_PEAK_SHARE ? 100 : 1) * s->row[i].value[k];
        c->mean = first_over(s, &s->row[i]);
    }
}

/* ---- growth ---- */

typedef struct Slope {
    double value, error; /* NaN: not known */
} Slope;

/* Of n points (x,y), by least squares. */
static Slope slope_of(const double *x, const double *y, int n) {
    double mx = 0, my = 0, xx = 0, xy = 0, rest = 0;
    for (int i = 0; i < n; i++) mx += x[i] / n, my += y[i] / n;
    for (int i = 0; i < n; i++) xx += (x[i] - mx) * (x[i] - mx), xy += (x[i] - mx) * (y[i] - my);
    const double slope = xy / xx;
    for (int i = 0; i < n; i++) {
        const double off = y[i] - my - slope * (x[i] - mx);
        rest += off * off;
    }
    return (Slope){slope, n > 2 ? sqrt(rest / (n - 2) / xx) : NAN};
}

/* Of the logarithm of a value, its inverse for a rate, over that of the length. */
static Slope growth(const ScalingRow *row, int n, int value, bool rate) {
    double *x = mem_alloc((size_t)n, sizeof *x), *y = mem_alloc((size_t)n, sizeof *y);
    for (int i = 0; i < n; i++) {
        x[i] = log(row[i].value[SCALING_TOKENS]);
        y[i] = log(row[i].value[value]) * (rate ? -1 : 1);
    }
    const Slope s = slope_of(x, y, n);
    mem_free(x), mem_free(y);
    return s;
}

static void put_slope(Cell *c, Slope s) { c->mean = s.value, c->sd = s.error; }

/* Where the longer half of n rows begins, which has two lengths where there are two. */
static int longer_half(const ScalingRow *row, int n) {
    int half = n > 2 ? n / 2 : 0;
    const double most = row[n - 1].value[SCALING_TOKENS];
    while (half > 0 && (row[half].value[SCALING_TOKENS] == most ||
                        row[half].value[SCALING_TOKENS] == row[half - 1].value[SCALING_TOKENS]))
        half--;
    return half;
}

void scaling_growth(Table *t, const Scaling *s) {
    *t = (Table){0};
    table_column(t, "attention", MECHANISM_NAME, COLUMN_TEXT, 0);
    table_column(t, "from tokens", "from_tokens", COLUMN_NUMBER, 0);
    table_column(t, "to", "to_tokens", COLUMN_NUMBER, 0);
    table_column(t, "time grows as N to the", "time_exponent", COLUMN_ESTIMATE, 2);
    table_column(t, "memory as N to the", "memory_exponent", COLUMN_ESTIMATE, 2);
    for (int i = 0, n; i < s->n; i += n) {
        for (n = 1; i + n < s->n && s->row[i + n].line == s->row[i].line;) n++;
        const int half = longer_half(s->row + i, n), used = n - half;
        const ScalingRow *row = s->row + i + half;
        Cell *c = table_row(t);
        cell_text(c++, row->name);
        (c++)->mean = row->value[SCALING_TOKENS];
        (c++)->mean = row[used - 1].value[SCALING_TOKENS];
        put_slope(c++, growth(row, used, SCALING_SAMPLES, true));
        put_slope(c, growth(row, used, SCALING_MEMORY, false));
    }
    table_note(t, text_format("by least squares over the longer half of the lengths, with standard "
                              "errors; memory is of the whole program"));
}

static bool starts_line(const Scaling *s, int i) {
    return i == 0 || s->row[i].line != s->row[i - 1].line;
}

static void print_data(FILE *f, const Scaling *s) {
    for (int i = 0; i < s->n; i++) {
        const double *v = s->row[i].value;
        if (starts_line(s, i)) fprintf(f, "%s$line%d << END\n", i ? "END\n" : "", s->row[i].line);
        fprintf(f, "%.10g %.10g %.10g\n", v[SCALING_TOKENS], v[SCALING_SAMPLES], v[SCALING_MEMORY]);
    }
    fputs("END\n", f);
}

static void print_panel(FILE *f, const Scaling *s, int column, const char *title) {
    fprintf(f, "set ylabel '%s'\nplot ", title);
    for (int i = 0; i < s->n; i++) {
        const int line = s->row[i].line;
        if (!starts_line(s, i)) continue;
        fprintf(f, "%s$line%d using 1:%d with linespoints ps 0.7", line ? ", \\\n     " : "", line,
                column);
        plot_line_end(f, line, s->row[i].name);
    }
    fputc('\n', f);
}

/* Long ones have no room as they are: 16K. */
static void print_length(FILE *f, double tokens, bool more) {
    if (more) fputs(", ", f);
    if (tokens >= 1024 && fmod(tokens, 1024) == 0)
        fprintf(f, "'%.10gK' %.10g", tokens / 1024, tokens);
    else
        fprintf(f, "%.10g", tokens);
}

/* Both axes logarithmic: a power of the length is a straight line. */
void scaling_plot(Plot *p, PlotSize size, const Scaling *s) {
    Legend legend = {0};
    bool memory = false;
    double least = INFINITY, most = 0;
    for (int i = 0; i < s->n; i++) {
        const double *v = s->row[i].value;
        memory |= v[SCALING_MEMORY] > 0;
        least = fmin(least, v[SCALING_TOKENS]);
        most = fmax(most, v[SCALING_TOKENS]);
        if (starts_line(s, i)) legend_add(&legend, s->row[i].name);
    }
    plot_panels(p, size, 1 + memory, &legend);
    print_data(p->f, s);
    fprintf(p->f, "set logscale xy\nset xlabel 'tokens'\nset xrange [%g:%g]\nset xtics (",
            least / 1.2, most * 1.2);
    for (int i = 0; i < s->n; i++) print_length(p->f, s->row[i].value[SCALING_TOKENS], i > 0);
    fputs(")\n", p->f);
    print_panel(p->f, s, 2, "samples a second");
    if (memory) print_panel(p->f, s, 3, "peak memory, MB");
    plot_panels_end(p, 1 + memory);
}
