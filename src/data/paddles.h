/* What does not change from image to image of the snake generator (data/snakes.h): how a paddle and
 * the room it needs look in every direction, and where a snake can go on from every direction. For
 * one margin. */
#ifndef DATA_PADDLES_H
#define DATA_PADDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "data/snake_style.h"

enum {
    DEGREES = 360,    /* directions of first paddles: index i is i - 180 degrees */
    ARMS_MAX = 64,    /* cells on the circle around a pivot, at most */
    HALF_MAX = 15,    /* a stamp reaches so far from its centre, at most */
    ANTIALIAS = 2,    /* paddles and markers are drawn this much larger, then shrunk */
    CELLS_MAX = 1024, /* of a stamp that are full */
};

/* A stamp: rows of `width` bytes, of which 2 half + 1 count and the others are 0. */
typedef struct Stroke {
    const uint8_t *line, *mask; /* the paddle, and the paddle with its margin */
    int top, rows;              /* the rows of the mask that are not all 0 */
} Stroke;

typedef struct Offset {
    int8_t y, x;
} Offset;

/* A snake's first paddle in one direction. */
typedef struct Opening {
    Stroke stroke;
    double head_y, head_x; /* from tail to head */
    double back_y, back_x; /* from head to pivot */
    const Offset *full; /* what of the mask is full, seen from the tail, one too far down right */
    int nfull;
    bool usable;       /* false: no snake ever begins in this direction */
    const int *starts; /* cells (y * side + x) where the first snake's tail may stand */
    int nstarts;
} Opening;

/* Where the next paddle may end: a cell of the circle, with its weight by the change of course. */
typedef struct Turn {
    int arm;
    float weight;
} Turn;

/* A direction: degree i - 180 for i < DEGREES, then that of each arm. */
typedef struct Heading {
    double on_y, on_x; /* from a pivot to the next one */
    const Turn *turns;
    int nturns;
} Heading;

/* A cell of the circle around a pivot, and the paddle from there back towards the pivot. */
typedef struct Arm {
    int y, x;
    Stroke stroke;
} Arm;

typedef struct Paddles {
    int margin, half, width;
    Opening opening[DEGREES];
    Heading heading[DEGREES + ARMS_MAX];
    Arm arm[ARMS_MAX];
    int arms;
    Offset disk[64]; /* of the margin's radius */
    int ndisk;
    void **owned;
    int nowned;
} Paddles;

Paddles *paddles_open(const SnakeStyle *s, int margin);
void paddles_close(Paddles *p);

#endif
