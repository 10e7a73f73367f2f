#include "sweep/yours.h"

#include <string.h>

#include "core/mem.h"
#include "io/lines.h"

/* Scripts that are there have these: another wording would lose what is between them. */
static const char begin[] = "# Yours, kept when this is written anew:", end[] = "# End of yours.";

typedef struct Yours {
    char *text;
    size_t size;
    int begin, end; /* lines; 0: not seen yet */
} Yours;

static bool add_line(Yours *y, const Lines *l, Err *err) {
    const size_t n = l->text.size;
    if (y->size + n + 1 > YOURS_MOST)
        return err_set(err, EX_DATAERR,
                       "%s: line %d: more than %d bytes behind '%s' (line %d), more than are kept: "
                       "put commands into a file of their own, and its name there",
                       l->path, l->line, YOURS_MOST, begin, y->begin);
    y->text = mem_grow(y->text, y->size + n + 2, 1);
    memcpy(y->text + y->size, l->text.at, n);
    y->text[y->size + n] = '\n';
    y->size += n + 1;
    y->text[y->size] = '\0';
    return true;
}

static bool take_line(Yours *y, const Lines *l, Err *err) {
    const bool begins = span_is(l->text, begin), ends = span_is(l->text, end);
    int *seen = begins ? &y->begin : &y->end;
    if (!begins && !ends) return !y->begin || y->end || add_line(y, l, err);
    if (*seen)
        return err_set(err, EX_DATAERR,
                       "%s: line %d: '%s' is there again, as on line %d: which lines are yours to "
                       "keep cannot be told: mend that, or move the file away",
                       l->path, l->line, begins ? begin : end, *seen);
    if (ends && !y->begin)
        return err_set(err, EX_DATAERR,
                       "%s: line %d: '%s' without '%s' before it: which lines are yours to keep "
                       "cannot be told: mend that, or move the file away",
                       l->path, l->line, end, begin);
    *seen = l->line;
    return true;
}

static bool take_lines(Yours *y, const char *path, Err *err) {
    Lines l;
    if (!lines_open(&l, path, err)) return false;
    bool ok = lines_next(&l, err);
    while (ok && l.text.at) ok = take_line(y, &l, err) && lines_next(&l, err);
    lines_close(&l);
    if (ok && !y->begin)
        return err_set(err, EX_CANTCREAT,
                       "%s: is there without the line '%s', as scripts of version 0.1.0 are, so "
                       "what you may have changed in it would be lost: move it away, give the same "
                       "command again, and put your lines behind that one",
                       path, begin);
    if (ok && !y->end)
        return err_set(err, EX_DATAERR,
                       "%s: line %d: '%s' without '%s' behind it: which lines are yours to keep "
                       "cannot be told: mend that, or move the file away",
                       path, y->begin, begin, end);
    return ok;
}

bool yours_read(char **text, const char *path, Err *err) {
    Yours y = {.text = mem_strdup("")};
    if (!file_is_empty(path) && !take_lines(&y, path, err)) {
        mem_free(y.text);
        return false;
    }
    *text = y.text;
    return true;
}

void yours_print(FILE *f, const char *text) { fprintf(f, "%s\n%s%s\n", begin, text, end); }
