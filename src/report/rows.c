#include "report/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"

static bool read_line(const Lines *l, TakeRow *take, void *to, Err *err) {
    Err inner;
    const char *why = "";
    cJSON *o = json_parse(l->text.at, l->text.size, LINE_MOST, JSON_MAX_DEPTH, l->path, &inner);
    if (!o) return err_set(err, EX_DATAERR, "%s: line %d: %s", l->path, l->line, inner.text);
    return take(to, o, &why) || err_set(err, EX_DATAERR, "%s: line %d: %s", l->path, l->line, why);
}

bool rows_open(Lines *l, const char *path, const char *expected, Err *err) {
    if (file_is_dir(path))
        return err_set(err, EX_NOINPUT, "%s: is a directory; for --what %s", path, expected);
    return lines_open(l, path, err);
}

/* Counts in *rows. */
static bool read_file(const char *path, const char *expected, TakeRow *take, void *to, int *rows,
                      Err *err) {
    Lines l;
    bool ok = true;
    if (!rows_open(&l, path, expected, err)) return false;
    while (ok && (ok = lines_next(&l, err)) && l.text.at) {
        if (!l.text.size) continue;
        ok = read_line(&l, take, to, err);
        ++*rows;
    }
    lines_close(&l);
    return ok;
}

bool rows_read(char *const *paths, int n, const char *expected, TakeRow *take, void *to, Err *err) {
    int rows = 0;
    for (int i = 0; i < n; i++)
        if (!read_file(paths[i], expected, take, to, &rows, err)) return false;
    return rows > 0 || err_set(err, EX_NOINPUT, "%s: has no row", paths[0]);
}

bool rows_of_one_task(char task[ROWS_TASK], const cJSON *row, const char **why) {
    const char *own = json_string(row, "task");
    if (!own) own = json_string(json_at(row, "config"), "task");
    if (!own) return true;
    if (!*task) snprintf(task, ROWS_TASK, "%s", own);
    if (!strncmp(own, task, ROWS_TASK - 1)) return true; /* as much of it as is kept */
    *why = "is of another task than those before it: a table is of one task";
    return false;
}

bool rows_alike(double *was, const char *const *keys, int n, const cJSON *row) {
    for (int i = 0; i < n; i++) {
        const double is = json_number(row, keys[i]);
        if (isnan(is)) continue;
        if (was[i] != 0 && was[i] != is) return false;
        was[i] = is;
    }
    return true;
}
