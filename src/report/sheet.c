#include "report/sheet.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

/* ---- words ---- */

static bool has_spread(const Column *c) {
    return c->kind == COLUMN_SPREAD || c->kind == COLUMN_MARKED || c->kind == COLUMN_ESTIMATE;
}

/* "50.00 ± 0.35 [DA]", with as many digits behind the point of both. */
static char *number_words(const Script *s, const Cell *c, const Column *column, bool best) {
    char mean[64], sd[64];
    table_number(mean, sizeof mean, c->mean, column->digits);
    const bool spread = has_spread(column) && !isnan(c->mean) && !isnan(c->sd);
    const bool marked = column->kind == COLUMN_MARKED && *c->mark;
    const char *point = strchr(mean, '.'),
               *math = spread || (*mean == '-' && mean[1]) ? s->math : "";
    const char *before = !best || !s->bold ? "" : *math ? s->strong : s->bold;
    table_number(sd, sizeof sd, c->sd, point ? (int)strlen(point + 1) : 0);
    return text_format("%s%s%s%s%s%s%s%s%s%s", math, before, mean, *before ? s->end : "",
                       spread ? s->pm : "", spread ? sd : "", math, marked ? " [" : "",
                       marked ? c->mark : "", marked ? "]" : "");
}

char *sheet_words(const Script *s, const Table *t, int row, int column) {
    const Cell *c = table_at(t, row, column);
    const Column *of = &t->columns[column];
    if (c->text) return text_of(s->write, c->text);
    if (of->kind == COLUMN_SHARE && !isnan(c->mean) && !isnan(c->sd))
        return text_format("%.0f of %.0f", c->mean, c->sd);
    return number_words(s, c, of, s->bold && table_is_best(t, row, column));
}

static double measured(const Script *s, const char *raw) {
    char *written = text_of(s->write, raw);
    const double width = s->measure(written);
    mem_free(written);
    return width;
}

/* ---- headings ---- */

/* A minus alone. */
static bool is_dash(const char *at) { return at[0] == '-' && (!at[1] || at[1] == ' '); }

/* Breaks at blanks, but not before a sign alone nor beside a minus, so that no line is wider than
 * `most` that need not be. Returns the number of lines. */
static int wrap(const Script *s, char *heading, double most) {
    int lines = 1;
    char *line = heading;
    for (char *blank = heading; (blank = strchr(blank, ' ')); blank++) {
        if (blank[1] == '%' || is_dash(blank + 1) || (blank > line && is_dash(blank - 1))) continue;
        const size_t next = strcspn(blank + 1, " ");
        const char after = blank[1 + next];
        blank[1 + next] = '\0';
        const bool fits = measured(s, line) <= most;
        blank[1 + next] = after;
        if (fits) continue;
        *blank = '\n';
        line = blank + 1;
        lines++;
    }
    return lines;
}

/* Half of it, where its words are shorter: three lines are harder to read than two. */
static double least_width(const Script *s, const char *heading) {
    double most = measured(s, heading) / 2;
    char *copy = mem_strdup(heading), *rest;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        most = fmax(most, measured(s, word));
    mem_free(copy);
    return most;
}

static double widest_line(const Script *s, const char *heading) {
    double most = 0;
    char *copy = mem_strdup(heading), *rest;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        most = fmax(most, measured(s, line));
    mem_free(copy);
    return most;
}

static void lay_out(Sheet *s, int c, bool wrapped) {
    char *heading = mem_strdup(s->t->columns[c].title);
    double width = 0;
    for (int row = 0; row < s->t->rows; row++)
        width = fmax(width, s->script->measure(s->cell[row * s->t->n + c]));
    if (wrapped) {
        const int lines = wrap(s->script, heading, fmax(width, least_width(s->script, heading)));
        if (lines > s->lines) s->lines = lines;
    }
    s->heading[c] = heading;
    s->width[c] = fmax(width, widest_line(s->script, heading));
}

