#include "report/terminal.h"

#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "report/sheet.h"

int terminal_letters(void) {
    enum { LEAST = 20, USUAL = 100 };
    const int columns = log_columns(USUAL);
    return columns > LEAST ? columns : LEAST;
}

static double letters_of(const char *s) { return text_width(s); }

static const Script terminal = {
    .write = text_plain, .pm = " ± ", .math = "", .measure = letters_of, .gap = 2};

/* Blanks at the end of a line are left out. */
static void write_cell(const Sheet *s, FILE *f, int column, const char *text, int *owed) {
    const int blanks = (int)s->width[column] - text_width(text);
    const bool left = table_is_left(s->t, column);
    if (!left) *owed += blanks;
    if (*text) {
        sheet_pad(f, *owed, ' ');
        fputs(text, f);
        *owed = 0;
    }
    *owed += (left ? blanks : 0) + (int)s->script->gap;
}

static void write_headings(const Sheet *s, FILE *f) {
    for (int line = 0; line < s->lines; line++) {
        int owed = 0;
        for (int c = 0; c < s->t->n; c++) {
            if (s->hidden[c]) continue;
            char *heading = sheet_heading(s, c, line);
            write_cell(s, f, c, heading, &owed);
            mem_free(heading);
        }
        fputc('\n', f);
    }
}

static void write_rule(const Sheet *s, FILE *f) {
    bool first = true;
    for (int c = 0; c < s->t->n; c++) {
        if (s->hidden[c]) continue;
        if (!first) sheet_pad(f, (int)s->script->gap, ' ');
        sheet_pad(f, (int)s->width[c], '-');
        first = false;
    }
    fputc('\n', f);
}

/* Broken at blanks. */
static void write_filled(FILE *f, const char *text, int letters) {
    int at = 0;
    char *copy = text_of(text_plain, text), *rest;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const int n = text_width(word);
        if (at && at + 1 + n > letters) {
            fputc('\n', f);
            at = 0;
        }
        fprintf(f, "%s%s", at ? " " : "", word);
        at += n + (at > 0);
    }
    fputc('\n', f);
    mem_free(copy);
}

static void write_left_out(const Sheet *s, FILE *f, int letters) {
    char *titles = sheet_hidden_titles(s);
    char *note = text_format("not shown: %s. --columns chooses, --format md shows all.", titles);
    fputc('\n', f);
    if (*titles) write_filled(f, note, letters);
    mem_free(titles);
    mem_free(note);
}

void terminal_write(const Table *t, int letters, FILE *f) {
    Sheet s;
    sheet_open(&s, t, &terminal, true);
    if (!t->chosen) sheet_fit(&s, letters);
    write_headings(&s, f);
    write_rule(&s, f);
    for (int row = 0; row < t->rows; row++) {
        int owed = 0;
        for (int c = 0; c < t->n; c++)
            if (!s.hidden[c]) write_cell(&s, f, c, s.cell[row * t->n + c], &owed);
        fputc('\n', f);
    }
    write_left_out(&s, f, letters);
    for (int i = 0; i < t->nnotes; i++) write_filled(f, t->notes[i], letters);
    sheet_close(&s);
}
