/* The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Six magic
 * bytes, two of version, the header's length, and the header: a Python dictionary with exactly the
 * keys descr, fortran_order and shape, that ends with a newline. */
#include "io/npy.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

enum { MAGIC = 6, HEADER_MAX = 1 << 16, DIMS = 2 };

/* Reads the header from p to end; `bad` says what was wrong. */
typedef struct Scan {
    const char *p, *end;
    const char *bad;
} Scan;

static void skip(Scan *s) {
    while (s->p < s->end && *s->p == ' ') s->p++;
}

static bool take(Scan *s, char c) {
    skip(s);
    if (s->p >= s->end || *s->p != c) return false;
    s->p++;
    return true;
}

static bool fail(Scan *s, const char *what) {
    s->bad = what;
    return false;
}

/* A string in single or double quotes, without escapes. */
static bool take_string(Scan *s, char *buf, size_t cap) {
    char quote = take(s, '\'') ? '\'' : take(s, '"') ? '"' : '\0';
    size_t n = 0;
    if (!quote) return fail(s, "a string was expected");
    while (s->p < s->end && *s->p != quote && *s->p != '\\' && n + 1 < cap) buf[n++] = *s->p++;
    buf[n] = '\0';
    return take(s, quote) || fail(s, "a string does not end");
}

static bool take_number(Scan *s, size_t *out) {
    size_t v = 0;
    skip(s);
    if (s->p >= s->end || *s->p < '0' || *s->p > '9') return fail(s, "a number was expected");
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (!size_mul(v, 10, &v) || !size_add(v, (size_t)(*s->p - '0'), &v))
            return fail(s, "a number is too large");
    *out = v;
    return true;
}

static bool take_descr(Scan *s, Npy *a) {
    char text[32];
    if (!take_string(s, text, sizeof text)) return false;
    a->wide = strncmp(text, "<U", 2) == 0;
    if (!a->wide && strncmp(text, "|S", 2) != 0)
        return fail(s, "its dtype is none of text (<U or |S)");
    Scan digits = {.p = text + 2, .end = text + strlen(text)};
    if (take_number(&digits, &a->length) && digits.p == digits.end && a->length > 0) return true;
    return fail(s, "its dtype's length is no number above 0");
}

static bool take_order(Scan *s) {
    skip(s);
    if ((size_t)(s->end - s->p) < 5 || memcmp(s->p, "False", 5) != 0)
        return fail(s, "fortran_order is not False");
    s->p += 5;
    return true;
}

static bool take_shape(Scan *s, Npy *a) {
    size_t shape[DIMS];
    if (!take(s, '(')) return fail(s, "its shape is no tuple");
    for (int i = 0; i < DIMS; i++) {
        if (!take_number(s, &shape[i])) return false;
        if (shape[i] > INT_MAX) return fail(s, "its shape is too large");
        if (!take(s, ',') && i + 1 < DIMS) return fail(s, "its shape has not two dimensions");
    }
    if (!take(s, ')')) return fail(s, "its shape has not two dimensions");
    a->rows = (int)shape[0];
    a->columns = (int)shape[1];
    return true;
}

static bool take_entry(Scan *s, Npy *a, bool seen[3]) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    int k = 0;
    if (!take_string(s, key, sizeof key)) return false;
    while (k < 3 && strcmp(key, keys[k]) != 0) k++;
    if (k == 3 || seen[k]) return fail(s, "a key is unknown, or there twice");
    seen[k] = true;
    if (!take(s, ':')) return fail(s, "a ':' is missing");
    return k == 0 ? take_descr(s, a) : k == 1 ? take_order(s) : take_shape(s, a);
}

static bool take_header(Scan *s, Npy *a) {
    bool seen[3] = {false};
    if (s->p == s->end || s->end[-1] != '\n') return fail(s, "the header ends without a newline");
    s->end--;
    if (!take(s, '{')) return fail(s, "the header is no dictionary");
    for (bool more = true; more && !take(s, '}');) {
        if (!take_entry(s, a, seen)) return false;
        more = take(s, ',');
        if (!more && !take(s, '}')) return fail(s, "the dictionary does not end");
    }
    skip(s);
    if (s->p != s->end) return fail(s, "there is text behind the dictionary");
    return (seen[0] && seen[1] && seen[2]) || fail(s, "a key is missing");
}

bool npy_is(const void *bytes, size_t size) {
    return size >= MAGIC && memcmp(bytes, "\x93NUMPY", MAGIC) == 0;
}

/* Where the header is; false where it breaks off or is too long. */
static bool find_header(const unsigned char *p, size_t size, size_t *from, size_t *length) {
    if (!npy_is(p, size) || size < MAGIC + 2) return false;
    int version = p[MAGIC], digits = version == 1 ? 2 : 4;
    *from = MAGIC + 2 + (size_t)digits;
    if (version < 1 || version > 3 || p[MAGIC + 1] != 0 || size < *from) return false;
    *length = 0;
    for (int i = digits - 1; i >= 0; i--) *length = *length << 8 | p[MAGIC + 2 + i];
    return *length <= HEADER_MAX && *length <= size - *from;
}

bool npy_open(Npy *a, const void *bytes, size_t size, const char *name, Err *err) {
    const unsigned char *p = bytes;
    size_t from, length, cells, wanted;
    *a = (Npy){0};
    if (!find_header(p, size, &from, &length))
        return err_set(err, EX_DATAERR,
                       "%s: no NumPy file of version 1 to 3, or its header breaks off or is longer "
                       "than %d bytes",
                       name, HEADER_MAX);
    Scan s = {.p = (const char *)p + from, .end = (const char *)p + from + length};
    if (!take_header(&s, a))
        return err_set(err, EX_DATAERR, "%s: byte %zu, in its NumPy header: %s", name,
                       (size_t)(s.p - (const char *)p), s.bad);
    a->data = p + from + length;
    size_t there = size - from - length;
    if (!size_mul((size_t)a->rows, (size_t)a->columns, &cells) ||
        !size_mul(cells, a->length, &wanted) || !size_mul(wanted, a->wide ? 4 : 1, &wanted) ||
        wanted != there)
        return err_set(err, EX_DATAERR,
                       "%s: its shape (%d, %d) with %zu characters each does not match the %zu "
                       "bytes of data",
                       name, a->rows, a->columns, a->length, there);
    return true;
}

bool npy_text(const Npy *a, int row, int column, char *buf, size_t cap) {
    REQUIRE(row >= 0 && row < a->rows && column >= 0 && column < a->columns, "(%d, %d) of (%d, %d)",
            row, column, a->rows, a->columns);
    size_t step = a->wide ? 4 : 1, used = 0;
    const unsigned char *p =
        a->data + ((size_t)row * (size_t)a->columns + (size_t)column) * a->length * step;
    bool ended = false;
    for (size_t i = 0; i < a->length; i++, p += step) {
        bool high = a->wide && (p[1] | p[2] | p[3]);
        if (!high && p[0] == 0) {
            ended = true;
            continue;
        }
        if (high || ended || p[0] < ' ' || p[0] > '~' || used + 1 >= cap) return false;
        buf[used++] = (char)p[0];
    }
    buf[used] = '\0';
    return true;
}
