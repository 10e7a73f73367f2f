#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/nearest.h"

Column *table_column(Table *t, const char *title, const char *key, ColumnKind kind, int digits) {
    REQUIRE(t->rows == 0, "columns come before rows");
    t->columns = mem_grow(t->columns, (size_t)t->n + 1, sizeof *t->columns);
    Column *c = &t->columns[t->n++];
    *c = (Column){.title = mem_strdup(title), mem_strdup(key), kind, digits};
    return c;
}

Cell *table_row(Table *t) {
    t->cells = mem_grow(t->cells, ((size_t)t->rows + 1) * (size_t)t->n, sizeof *t->cells);
    Cell *row = t->cells + (size_t)t->rows++ * (size_t)t->n;
    for (int i = 0; i < t->n; i++) row[i] = (Cell){.mean = NAN, .sd = NAN};
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

static void column_free(Column *c) {
    mem_free(c->title);
    mem_free(c->key);
}

void table_free(Table *t) {
    for (int i = 0; i < t->n; i++) column_free(&t->columns[i]);
    for (int i = 0; i < t->rows * t->n; i++) mem_free(t->cells[i].text);
    for (int i = 0; i < t->nnotes; i++) mem_free(t->notes[i]);
    mem_free(t->columns);
    mem_free(t->cells);
    mem_free(t->notes);
    *t = (Table){0};
}

/* Behind the point, of so many significant digits. What rounds up to a power of ten has a digit
 * more before the point than it seems. */
static int decimals(double x, int significant) {
    char text[32];
    snprintf(text, sizeof text, "%.*e", significant - 1, x);
    const int after = significant - 1 - (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    return x == 0 ? significant - 1 : after < 0 ? 0 : after > 12 ? 12 : after;
}

const char *table_number(char *buf, size_t size, double x, int digits) {
    if (!isfinite(x)) {
        snprintf(buf, size, "-");
        return buf;
    }
    if (fabs(x) >= 1e15) { /* more digits than a double has */
        snprintf(buf, size, "%.15g", x);
        return buf;
    }
    if (digits >= SIGNIFICANT) digits = decimals(x, digits - SIGNIFICANT);
    snprintf(buf, size, "%.*f", digits, x);
    if (buf[0] == '-' && strtod(buf, NULL) == 0) memmove(buf, buf + 1, strlen(buf));
    return buf;
}

/* ---- the best ---- */

const Cell *table_at(const Table *t, int row, int column) {
    return &t->cells[(size_t)row * (size_t)t->n + (size_t)column];
}

/* The column with the key or title; -1: there is none. */
static int find_column(const Table *t, const char *name) {
    for (int c = 0; c < t->n; c++)
        if (!strcmp(t->columns[c].key, name) || !strcmp(t->columns[c].title, name)) return c;
    return -1;
}

bool table_is_left(const Table *t, int column) { return t->columns[column].kind == COLUMN_TEXT; }

static bool same_task(const Table *t, int a, int b) {
    const int task = find_column(t, "task");
    const char *x = task < 0 ? NULL : table_at(t, a, task)->text;
    const char *y = task < 0 ? NULL : table_at(t, b, task)->text;
    return x && y ? !strcmp(x, y) : x == y;
}

/* As it is shown: what cannot be told apart there is as good; NaN: it does not count. */
static double shown(const Table *t, int row, int column) {
    char text[64];
    const Cell *c = table_at(t, row, column);
    if (c->text || c->apart || !isfinite(c->mean)) return NAN;
    return strtod(table_number(text, sizeof text, c->mean, t->columns[column].digits), NULL);
}

bool table_is_best(const Table *t, int row, int column) {
    const ColumnBest best = t->columns[column].best;
    const double sign = best == BEST_LEAST ? -1 : 1, own = sign * shown(t, row, column);
    bool worse = false;
    if (t->chosen) return table_at(t, row, column)->best;
    if (best == BEST_NONE || isnan(own)) return false;
    for (int i = 0; i < t->rows; i++) {
        const double other = sign * shown(t, i, column);
        if (isnan(other) || !same_task(t, row, i)) continue;
        if (other > own) return false;
        worse |= other < own;
    }
    return worse;
}

/* ---- some of the columns ---- */

/* What stands there, up to a comma, is no column. */
static bool no_such(const Table *t, const char *at, const char *option, Err *err) {
    char name[NEAREST_MOST];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    const char **keys = mem_alloc((size_t)t->n + 1, sizeof *keys);
    for (int c = 0; c < t->n; c++) keys[c] = t->columns[c].key;
    const char *meant = nearest_word(name, keys);
    err_set(err, EX_USAGE, "--%s: the table has no column '%s'%s%s%s; --columns help lists them",
            option, name, meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'" : "");
    mem_free(keys);
    return false;
}

/* How many bytes of `at` are this name, up to a comma or the end; 0: they are not. */
static size_t named(const char *at, const char *name) {
    const size_t n = strlen(name);
    if (strncmp(at, name, n) != 0) return 0;
    const size_t blanks = strspn(at + n, " ");
    return at[n + blanks] == ',' || !at[n + blanks] ? n + blanks : 0;
}

/* The column whose key or title (which may have commas) stands there; -1: none. */
static int column_at(const Table *t, const char *at, size_t *size) {
    int found = -1;
    *size = 0;
    for (int c = 0; c < t->n; c++) {
        const size_t key = named(at, t->columns[c].key), title = named(at, t->columns[c].title);
        const size_t n = key > title ? key : title;
        if (n > *size) found = c, *size = n;
    }
    return found;
}

/* The places of the list's columns; `n` of them. */
static bool read_list(const Table *t, const char *at, int *place, int *n, Err *err) {
    size_t size;
    while (*(at += strspn(at, " ,"))) {
        const int c = column_at(t, at, &size);
        if (c < 0) return no_such(t, at, "columns", err);
        for (int i = 0; i < *n; i++)
            if (place[i] == c)
                return err_set(err, EX_USAGE, "--columns: '%s' is there twice", t->columns[c].key);
        place[(*n)++] = c;
        at += size;
    }
    return *n > 0 || err_set(err, EX_USAGE, "--columns: names of columns were expected, got none");
}

/* Keeps the n columns at `place`; what is left of the old table is freed. */
static void keep_columns(Table *t, const int *place, int n) {
    Table kept = {.n = n, .rows = t->rows, .notes = t->notes, .nnotes = t->nnotes, .chosen = true};
    kept.columns = mem_alloc((size_t)n, sizeof *kept.columns);
    kept.cells = mem_alloc((size_t)n * (size_t)t->rows + 1, sizeof *kept.cells);
    for (int i = 0; i < n; i++) {
        kept.columns[i] = t->columns[place[i]];
        for (int row = 0; row < t->rows; row++) {
            Cell *from = &t->cells[(size_t)row * (size_t)t->n + (size_t)place[i]];
            from->best = table_is_best(t, row, place[i]);
            kept.cells[(size_t)row * (size_t)n + (size_t)i] = *from;
        }
    }
    for (int i = 0; i < n; i++) {
        t->columns[place[i]] = (Column){0};
        for (int row = 0; row < t->rows; row++)
            t->cells[(size_t)row * (size_t)t->n + (size_t)place[i]].text = NULL;
    }
    t->nnotes = 0;
    t->notes = NULL;
    table_free(t);
    *t = kept;
}

bool table_select(Table *t, const char *list, Err *err) {
    int *place = mem_alloc((size_t)t->n + 1, sizeof *place), n = 0;
    const bool ok = read_list(t, list, place, &n, err);
    if (ok) keep_columns(t, place, n);
    mem_free(place);
    return ok;
}

void table_hide(Table *t) {
    int *place = mem_alloc((size_t)t->n + 1, sizeof *place), n = 0;
    for (int c = 0; c < t->n; c++)
        if (!t->columns[c].hidden) place[n++] = c;
    if (n < t->n) {
        keep_columns(t, place, n);
        t->chosen = false;
    }
    mem_free(place);
}

/* ---- order ---- */

typedef struct Ranked {
    const char *text; /* NULL: by its number, of which the least is first */
    double number;
    bool none;
    int row;
} Ranked;

static int by_rank(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->none != y->none) return x->none - y->none;
    const int d = x->text && y->text ? strcmp(x->text, y->text)
                  : x->none          ? 0
                                     : (x->number > y->number) - (x->number < y->number);
    return d ? d : x->row - y->row;
}

/* Values of configs are texts in a column of numbers. */
static Ranked rank_of(const Table *t, int row, int column) {
    const Cell *c = table_at(t, row, column);
    if (t->columns[column].kind == COLUMN_TEXT)
        return (Ranked){.text = c->text, .none = !c->text || !*c->text, .row = row};
    char *end = c->text;
    double x = c->text ? strtod(c->text, &end) : c->mean;
    if (c->text && (end == c->text || *end)) x = NAN;
    const double sign = t->columns[column].best == BEST_MOST ? -1 : 1;
    return (Ranked){.number = sign * x, .none = isnan(x), .row = row};
}

bool table_sort(Table *t, const char *name, Err *err) {
    size_t size;
    const int column = column_at(t, name, &size);
    if (column < 0 || size < strlen(name)) return no_such(t, name, "sort", err);
    Ranked *order = mem_alloc((size_t)t->rows + 1, sizeof *order);
    Cell *cells = mem_alloc((size_t)t->rows * (size_t)t->n + 1, sizeof *cells);
    for (int row = 0; row < t->rows; row++) order[row] = rank_of(t, row, column);
    qsort(order, (size_t)t->rows, sizeof *order, by_rank);
    for (int row = 0; row < t->rows; row++)
        memcpy(cells + (size_t)row * (size_t)t->n, table_at(t, order[row].row, 0),
               (size_t)t->n * sizeof *cells);
    mem_free(t->cells);
    mem_free(order);
    t->cells = cells;
    return true;
}
