#include "report/latex.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "report/sheet.h"

/* Of cmr10, in thousandths of 10 points (its design size), from its tfm file. */
static double letter_width(unsigned char c) {
    static const short small[26] = {500, 556, 444, 556, 444, 306, 500, 556, 278,
                                    306, 528, 278, 833, 556, 500, 556, 528, 392,
                                    394, 389, 556, 528, 722, 528, 528, 444};
    static const short large[26] = {750, 708, 722, 764, 681,  653, 785, 750, 361,
                                    514, 778, 625, 917, 750,  778, 681, 778, 736,
                                    556, 722, 750, 750, 1028, 750, 750, 611};
    if (c >= 0x80)
        return (c & 0xc0) == 0x80 ? 0 : 500; /* a letter is counted with its first byte */
    if (islower(c)) return small[c - 'a'];
    if (isupper(c)) return large[c - 'A'];
    if (strchr(".,:;", c)) return 278;
    if (strchr("()", c)) return 389;
    if (strchr("+=", c)) return 778;
    return c == ' ' || c == '-' ? 333 : c == '%' || c == '#' || c == '&' ? 833 : 500;
}

/* In points, of LaTeX as we write it: \% is a sign, \pm a sign between blanks, \textbf nothing. */
static double points(const char *s) {
    double width = 0;
    bool math = false;
    for (; *s; s++) {
        if (*s == '$') {
            math = !math;
        } else if (*s == '\\' && !isalpha((unsigned char)s[1])) {
            width += letter_width((unsigned char)*++s);
        } else if (*s == '\\') {
            const size_t n = strspn(s + 1, "abcdefghijklmnopqrstuvwxyz");
            width += !strncmp(s + 1, "pm", n)                                           ? 1222
                     : !strncmp(s + 1, "text", 4) && s[n + 1] == '{' && s[n + 2] == '}' ? 500
                                                                                        : 0;
            s += n;
        } else if (*s != '{' && *s != '}' && !(math && *s == ' ')) {
            width += letter_width((unsigned char)*s);
        }
    }
    return width / 100;
}

/* \tabcolsep, 6 points, on either side of what separates columns. */
static const Script latex = {.write = text_latex,
                             .pm = " \\pm ",
                             .math = "$",
                             .bold = "\\textbf{",
                             .strong = "\\mathbf{",
                             .end = "}",
                             .measure = points,
                             .gap = 12};

static const double point = 25.4 / 72.27; /* millimetres */

static void warn_of_width(Sheet *s, const LatexStyle *style) {
    const double width = point * sheet_width(s);
    if (width <= style->width) return;
    sheet_fit(s, style->width / point);
    char *left_out = sheet_hidden_titles(s), *keys = sheet_shown_keys(s);
    const double rest = point * sheet_width(s);
    if (*left_out)
        log_warn(
            "the table is about %.0f mm wide, and the page has room for %.0f: without \"%s\" it "
            "would be %.0f: --columns %s",
            width, style->width, left_out, rest, keys);
    else
        log_warn("the table is about %.0f mm wide, and the page has room for %.0f; %s--columns "
                 "chooses among its own",
                 width, style->width,
                 style->across ? "" : "--across gives it both columns of a page, ");
    sheet_show_all(s);
    mem_free(left_out);
    mem_free(keys);
}

static void write_row_end(FILE *f, int column, int n) {
    fputs(column + 1 < n ? " & " : " \\\\\n", f);
}

static void write_headings(const Sheet *s, FILE *f) {
    for (int line = 0; line < s->lines; line++)
        for (int c = 0; c < s->t->n; c++) {
            char *heading = sheet_heading(s, c, line);
            fputs(heading, f);
            write_row_end(f, c, s->t->n);
            mem_free(heading);
        }
}

static void write_tabular(const Sheet *s, FILE *f) {
    const Table *t = s->t;
    fputs("\\begin{tabular}{@{}", f);
    for (int c = 0; c < t->n; c++) fputc(table_is_left(t, c) ? 'l' : 'r', f);
    fputs("@{}}\n\\toprule\n", f);
    write_headings(s, f);
    fputs("\\midrule\n", f);
    for (int row = 0; row < t->rows; row++)
        for (int c = 0; c < t->n; c++) {
            fputs(s->cell[row * t->n + c], f);
            write_row_end(f, c, t->n);
        }
    fputs("\\bottomrule\n\\end{tabular}\n", f);
}

static void write_command(FILE *f, const char *name, const char *text, TextWriter *write) {
    if (!text) return;
    fprintf(f, "\\%s{", name);
    write(f, text);
    fputs("}\n", f);
}

void latex_write(const Table *t, const LatexStyle *style, FILE *f) {
    Sheet s;
    const bool floats = style->caption || style->label || style->across;
    const char *star = style->across ? "*" : "";
    sheet_open(&s, t, &latex, true);
    warn_of_width(&s, style);
    fputs("% \\usepackage{booktabs}\n", f);
    if (floats) fprintf(f, "\\begin{table%s}\n\\centering\n", star);
    write_command(f, "caption", style->caption, text_latex);
    write_command(f, "label", style->label, text_plain);
    write_tabular(&s, f);
    if (floats) fprintf(f, "\\end{table%s}\n", star);
    for (int i = 0; i < t->nnotes; i++) {
        fputs("% ", f);
        text_plain(f, t->notes[i]);
        fputc('\n', f);
    }
    sheet_close(&s);
}
