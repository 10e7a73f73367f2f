/* The letters of pictures: printable ASCII in two sizes, smoothed. */
#ifndef VIZ_TYPEFACE_H
#define VIZ_TYPEFACE_H

typedef enum TypeSize { TYPE_SMALL, TYPE_LARGE, TYPE_SIZES } TypeSize;

enum { TYPE_FIRST = ' ', TYPE_LAST = '~' };

/* In pixels. Its upper left is (left, top) from where it is put, which is the upper left of its
 * line; the next letter is put `advance` to the right. */
typedef struct TypeGlyph {
    signed char advance, left, top, width, height;
    const char *pixels; /* row by row, a hexadecimal digit each: 0 the ground, f the letter */
} TypeGlyph;

/* Of each size, from TYPE_FIRST on. */
extern const TypeGlyph *const typefaces[TYPE_SIZES];

#endif
