/* What a Pathfinder image (data/snakes.h) is made of. */
#ifndef DATA_SNAKE_STYLE_H
#define DATA_SNAKE_STYLE_H

#include <stdbool.h>

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

#endif
