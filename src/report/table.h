/* A table, and the ways of writing it: Markdown, LaTeX (booktabs), CSV (RFC 4180), HTML. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdio.h>

typedef enum ColumnKind {
    COLUMN_TEXT,
    COLUMN_NUMBER,
    COLUMN_SPREAD, /* mean +- sd */
    COLUMN_MARKED, /* the same with the cell's mark: "50.00 ± 0.35 [DA]"; in CSV KEY_marks */
    COLUMN_SHARE   /* mean of sd: "2 of 3"; "2" where sd is NaN */
} ColumnKind;

enum { SIGNIFICANT = 100, CELL_MARK = 8 };

typedef struct Column {
    char *title, *key; /* for people; for programs, in CSV: without spaces */
    ColumnKind kind;
    int digits; /* behind the point; SIGNIFICANT + n: n in all, or as many as stand before it */
} Column;

/* A cell with text shows that; one whose mean is NaN "-"; an sd that is NaN is left out. */
typedef struct Cell {
    char *text;
    double mean, sd;
    char mark[CELL_MARK]; /* letters, of COLUMN_MARKED; "": none */
} Cell;

typedef struct Table {
    Column *columns;
    Cell *cells; /* (rows,n), each row's beside another */
    char **notes;
    int n, rows, nnotes;
} Table;

/* All strings are copied. Columns come before the first row. */
void table_column(Table *t, const char *title, const char *key, ColumnKind kind, int digits);
/* A new row, all of it "-". Returned cells are valid until the next row. */
Cell *table_row(Table *t);
/* NULL: it stays what it is. */
void cell_text(Cell *c, const char *text);
/* Told below the table (in CSV not at all). Takes over `note`, which mem_free frees. */
void table_note(Table *t, char *note);
void table_free(Table *t);

typedef enum TableFormat { TABLE_MD, TABLE_LATEX, TABLE_CSV, TABLE_HTML } TableFormat;
void table_write(const Table *t, TableFormat format, FILE *f);

/* x with these digits (as in Column) into buf, "-" for NaN. */
const char *table_number(char *buf, size_t size, double x, int digits);

#endif