/* The first of a text's lines, counted from 0; NULL: it has fewer. */
static const char *line_at(const char *text, int line) {
    for (; text && line > 0; line--) text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    return text;
}

char *sheet_heading(const Sheet *s, int column, int line) {
    int own = 1;
    const char *heading = s->heading[column];
    for (const char *p = heading; (p = strchr(p, '\n')); p++) own++;
    const int skip = s->lines - own;
    if (line < skip) return mem_strdup("");
    char *text = mem_strdup(line_at(heading, line - skip));
    text[strcspn(text, "\n")] = '\0';
    char *written = text_of(s->script->write, text);
    mem_free(text);
    return written;
}

/* ---- the whole ---- */

void sheet_open(Sheet *s, const Table *t, const Script *script, bool wrapped) {
    const size_t n = (size_t)t->n;
    *s = (Sheet){.t = t, .script = script, .lines = 1};
    s->cell = mem_alloc(n * (size_t)t->rows + 1, sizeof *s->cell);
    s->heading = mem_alloc(n, sizeof *s->heading);
    s->width = mem_alloc(n, sizeof *s->width);
    s->hidden = mem_alloc(n, sizeof *s->hidden);
    for (int row = 0; row < t->rows; row++)
        for (int c = 0; c < t->n; c++) s->cell[row * t->n + c] = sheet_words(script, t, row, c);
    for (int c = 0; c < t->n; c++) lay_out(s, c, wrapped);
}

void sheet_close(Sheet *s) {
    for (int i = 0; i < s->t->rows * s->t->n; i++) mem_free(s->cell[i]);
    for (int c = 0; c < s->t->n; c++) mem_free(s->heading[c]);
    mem_free(s->cell);
    mem_free(s->heading);
    mem_free(s->width);
    mem_free(s->hidden);
}

void sheet_pad(FILE *f, int n, char c) {
    while (n-- > 0) fputc(c, f);
}

double sheet_width(const Sheet *s) {
    double width = -s->script->gap;
    for (int c = 0; c < s->t->n; c++)
        if (!s->hidden[c]) width += s->width[c] + s->script->gap;
    return width;
}

/* The column that is spared first, of several the widest; -1: none may be. */
static int first_spared(const Sheet *s) {
    int first = -1;
    for (int c = 0; c < s->t->n; c++) {
        const int spare = s->t->columns[c].spare;
        if (s->hidden[c] || !spare) continue;
        const int before = first < 0 ? 0 : s->t->columns[first].spare;
        if (first < 0 || spare < before || (spare == before && s->width[c] > s->width[first]))
            first = c;
    }
    return first;
}

/* A wide one that went may have left room for some that went before it. */
static void show_what_fits(Sheet *s, double most) {
    for (int spare = SPARE_MOST; spare > 0; spare--)
        for (int c = 0; c < s->t->n; c++)
            if (s->hidden[c] && s->t->columns[c].spare == spare)
                s->hidden[c] = sheet_width(s) + s->script->gap + s->width[c] > most;
}

void sheet_fit(Sheet *s, double most) {
    for (int c; sheet_width(s) > most && (c = first_spared(s)) >= 0;) s->hidden[c] = true;
    show_what_fits(s, most);
}

void sheet_show_all(Sheet *s) { memset(s->hidden, 0, (size_t)s->t->n * sizeof *s->hidden); }

static char *names(const Sheet *s, bool hidden, bool keys, const char *between) {
    char *text;
    size_t size;
    FILE *f = text_stream(&text, &size);
    bool first = true;
    for (int c = 0; c < s->t->n; c++) {
        if (s->hidden[c] != hidden) continue;
        const Column *column = &s->t->columns[c];
        fprintf(f, "%s%s", first ? "" : between, keys ? column->key : column->title);
        first = false;
    }
    fclose(f);
    return text;
}

char *sheet_hidden_titles(const Sheet *s) { return names(s, true, false, "; "); }
char *sheet_shown_keys(const Sheet *s) { return names(s, false, true, ","); }
