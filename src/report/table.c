#include "report/table.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "io/text.h"

void table_column(Table *t, const char *title, const char *key, ColumnKind kind, int digits) {
    REQUIRE(t->rows == 0, "columns come before rows");
    t->columns = mem_grow(t->columns, (size_t)t->n + 1, sizeof *t->columns);
    t->columns[t->n++] = (Column){mem_strdup(title), mem_strdup(key), kind, digits};
}

Cell *table_row(Table *t) {
    t->cells = mem_grow(t->cells, ((size_t)t->rows + 1) * (size_t)t->n, sizeof *t->cells);
    Cell *row = t->cells + (size_t)t->rows++ * (size_t)t->n;
    for (int i = 0; i < t->n; i++) row[i] = (Cell){NULL, NAN, NAN, ""};
    return row;
}

void cell_text(Cell *c, const char *text) {
    if (!text) return;
    mem_free(c->text);
    c->text = mem_strdup(text);
}

void table_note(Table *t, char *note) {
    t->notes = mem_grow(t->notes, (size_t)t->nnotes + 1, sizeof *t->notes);
    t->notes[t->nnotes++] = note;
}

void table_free(Table *t) {
    for (int i = 0; i < t->n; i++) {
        mem_free(t->columns[i].title);
        mem_free(t->columns[i].key);
    }
    for (int i = 0; i < t->rows * t->n; i++) mem_free(t->cells[i].text);
    for (int i = 0; i < t->nnotes; i++) mem_free(t->notes[i]);
    mem_free(t->columns);
    mem_free(t->cells);
    mem_free(t->notes);
    *t = (Table){0};
}

const char *table_number(char *buf, size_t size, double x, int digits) {
    if (!isfinite(x)) {
        snprintf(buf, size, "-");
        return buf;
    }
    if (digits >= SIGNIFICANT) {
        const int before = x == 0 ? 1 : (int)floor(log10(fabs(x))) + 1;
        digits -= SIGNIFICANT + before;
        if (digits < 0) digits = 0;
        if (digits > 12) digits = 12;
    }
    snprintf(buf, size, "%.*f", digits, x);
    return buf;
}

/* ---- what people read ---- */

static bool has_spread(const Column *c) {
    return c->kind == COLUMN_SPREAD || c->kind == COLUMN_MARKED;
}

/* A cell's words; `pm`: how +- is written, `math` what surrounds it. To be freed. */
static char *words(const Cell *c, const Column *column, TextWriter *write, const char *pm,
                   const char *math) {
    char mean[64], sd[64];
    if (c->text) return text_of(write, c->text);
    if (column->kind == COLUMN_SHARE && !isnan(c->mean) && !isnan(c->sd))
        return text_format("%.0f of %.0f", c->mean, c->sd);
    table_number(mean, sizeof mean, c->mean, column->digits);
    if (!has_spread(column) || isnan(c->mean)) return mem_strdup(mean);
    const char *open = *c->mark ? " [" : "", *close = *c->mark ? "]" : "";
    if (isnan(c->sd)) return text_format("%s%s%s%s", mean, open, c->mark, close);
    /* As many digits behind the point as the mean. */
    const char *point = strchr(mean, '.');
    table_number(sd, sizeof sd, c->sd, point ? (int)strlen(point + 1) : 0);
    return text_format("%s%s%s%s%s%s%s%s", math, mean, pm, sd, math, open, c->mark, close);
}

static const Cell *cell_at(const Table *t, int row, int column) {
    return &t->cells[(size_t)row * (size_t)t->n + (size_t)column];
}

static void pad(FILE *f, int n, char c) {
    while (n-- > 0) fputc(c, f);
}

static bool is_left(const Table *t, int column) { return t->columns[column].kind == COLUMN_TEXT; }

/* A cell on the side that its column keeps to. */
static void write_padded(FILE *f, const char *s, int width, bool left) {
    const int blanks = width - text_width(s);
    fputs("| ", f);
    if (!left) pad(f, blanks, ' ');
    fputs(s, f);
    pad(f, (left ? blanks : 0) + 1, ' ');
}

static void write_rule(const Table *t, FILE *f, const int *width) {
    for (int c = 0; c < t->n; c++) {
        fputs("| ", f);
        pad(f, width[c] - !is_left(t, c), '-');
        fputs(is_left(t, c) ? " " : ": ", f);
    }
    fputs("|\n", f);
}

/* Each note through `write`, between what stands before and after it. */
static void write_notes(const Table *t, FILE *f, TextWriter *write, const char *before,
                        const char *after) {
    for (int i = 0; i < t->nnotes; i++) {
        fputs(before, f);
        write(f, t->notes[i]);
        fputs(after, f);
    }
}

