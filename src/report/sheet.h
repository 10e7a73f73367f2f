/* A table laid out: what stands in each cell, how wide columns are, headings broken into lines. */
#ifndef REPORT_SHEET_H
#define REPORT_SHEET_H

#include "io/text.h"
#include "report/table.h"

/* How a format writes cells. */
typedef struct Script {
    TextWriter *write;
    const char *pm, *math;     /* between mean and deviation; before and after the two */
    const char *bold, *strong; /* before the best, alone and before a deviation; NULL: unmarked */
    const char *end;           /* behind either */
    double (*measure)(const char *written);
    double gap; /* between columns, measured so too */
} Script;

/* A cell's words; to be freed. */
char *sheet_words(const Script *s, const Table *t, int row, int column);

typedef struct Sheet {
    const Table *t;
    const Script *script;
    char **cell;    /* (rows,n), as written */
    char **heading; /* (n), a newline where it is broken; sheet_heading writes it */
    double *width;  /* (n) */
    bool *hidden;   /* (n) */
    int lines;      /* of the tallest heading */
} Sheet;

/* `wrapped`: headings are broken where they are wider than their column. */
void sheet_open(Sheet *s, const Table *t, const Script *script, bool wrapped);
void sheet_close(Sheet *s);

/* A heading's line of s->lines, headings standing on the last; "": it has none there. To be freed.
 */
char *sheet_heading(const Sheet *s, int column, int line);

/* c, n times. */
void sheet_pad(FILE *f, int n, char c);

/* Of the columns that are not hidden, and the gaps between them. */
double sheet_width(const Sheet *s);
/* Hides what may be spared until the rest is no wider than `most`, if that can be. */
void sheet_fit(Sheet *s, double most);
void sheet_show_all(Sheet *s);

/* "epochs; hours": titles of the columns that are hidden; "loss,seed": keys of those that are
 * shown. To be freed. */
char *sheet_hidden_titles(const Sheet *s);
char *sheet_shown_keys(const Sheet *s);

#endif
