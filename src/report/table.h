/* A table. report/formats.h writes it. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stddef.h>

#include "core/err.h"

typedef enum ColumnKind {
    COLUMN_TEXT,
    COLUMN_NUMBER,
    COLUMN_SPREAD,   /* mean +- sd; in CSV KEY and KEY_sd */
    COLUMN_MARKED,   /* the same with the cell's mark: "50.00 ± 0.35 [DA]"; in CSV KEY_marks */
    COLUMN_ESTIMATE, /* the same where sd is the standard error; in CSV KEY_standard_error */
    COLUMN_SHARE     /* mean of sd: "2 of 3"; "2" where sd is NaN; in CSV KEY_of */
} ColumnKind;

typedef enum ColumnBest { BEST_NONE, BEST_MOST, BEST_LEAST } ColumnBest;

enum { SIGNIFICANT = 100, CELL_MARK = 8, SPARE_MOST = 11 };

typedef struct Column {
    char *title, *key; /* for people; for programs, in CSV: without spaces */
    ColumnKind kind;
    int digits; /* behind the point; SIGNIFICANT + n: n in all, or as many as stand before it */
    ColumnBest best; /* which of its cells is the best of a task, if any is */
    int spare;       /* 1 to SPARE_MOST: where there is no room the least goes first; 0: it stays */
    bool hidden;     /* shown only where table_select chose it */
} Column;

/* A cell with text shows that; one whose mean is NaN "-"; an sd that is NaN is left out. */
typedef struct Cell {
    char *text;
    double mean, sd;
    char mark[CELL_MARK]; /* letters, of COLUMN_MARKED; "": none */
    bool apart;           /* not to be held against the others: it is never the best */
    bool best;            /* of a table whose columns were chosen: as it was before */
} Cell;

typedef struct Table {
    Column *columns;
    Cell *cells; /* (rows,n), each row's beside another */
    char **notes;
    int n, rows, nnotes;
    bool chosen; /* by table_select */
} Table;

/* All strings are copied. Columns come before the first row; the returned one is valid until the
 * next. */
Column *table_column(Table *t, const char *title, const char *key, ColumnKind kind, int digits);
/* A new row, all of it "-". Returned cells are valid until the next row. */
Cell *table_row(Table *t);
/* NULL: it stays what it is. */
void cell_text(Cell *c, const char *text);
/* Told below the table (in CSV not at all). Takes over `note`, which mem_free frees. */
void table_note(Table *t, char *note);
void table_free(Table *t);

/* Leaves the columns of a list, in its order: "clusters,test_best_percent", keys or titles.
 * EX_USAGE: one is not there, or twice. */
bool table_select(Table *t, const char *list, Err *err);

/* Orders the rows by a column, its key or title, hidden or not: numbers by what is best, else
 * upwards, texts by their bytes; what has no value is last, and equals stay as they were. Before
 * table_select. EX_USAGE: there is no such column. */
bool table_sort(Table *t, const char *name, Err *err);
/* Leaves out what is hidden. */
void table_hide(Table *t);

const Cell *table_at(const Table *t, int row, int column);
/* Whether a column's cells stand on its left side. */
bool table_is_left(const Table *t, int column);

/* Whether no other row of its task (the column "task", where there is one) shows a better number,
 * and some other a worse one. */
bool table_is_best(const Table *t, int row, int column);

/* x with these digits (as in Column) into buf, "-" for NaN. */
const char *table_number(char *buf, size_t size, double x, int digits);

#endif
