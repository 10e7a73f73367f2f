/* A colour picture in memory: rectangles and captions. What lies outside is cut off. */
#ifndef VIZ_CANVAS_H
#define VIZ_CANVAS_H

#include "core/err.h"
#include "viz/palette.h"
#include "viz/typeface.h"

typedef struct Canvas {
    int width, height;
    unsigned char *rgb; /* (height,width,3) */
} Canvas;

/* At most CANVAS_MOST pixels a side. */
enum { CANVAS_MOST = 16384 };
Canvas canvas_open(int width, int height, Rgb ground);
void canvas_close(Canvas *c);

void canvas_fill(Canvas *c, int x, int y, int width, int height, Rgb colour);

/* Text from (x,y), the upper left of its line. What is no printable ASCII is '?'. Returns the x
 * behind it. */
int canvas_text(Canvas *c, int x, int y, TypeSize size, Rgb colour, const char *text);
/* How wide it is. */
int canvas_text_width(TypeSize size, const char *text);

/* Atomically (EX_CANTCREAT, EX_IOERR). */
bool canvas_write(const Canvas *c, const char *path, Err *err);

#endif
