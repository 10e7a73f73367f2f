/* Tables of text in NumPy's .npy files (versions 1.0 to 3.0): two-dimensional arrays of strings,
 * dtype <U (four bytes a character) or |S (one). All else is refused (EX_DATAERR): other dtypes,
 * objects among them, Fortran order, shapes that do not match the data to the byte, headers beyond
 * 64 KiB. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <stddef.h>

#include "core/err.h"

typedef struct Npy {
    int rows, columns;
    size_t length; /* characters of an element */
    bool wide;     /* of four bytes each */
    const unsigned char *data;
} Npy;

bool npy_is(const void *bytes, size_t size);

/* `bytes` stay the caller's, and are needed as long as the table is; `name` is for messages. */
bool npy_open(Npy *a, const void *bytes, size_t size, const char *name, Err *err);

/* An element as a C string; false where it does not fit into cap bytes, has characters other than
 * printable ASCII, or goes on behind its end. */
bool npy_text(const Npy *a, int row, int column, char *buf, size_t cap);

#endif
