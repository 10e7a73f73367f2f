/* Drawing as the Pathfinder program's libraries do it, to the bit: Pillow's lines and its Lanczos
 * resize, OpenCV's dilation by a disk. Pictures are squares of bytes, row by row; y grows
 * downwards. */
#ifndef DATA_RASTER_H
#define DATA_RASTER_H

#include <stdint.h>

/* Adds a straight line of value 255 from (y0,x0) to (y1,x1), both included; parts outside are cut
 * off. Width 1 is Bresenham's line; a wider one is a filled parallelogram with corners on whole
 * pixels. */
void raster_line(uint8_t *picture, int side, int y0, int x0, int y1, int x1, int width);

/* Adds the filled disk of pixels with (y-cy)^2 + (x-cx)^2 <= radius^2. */
void raster_disk(uint8_t *picture, int side, int cy, int cx, double radius);

/* out, which is not `in`, becomes 255 where `in` is not 0 within a disk of whole radius around the
 * pixel, else 0. */
void raster_dilate(uint8_t *out, const uint8_t *in, int side, int radius);

/* out (to,to) becomes `in` (from,from) shrunk by Lanczos' kernel of three lobes, stretched by
 * from / to against aliasing: rows first, then columns, each in 22-bit fixed point and rounded to
 * bytes. */
void raster_shrink(uint8_t *out, int to, const uint8_t *in, int from);

#endif
