#include "data/listops_tsv.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "data/dataset.h"
#include "data/listops_value.h"
#include "io/lock.h"

static const char *const files[SPLITS] = {LISTOPS_TRAIN, "basic_val.tsv", "basic_test.tsv"};
static const char *const folders[] = {"listops-1000", "lra_release/listops-1000",
                                      "lra_release/lra_release/listops-1000", NULL};
static const char header[] = "Source\tTarget";

/* ---- reading ---- */

static int word_id(Span s) {
    for (int id = LISTOPS_MIN; id < LISTOPS_VOCAB; id++)
        if (span_is(s, listops_words[id])) return id;
    return -1;
}

/* The ids of an expression into `ids`, which has room for half its bytes and one more; how many,
 * -1 and err where there are none. */
static int read_source(const Lines *l, Span s, int *ids, Err *err) {
    int n = 0, open = 0;
    for (size_t i = 0; i < s.size;) {
        Span word = {s.at + i, 0};
        while (i < s.size && !memchr(" ()", s.at[i], 3)) i++;
        word.size = (size_t)(s.at + i - word.at);
        if (word.size > 0 && (ids[n++] = word_id(word)) < 0) {
            lines_refuse(l, "an unknown word", word, err);
            return -1;
        }
        if (i == s.size) break;
        open += (s.at[i] == '(') - (s.at[i] == ')');
        i++;
        if (open < 0) break;
    }
    if (n > 0 && open == 0) return n;
    lines_refuse(l, open != 0 ? "parentheses that are not balanced:" : "no expression:", s, err);
    return -1;
}

int listops_read(const Lines *l, Span source, int *ids, Err *err) {
    const int n = read_source(l, source, ids, err);
    if (n < 0 || listops_value(ids, n) >= 0) return n;
    lines_refuse(l, "not well-formed, or nested deeper than LRA's 9 operators:", source, err);
    return -1;
}

static bool read_row(const Lines *l, DatasetWriter *w, int *ids, Err *err) {
    Span c[2];
    int columns = lines_columns(l, c, 2);
    if (columns != 2)
        return err_set(err, EX_DATAERR,
                       "%s: line %d: %d columns, expected 2: an expression and its value", l->path,
                       l->line, columns);
    if (c[1].size != 1 || c[1].at[0] < '0' || c[1].at[0] > '9')
        return lines_refuse(l, "expected a target from 0 to 9, got", c[1], err);
    int target = c[1].at[0] - '0', n = listops_read(l, c[0], ids, err);
    if (n < 0) return false;
    int value = listops_value(ids, n);
    if (value != target)
        return err_set(err, EX_DATAERR,
                       "%s: line %d: its target is %d, but the expression's value is %d", l->path,
                       l->line, target, value);
    dataset_add_example(w, target, dataset_add_document(w, ids, n), -1);
    return true;
}

static bool read_split(DatasetWriter *w, const char *path, int *ids, Err *err) {
    Lines l;
    if (!lines_open(&l, path, err)) return false;
    bool ok = lines_next(&l, err);
    if (ok && !span_is(l.text, header))
        ok = err_set(
            err, EX_DATAERR,
            "%s: line 1: expected the header: \"Source\" and \"Target\" with a TAB between", path);
    while (ok && (ok = lines_next(&l, err)) && l.text.at) ok = read_row(&l, w, ids, err);
    if (ok && l.line == 1) ok = err_set(err, EX_DATAERR, "%s: no row behind the header", path);
    lines_close(&l);
    return ok;
}

static bool read_all(DatasetWriter *const w[SPLITS], const char *dir, Err *err) {
    int *ids = mem_alloc(LINE_MOST / 2 + 1, sizeof *ids);
    bool ok = true;
    for (int s = 0; ok && s < SPLITS; s++) {
        char path[FILE_PATH_MAX];
        ok = file_in(path, dir, files[s], err) && read_split(w[s], path, ids, err);
    }
    mem_free(ids);
    return ok;
}

bool listops_import(const Task *t, const TaskRequest *r, Err *err) {
    char dir[FILE_PATH_MAX];
    if (!task_place(t, dir, r->from, err)) return false;
    DatasetWriter *w[SPLITS];
    task_writers(w, t, LISTOPS_TSV_SOURCE);
    return task_finish(w, read_all(w, dir, err), r->out, err);
}

bool listops_locate(char *place, const char *from) {
    return task_locate(place, from, folders, LISTOPS_TRAIN);
}

