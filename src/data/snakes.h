/* Pathfinder images, after the program of Linsley et al. 2018 (arXiv:1805.08315; LRA's settings are
 * in Tay et al. 2020, arXiv:2011.04006): two long snakes of dashes ("paddles") that wind around
 * each other, shorter ones that distract, and a disk at one end of a snake and one at another end:
 * of the same snake (label 1) or of the other (label 0).
 *
 * Drawing is that of the program to the bit (data/raster.h); random numbers are our own. An image
 * is a function of (style, seed, index) alone. */
#ifndef DATA_SNAKES_H
#define DATA_SNAKES_H

#include <stdbool.h>
#include <stdint.h>

enum { DISTRACTORS_MAX = 64, SIDE_MAX = 256 };

typedef struct SnakeStyle {
    int side;               /* of the image, in pixels */
    int padding;            /* pixels along the borders that stay free */
    int paddles;            /* of each of the two snakes */
    int length;             /* of a paddle */
    double thickness;       /* likewise; twice it is a whole number */
    int margin[2];          /* room around a paddle; an image takes one of the two */
    double continuity;      /* how straight a snake is */
    int seed_distance;      /* between the beginnings of the two snakes */
    double marker;          /* radius of a disk */
    int distractors;        /* asked for; those that find no room are left out */
    int distractor_size;    /* their paddles */
    double contrast;        /* of distractors */
    double paddle_contrast; /* of the two snakes, relative to the distractors */
} SnakeStyle;

/* LRA's settings for a side of 32, 64, 128 or 256 and 14 (hard), 9 or 6 (easy) paddles; false for
 * other sides. */
bool snake_style(SnakeStyle *s, int side, int paddles);

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