/* Columns are as wide as their widest cell, so that the table can be read as it is. */
static void write_md(const Table *t, FILE *f) {
    const int cells = (t->rows + 1) * t->n;
    int *width = mem_alloc((size_t)t->n, sizeof *width);
    char **cell = mem_alloc((size_t)cells, sizeof *cell);
    for (int c = 0; c < t->n; c++) width[c] = 3;
    for (int i = 0; i < cells; i++) {
        const int c = i % t->n;
        cell[i] = i < t->n ? text_of(text_markdown, t->columns[c].title)
                           : words(&t->cells[i - t->n], &t->columns[c], text_markdown, " ± ", "");
        const int w = text_width(cell[i]);
        if (w > width[c]) width[c] = w;
    }
    for (int i = 0; i < cells; i++) {
        const int c = i % t->n;
        write_padded(f, cell[i], width[c], is_left(t, c));
        if (c + 1 == t->n) fputs("|\n", f);
        if (i + 1 == t->n) write_rule(t, f, width);
        mem_free(cell[i]);
    }
    mem_free(cell);
    mem_free(width);
    write_notes(t, f, text_markdown, "\n", "\n");
}

static void write_latex(const Table *t, FILE *f) {
    fputs("% \\usepackage{booktabs}\n\\begin{tabular}{", f);
    for (int c = 0; c < t->n; c++) fputc(is_left(t, c) ? 'l' : 'r', f);
    fputs("}\n\\toprule\n", f);
    for (int c = 0; c < t->n; c++) {
        text_latex(f, t->columns[c].title);
        fputs(c + 1 < t->n ? " & " : " \\\\\n\\midrule\n", f);
    }
    for (int row = 0; row < t->rows; row++)
        for (int c = 0; c < t->n; c++) {
            char *s = words(cell_at(t, row, c), &t->columns[c], text_latex, " \\pm ", "$");
            fputs(s, f);
            fputs(c + 1 < t->n ? " & " : " \\\\\n", f);
            mem_free(s);
        }
    fputs("\\bottomrule\n\\end{tabular}\n", f);
    write_notes(t, f, text_plain, "% ", "\n");
}

static void write_html(const Table *t, FILE *f) {
    fputs("<div class=\"wide\"><table>\n<thead><tr>", f);
    for (int c = 0; c < t->n; c++) {
        fputs(is_left(t, c) ? "<th>" : "<th class=\"n\">", f);
        text_html(f, t->columns[c].title);
        fputs("</th>", f);
    }
    fputs("</tr></thead>\n<tbody>\n", f);
    for (int row = 0; row < t->rows; row++) {
        fputs("<tr>", f);
        for (int c = 0; c < t->n; c++) {
            char *s = words(cell_at(t, row, c), &t->columns[c], text_html, " ± ", "");
            fprintf(f, "<td class=\"%c\">%s</td>", is_left(t, c) ? 't' : 'n', s);
            mem_free(s);
        }
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
    write_notes(t, f, text_html, "<p class=\"note\">", "</p>\n");
}

/* ---- what programs read ---- */

/* What a column has besides its mean, by the end of its name; NULL: nothing. */
static const char *second_of(const Column *c) {
    return has_spread(c) ? "_sd" : c->kind == COLUMN_SHARE ? "_of" : NULL;
}

static void csv_number(FILE *f, double x) {
    if (isfinite(x)) fprintf(f, "%.10g", x);
}

static void csv_cell(FILE *f, const Cell *cell, const Column *column) {
    if (cell->text)
        text_csv(f, cell->text);
    else
        csv_number(f, cell->mean);
    if (!second_of(column)) return;
    fputc(',', f);
    csv_number(f, cell->sd);
    if (column->kind == COLUMN_MARKED) fprintf(f, ",%s", cell->mark);
}

static void write_csv(const Table *t, FILE *f) {
    for (int c = 0; c < t->n; c++) {
        const Column *column = &t->columns[c];
        if (c) fputc(',', f);
        text_csv(f, column->key);
        if (second_of(column)) fprintf(f, ",%s%s", column->key, second_of(column));
        if (column->kind == COLUMN_MARKED) fprintf(f, ",%s_marks", column->key);
    }
    fputs("\r\n", f);
    for (int row = 0; row < t->rows; row++) {
        for (int c = 0; c < t->n; c++) {
            if (c) fputc(',', f);
            csv_cell(f, cell_at(t, row, c), &t->columns[c]);
        }
        fputs("\r\n", f);
    }
}

void table_write(const Table *t, TableFormat format, FILE *f) {
    static void (*const write[])(const Table *, FILE *) = {write_md, write_latex, write_csv,
                                                           write_html};
    write[format](t, f);
}