/* ---- writing ---- */

/* Characters of a token with the parentheses that it brings: "( " and " )", a blank, the word. */
enum { MOST_CHARACTERS = 2 + 2 + 1 + 4 };

static char *append(char *to, const char *text) {
    size_t n = strlen(text);
    memcpy(to, text, n);
    return to + n;
}

/* members[i]: arguments and closing bracket of the operator at i. */
static void count_members(int *members, const int *ids, int n) {
    int stack[LISTOPS_NESTING], depth = 0;
    for (int i = 0; i < n; i++) {
        if (depth > 0) members[stack[depth - 1]]++;
        members[i] = 0;
        if (ids[i] <= LISTOPS_SM) stack[depth++] = i;
        if (ids[i] == LISTOPS_CLOSE) depth--;
    }
}

/* Prints a well-formed expression; returns where it ends. Each member closes a parenthesis, and its
 * operator has opened as many. */
static char *print_source(char *to, const int *ids, const int *members, int n) {
    int depth = 0;
    for (int i = 0; i < n; i++) {
        const bool opens = ids[i] <= LISTOPS_SM;
        if (i > 0) to = append(to, " ");
        for (int k = 0; opens && k < members[i]; k++) to = append(to, "( ");
        to = append(to, listops_words[ids[i]]);
        if (opens) {
            depth++;
            continue;
        }
        if (depth > 0) to = append(to, " )");
        if (ids[i] == LISTOPS_CLOSE && --depth > 0) to = append(to, " )");
    }
    return to;
}

static bool write_row(AtomicFile *a, const Dataset *d, int example, Err *err) {
    const size_t n = (size_t)dataset_length(d, example);
    int *ids = mem_alloc(2 * n, sizeof *ids), *members = ids + n;
    char *line = mem_alloc(n + 1, MOST_CHARACTERS), *end = line;
    dataset_tokens(d, example, (int)n, ids);
    const bool ok = listops_value(ids, (int)n) == d->labels[example];
    if (ok) {
        count_members(members, ids, (int)n);
        end = print_source(line, ids, members, (int)n);
        const char tail[] = {'\t', (char)('0' + d->labels[example]), '\r', '\n'};
        atomic_write(a, line, (size_t)(end - line));
        atomic_write(a, tail, sizeof tail);
    } else {
        err_set(err, EX_DATAERR, "%s: example %d: its label is not its expression's value",
                d->file.path, example);
    }
    mem_free(line);
    mem_free(ids);
    return ok;
}

/* All but its name. */
static bool write_split(AtomicFile *a, const Dataset *d, const char *path, Err *err) {
    if (!atomic_open(a, path, KIND_LISTOPS, err)) return false;
    atomic_write(a, header, strlen(header));
    atomic_write(a, "\r\n", 2);
    for (int i = 0; i < d->examples; i++)
        if (!write_row(a, d, i, err)) return false;
    return atomic_prepare(a, err);
}

bool listops_may_export(const char *to, Err *err) {
    char path[FILE_PATH_MAX];
    for (int s = 0; s < SPLITS; s++)
        if (!file_in(path, to, files[s], err) || !kind_may_replace(path, KIND_LISTOPS, err))
            return false;
    return file_may_make_dirs(to, err);
}

/* They get their names when all are on the disk, so that none of another set stays beside them. */
bool listops_export(const char *dir, const char *to, Err *err) {
    AtomicFile file[SPLITS] = {0};
    DirLock lock = LOCK_NONE;
    bool ok = file_make_dirs(to, err);
    if (ok) lock_wait(&lock, to);
    for (int s = 0; ok && s < SPLITS; s++) {
        char path[FILE_PATH_MAX], out[FILE_PATH_MAX];
        Dataset d = {0};
        ok = dataset_path(path, dir, s, err) && dataset_open(&d, path, err) &&
             file_in(out, to, files[s], err);
        if (ok && !task_fits(task_find("listops"), d.vocab, d.classes, d.per_example))
            ok = err_set(err, EX_DATAERR, "%s: is not ListOps", path);
        ok = ok && write_split(&file[s], &d, out, err);
        dataset_close(&d);
    }
    for (int s = 0; s < SPLITS; s++) ok = ok && atomic_commit(&file[s], err);
    for (int s = 0; s < SPLITS; s++) atomic_abandon(&file[s]);
    lock_release(&lock);
    return ok;
}
