#include "report/formats.h"

#include <math.h>

#include "core/mem.h"
#include "report/sheet.h"
#include "report/terminal.h"

/* ---- Markdown ---- */

static double letters_of(const char *s) { return fmax(3, text_width(s)); }

static const Script markdown = {
    .write = text_markdown, .pm = " ± ", .math = "", .measure = letters_of, .gap = 3};

/* A cell on the side that its column keeps to. */
static void write_padded(FILE *f, const char *s, int width, bool left) {
    const int blanks = width - text_width(s);
    fputs("| ", f);
    if (!left) sheet_pad(f, blanks, ' ');
    fputs(s, f);
    sheet_pad(f, (left ? blanks : 0) + 1, ' ');
}

static void write_rule(const Sheet *s, FILE *f) {
    for (int c = 0; c < s->t->n; c++) {
        const bool left = table_is_left(s->t, c);
        fputs("| ", f);
        sheet_pad(f, (int)s->width[c] - !left, '-');
        fputs(left ? " " : ": ", f);
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
    Sheet s;
    sheet_open(&s, t, &markdown, false);
    for (int c = 0; c < t->n; c++) {
        char *heading = sheet_heading(&s, c, 0);
        write_padded(f, heading, (int)s.width[c], table_is_left(t, c));
        mem_free(heading);
    }
    fputs("|\n", f);
    write_rule(&s, f);
    for (int i = 0; i < t->rows * t->n; i++) {
        const int c = i % t->n;
        write_padded(f, s.cell[i], (int)s.width[c], table_is_left(t, c));
        if (c + 1 == t->n) fputs("|\n", f);
    }
    sheet_close(&s);
    write_notes(t, f, text_markdown, "\n", "\n");
}

/* ---- HTML ---- */

static const Script html = {
    .write = text_html, .pm = " ± ", .math = "", .bold = "<b>", .strong = "<b>", .end = "</b>"};

/* The start of a cell. What may be spared (s) is not shown on a narrow screen. */
static void write_open(FILE *f, const Table *t, int column, const char *tag) {
    fprintf(f, "<%s class=\"%c%s\">", tag, table_is_left(t, column) ? 't' : 'n',
            t->columns[column].spare ? " s" : "");
}

static void write_html(const Table *t, FILE *f) {
    fputs("<div class=\"wide\"><table>\n<thead><tr>", f);
    bool spare = false;
    for (int c = 0; c < t->n; c++) {
        write_open(f, t, c, "th");
        text_html(f, t->columns[c].title);
        spare |= t->columns[c].spare > 0;
        fputs("</th>", f);
    }
    fputs("</tr></thead>\n<tbody>\n", f);
    for (int row = 0; row < t->rows; row++) {
        fputs("<tr>", f);
        for (int c = 0; c < t->n; c++) {
            char *s = sheet_words(&html, t, row, c);
            write_open(f, t, c, "td");
            fprintf(f, "%s</td>", s);
            mem_free(s);
        }
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
    if (spare) fputs("<p class=\"note narrow\">A wider screen shows more columns.</p>\n", f);
    write_notes(t, f, text_html, "<p class=\"note\">", "</p>\n");
}

/* ---- CSV ---- */

/* What a column has besides its mean, by the end of its name; NULL: nothing. */
static const char *second_of(const Column *c) {
    static const char *const ends[] = {[COLUMN_SPREAD] = "_sd",
                                       [COLUMN_MARKED] = "_sd",
                                       [COLUMN_ESTIMATE] = "_standard_error",
                                       [COLUMN_SHARE] = "_of"};
    return ends[c->kind];
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
            csv_cell(f, table_at(t, row, c), &t->columns[c]);
        }
        fputs("\r\n", f);
    }
}

void table_write(const Table *t, const TableStyle *style, FILE *f) {
    switch (style->format) {
    case TABLE_MD: write_md(t, f); break;
    case TABLE_LATEX: latex_write(t, &style->latex, f); break;
    case TABLE_CSV: write_csv(t, f); break;
    case TABLE_HTML: write_html(t, f); break;
    case TABLE_TERMINAL: terminal_write(t, style->letters, f); break;
    }
}
