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
    for (int i = 0; i < t->n; i++) row[i] = (Cell){NULL, NAN, NAN};
    return row;
}

void cell_text(Cell *c, const char *text) {
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

/* A cell's words; `pm`: how +- is written, `math` what surrounds it. To be freed. */
static char *words(const Cell *c, const Column *column, TextWriter *write, const char *pm,
                   const char *math) {
    char mean[64], sd[64];
    if (c->text) return text_of(write, c->text);
    if (column->kind == COLUMN_SHARE && !isnan(c->mean) && !isnan(c->sd))
        return text_format("%.0f of %.0f", c->mean, c->sd);
    table_number(mean, sizeof mean, c->mean, column->digits);
    if (column->kind != COLUMN_SPREAD || isnan(c->mean) || isnan(c->sd)) return mem_strdup(mean);
    /* As many digits behind the point as the mean. */
    const char *point = strchr(mean, '.');
    table_number(sd, sizeof sd, c->sd, point ? (int)strlen(point + 1) : 0);
    return text_format("%s%s%s%s%s", math, mean, pm, sd, math);
}

static const Cell *cell_at(const Table *t, int row, int column) {
    return &t->cells[(size_t)row * (size_t)t->n + (size_t)column];
}

static void pad(FILE *f, int n, char c) {
    while (n-- > 0) fputc(c, f);
}

/* Columns are as wide as their widest cell, so that the table can be read as it is. */
static void write_md(const Table *t, FILE *f) {
    int *width = mem_alloc((size_t)t->n, sizeof *width);
    char **cell = mem_alloc(((size_t)t->rows + 1) * (size_t)t->n, sizeof *cell);
    for (int i = 0; i < (t->rows + 1) * t->n; i++) {
        const int c = i % t->n;
        cell[i] = i < t->n ? text_of(text_markdown, t->columns[c].title)
                           : words(&t->cells[i - t->n], &t->columns[c], text_markdown, " ± ", "");
        const int w = text_width(cell[i]);
        if (w > width[c]) width[c] = w;
        if (width[c] < 3) width[c] = 3;
    }
    for (int row = 0; row <= t->rows; row++) {
        for (int c = 0; c < t->n; c++) {
            const char *s = cell[row * t->n + c];
            const bool left = t->columns[c].kind == COLUMN_TEXT;
            fputs("| ", f);
            if (!left) pad(f, width[c] - text_width(s), ' ');
            fputs(s, f);
            pad(f, (left ? width[c] - text_width(s) : 0) + 1, ' ');
        }
        fputs("|\n", f);
        for (int c = 0; row == 0 && c < t->n; c++) {
            const bool left = t->columns[c].kind == COLUMN_TEXT;
            fputs("| ", f);
            pad(f, width[c] - !left, '-');
            fputs(left ? " " : ": ", f);
        }
        if (row == 0) fputs("|\n", f);
    }
    for (int i = 0; i < (t->rows + 1) * t->n; i++) mem_free(cell[i]);
    mem_free(cell);
    mem_free(width);
    for (int i = 0; i < t->nnotes; i++) {
        fputc('\n', f);
        text_markdown(f, t->notes[i]);
        fputc('\n', f);
    }
}

static void write_latex(const Table *t, FILE *f) {
    fputs("% \\usepackage{booktabs}\n\\begin{tabular}{", f);
    for (int c = 0; c < t->n; c++) fputc(t->columns[c].kind == COLUMN_TEXT ? 'l' : 'r', f);
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
    for (int i = 0; i < t->nnotes; i++) {
        fputs("% ", f);
        text_plain(f, t->notes[i]);
        fputc('\n', f);
    }
}

static void write_html(const Table *t, FILE *f) {
    fputs("<div class=\"wide\"><table>\n<thead><tr>", f);
    for (int c = 0; c < t->n; c++) {
        fputs(t->columns[c].kind == COLUMN_TEXT ? "<th>" : "<th class=\"n\">", f);
        text_html(f, t->columns[c].title);
        fputs("</th>", f);
    }
    fputs("</tr></thead>\n<tbody>\n", f);
    for (int row = 0; row < t->rows; row++) {
        fputs("<tr>", f);
        for (int c = 0; c < t->n; c++) {
            char *s = words(cell_at(t, row, c), &t->columns[c], text_html, " ± ", "");
            fprintf(f, "<td%s>%s</td>",
                    t->columns[c].kind == COLUMN_TEXT ? " class=\"t\"" : " class=\"n\"", s);
            mem_free(s);
        }
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
    for (int i = 0; i < t->nnotes; i++) {
        fputs("<p class=\"note\">", f);
        text_html(f, t->notes[i]);
        fputs("</p>\n", f);
    }
}

/* ---- what programs read ---- */

static void csv_number(FILE *f, double x) {
    if (isfinite(x)) fprintf(f, "%.10g", x);
}

static void write_csv(const Table *t, FILE *f) {
    for (int c = 0; c < t->n; c++) {
        if (c) fputc(',', f);
        text_csv(f, t->columns[c].key);
        if (t->columns[c].kind == COLUMN_SPREAD) fprintf(f, ",%s_sd", t->columns[c].key);
        if (t->columns[c].kind == COLUMN_SHARE) fprintf(f, ",%s_of", t->columns[c].key);
    }
    fputs("\r\n", f);
    for (int row = 0; row < t->rows; row++) {
        for (int c = 0; c < t->n; c++) {
            const Cell *cell = cell_at(t, row, c);
            const ColumnKind kind = t->columns[c].kind;
            if (c) fputc(',', f);
            if (cell->text)
                text_csv(f, cell->text);
            else
                csv_number(f, cell->mean);
            if (kind == COLUMN_SPREAD || kind == COLUMN_SHARE) {
                fputc(',', f);
                csv_number(f, cell->sd);
            }
        }
        fputs("\r\n", f);
    }
}

void table_write(const Table *t, TableFormat format, FILE *f) {
    static void (*const write[])(const Table *, FILE *) = {write_md, write_latex, write_csv,
                                                           write_html};
    write[format](t, f);
}
