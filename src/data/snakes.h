/* Pathfinder images, after the program of Linsley et al. 2018 (arXiv:1805.08315; LRA's settings are
 * in Tay et al. 2020, arXiv:2011.04006): two long snakes of dashes ("paddles") that wind around
 * each other, shorter ones that distract, and a disk at one end of a snake and one at another end:
 * of the same snake (label 1) or of the other (label 0).
 *
 * Drawing is that of the program to the bit (data/raster.h); random numbers are our own. An image
 * is a function of (style, seed, index) alone. */
#ifndef DATA_SNAKES_H
#define DATA_SNAKES_H

#include <stdint.h>

#include "data/snake_style.h"

typedef struct SnakeFacts {
    int label, margin;
    int distractors; /* that found room */
    int attempts;    /* at the two snakes */
} SnakeFacts;

typedef struct Snakes Snakes;
Snakes *snakes_open(const SnakeStyle *s);
void snakes_close(Snakes *s);

/* Draws image `index` into pixels (side, side). */
void snakes_draw(const Snakes *s, uint64_t seed, uint64_t index, uint8_t *pixels,
                 SnakeFacts *facts);

#endif
