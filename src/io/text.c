#include "io/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/utf8.h"

/* The next character of s, which is not empty, into `c`, made harmless; returns what is behind. */
static const char *next(const char *s, char c[5]) {
    enum { MOST = 4 };
    const int n = utf8_length(s, strnlen(s, MOST));
    if (n == 0) {
        memcpy(c, "\xef\xbf\xbd", 4);
        return s + 1;
    }
    memcpy(c, s, (size_t)n);
    c[n] = '\0';
    if (utf8_is_control(s)) memcpy(c, " ", 2);
    return s + n;
}

/* What to write instead of an ASCII character; NULL: itself. */
enum { ASCII = 128 };
typedef const char *const Escapes[ASCII];

/* `in_word`: a character that stays what it is between letters and digits; 0: none. */
static void write_with(FILE *f, const char *s, const Escapes escapes, char in_word) {
    char c[5], before = '\0';
    while (*s) {
        s = next(s, c);
        const char *instead = c[1] ? NULL : escapes[(unsigned char)c[0]];
        if (c[0] == in_word && isalnum((unsigned char)before) && isalnum((unsigned char)*s))
            instead = NULL;
        fputs(instead ? instead : c, f);
        before = c[0];
    }
}

void text_plain(FILE *f, const char *s) {
    static const Escapes none;
    write_with(f, s, none, 0);
}

/* An underscore inside a word begins no emphasis, and d_ff is to stay readable. */
void text_markdown(FILE *f, const char *s) {
    static const Escapes markdown = {
        ['|'] = "\\|",   ['\\'] = "\\\\", ['`'] = "\\`",  ['*'] = "\\*",
        ['['] = "\\[",   [']'] = "\\]",   ['~'] = "\\~",  ['$'] = "\\$",
        ['&'] = "&amp;", ['<'] = "&lt;",  ['>'] = "&gt;", ['_'] = "\\_",
    };
    write_with(f, s, markdown, '_');
}

/* For '"' \textquotedbl would ask for a font encoding; behind a line's \\ '[' would begin an
 * argument. */
void text_latex(FILE *f, const char *s) {
    static const Escapes latex = {
        ['\\'] = "\\textbackslash{}",
        ['~'] = "\\textasciitilde{}",
        ['^'] = "\\textasciicircum{}",
        ['<'] = "\\textless{}",
        ['>'] = "\\textgreater{}",
        ['|'] = "\\textbar{}",
        ['"'] = "''",
        ['['] = "{[}",
        ['*'] = "{*}", /* behind the end of a row it would mean something */
        ['&'] = "\\&",
        ['%'] = "\\%",
        ['$'] = "\\$",
        ['#'] = "\\#",
        ['_'] = "\\_",
        ['{'] = "\\{",
        ['}'] = "\\}",
    };
    write_with(f, s, latex, 0);
}

/* The length of what is at s and is written as a blank; 0: it is none. */
static int blank(const char *s) {
    if (!*s) return 0;
    return *s == ' ' ? 1 : utf8_is_control(s) ? utf8_length(s, strlen(s)) : 0;
}

/* Whether a spreadsheet would compute it: behind blanks, and apostrophes that may stand before it
 * already, a sign that begins formulas, and no number. */
static bool is_formula(const char *s) {
    char *end;
    for (int n; (n = *s == '\'' ? 1 : blank(s)) > 0;) s += n;
    if (!*s || !strchr("=+-@", *s)) return false;
    strtod(s, &end);
    return end == s || *end || s[strspn(s, "+-.0123456789eE")];
}

void text_csv(FILE *f, const char *s) {
    static const Escapes csv = {['"'] = "\"\""};
    const bool quoted = strpbrk(s, ",;\"\r\n") || *s == ' ';
    if (quoted) fputc('"', f);
    if (is_formula(s)) fputc('\'', f);
    write_with(f, s, csv, 0);
    if (quoted) fputc('"', f);
}

const char *text_of_csv(const char *field) { return field + (*field == '\'' && is_formula(field)); }

void text_html(FILE *f, const char *s) {
    static const Escapes html = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
    write_with(f, s, html, 0);
}

/* In double quotes, since doubled single quotes are not read well everywhere; what means something
 * there as octal numbers: backquotes would run a shell. */
void text_gnuplot(FILE *f, const char *s) {
    static const Escapes gnuplot = {
        ['"'] = "\\042", ['\''] = "\\047", ['`'] = "\\140", ['\\'] = "\\134", ['@'] = "\\100"};
    fputc('"', f);
    write_with(f, s, gnuplot, 0);
    fputc('"', f);
}

int text_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

FILE *text_stream(char **text, size_t *size) { return open_memstream(text, size); }

char *text_of(TextWriter *write, const char *s) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = text_stream(&text, &size);
    write(f, s);
    fclose(f);
    return text;
}

__attribute__((format(printf, 1, 0))) static char *format(const char *fmt, va_list ap) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = text_stream(&text, &size);
    vfprintf(f, fmt, ap);
    fclose(f);
    return text;
}

char *text_format(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = format(fmt, ap);
    va_end(ap);
    return text;
}

void text_print(FILE *f, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = format(fmt, ap);
    va_end(ap);
    err_mask(text);
    fputs(text, f);
    mem_free(text);
}

bool text_ends(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

int text_width(const char *s) {
    char c[5];
    int n = 0;
    for (; *s; n++) s = next(s, c);
    return n;
}

int text_field(const char *s, int characters) {
    return characters + (int)strlen(s) - text_width(s);
}
