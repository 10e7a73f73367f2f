/* Text made safe for what it is put into. Control characters become spaces, bytes that are not
 * UTF-8 U+FFFD, so that a name from a file system can be written anywhere. */
#ifndef IO_TEXT_H
#define IO_TEXT_H

#include <stdbool.h>
#include <stdio.h>

typedef void TextWriter(FILE *f, const char *s);

void text_plain(FILE *f, const char *s);
/* Of GitHub's Markdown, within a table too. */
void text_markdown(FILE *f, const char *s);
void text_latex(FILE *f, const char *s);
/* A field of RFC 4180, quoted where it must be. What a spreadsheet would take for a formula has an
 * apostrophe before it; text_of_csv is what such a field says, its quotes taken off before. */
void text_csv(FILE *f, const char *s);
const char *text_of_csv(const char *field);
/* Also within a quoted attribute. */
void text_html(FILE *f, const char *s);
/* A string literal of gnuplot, its quotes included, which substitutes nothing. */
void text_gnuplot(FILE *f, const char *s);

/* What the writer makes of s, to be freed with mem_free. */
char *text_of(TextWriter *write, const char *s);
/* Like printf, to be freed with mem_free. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Like fprintf, for people: what is told may come from outside, so control characters but newline
 * become '?', as in errors. */
void text_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* strcmp of strings, for qsort. */
int text_order(const void *a, const void *b);
bool text_ends(const char *s, const char *end);
/* Characters, not bytes, of what text_plain writes. */
int text_width(const char *s);
/* The width to print s with, as of "%-*s", so that it takes so many characters. */
int text_field(const char *s, int characters);
/* open_memstream, which does not fail (core/malloc.c). */
FILE *text_stream(char **text, size_t *size);

#endif
