/* The lines of a text file and their columns, for tables from elsewhere.
 *
 * The file is mapped: nothing is copied, and a line that never ends is refused after LINE_MOST
 * bytes, however large the file. A line ends with LF or CRLF, the last one also with the file. NUL
 * bytes are refused: no table has them, a damaged file does; and so is a byte order mark. Errors
 * are EX_DATAERR and name the file and the line, of a NUL the byte in it too, both from 1. */
#ifndef IO_LINES_H
#define IO_LINES_H

#include <stddef.h>

#include "io/file.h"

enum { LINE_MOST = 1 << 20 /* bytes of a line, without its end */ };

/* Bytes of the map. */
typedef struct Span {
    const char *at;
    size_t size;
} Span;

typedef struct Lines {
    FileMap map;
    const char *path; /* the caller's */
    size_t next;      /* the byte where the next line begins */
    int line;         /* of the current line, from 1 */
    Span text;
} Lines;

/* Errors of file_map; an empty file is one. */
bool lines_open(Lines *l, const char *path, Err *err);
void lines_close(Lines *l);

/* The next line into l->text; at the file's end its `at` is NULL. */
bool lines_next(Lines *l, Err *err);

/* The current line's columns between TABs into columns[0..most-1]; how many there are, which may be
 * more than `most`. */
int lines_columns(const Lines *l, Span *columns, int most);

/* That `got` is in the current line, its first 40 bytes: returns false. */
bool lines_refuse(const Lines *l, const char *what, Span got, Err *err);

bool span_is(Span s, const char *text);

#endif
