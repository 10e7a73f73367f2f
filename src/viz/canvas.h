/* A colour picture in memory: rectangles, and captions in capitals of 5 x 7 dots. What lies outside
 * is cut off. */
#ifndef VIZ_CANVAS_H
#define VIZ_CANVAS_H

#include "core/err.h"
#include "viz/palette.h"

typedef struct Canvas {
    int width, height;
    unsigned char *rgb; /* (height,width,3) */
} Canvas;

/* At most CANVAS_MOST pixels a side. */
enum { CANVAS_MOST = 16384, CANVAS_LINE = 9, CANVAS_LETTER = 6 }; /* of text: height, width */
Canvas canvas_open(int width, int height, Rgb ground);
void canvas_close(Canvas *c);

void canvas_fill(Canvas *c, int x, int y, int width, int height, Rgb colour);

/* ASCII from (x,y), its upper left; each dot is scale x scale pixels. Returns the x behind it. */
int canvas_text(Canvas *c, int x, int y, int scale, Rgb colour, const char *text);

/* Atomically (EX_CANTCREAT, EX_IOERR). */
bool canvas_write(const Canvas *c, const char *path, Err *err);

#endif
