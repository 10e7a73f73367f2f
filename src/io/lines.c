#include "io/lines.h"

#include <limits.h>
#include <string.h>

bool lines_open(Lines *l, const char *path, Err *err) {
    *l = (Lines){.path = path};
    return file_map(&l->map, path, err);
}

void lines_close(Lines *l) {
    file_unmap(&l->map);
    *l = (Lines){0};
}

bool lines_next(Lines *l, Err *err) {
    const size_t left = l->map.size - l->next;
    l->text = (Span){0};
    if (left == 0) return true;
    if (l->line == INT_MAX)
        return err_set(err, EX_DATAERR, "%s: more than %d lines", l->path, INT_MAX);
    const char *at = (const char *)l->map.data + l->next;
    const size_t most = LINE_MOST + 2; /* CR and LF */
    const char *end = memchr(at, '\n', left < most ? left : most);
    l->line++;
    if (!end && left >= most)
        return err_set(err, EX_DATAERR, "%s: line %d: longer than %d bytes", l->path, l->line,
                       LINE_MOST);
    size_t size = end ? (size_t)(end - at) : left;
    l->next += size + (end ? 1 : 0);
    if (size > 0 && at[size - 1] == '\r') size--;
    if (size > LINE_MOST)
        return err_set(err, EX_DATAERR, "%s: line %d: %zu bytes, expected at most %d", l->path,
                       l->line, size, LINE_MOST);
    const char *nul = memchr(at, '\0', size);
    if (nul)
        return err_set(err, EX_DATAERR, "%s: line %d: byte %zu is NUL: the file is damaged",
                       l->path, l->line, (size_t)(nul - at) + 1);
    if (l->line == 1 && size >= 3 && !memcmp(at, "\xef\xbb\xbf", 3))
        return err_set(err, EX_DATAERR,
                       "%s: begins with a byte order mark; save it as UTF-8 without one", l->path);
    l->text = (Span){at, size};
    return true;
}

int lines_columns(const Lines *l, Span *columns, int most) {
    const char *at = l->text.at, *end = at + l->text.size;
    int n = 0;
    for (;;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (n < most) columns[n] = (Span){at, (size_t)((tab ? tab : end) - at)};
        n++;
        if (!tab) return n;
        at = tab + 1;
    }
}

bool lines_refuse(const Lines *l, const char *what, Span got, Err *err) {
    const int most = 40;
    return err_set(err, EX_DATAERR, "%s: line %d: %s \"%.*s\"", l->path, l->line, what,
                   got.size > (size_t)most ? most : (int)got.size, got.at);
}

bool span_is(Span s, const char *text) {
    return s.size == strlen(text) && memcmp(s.at, text, s.size) == 0;
}
