#include "data/snake_style.h"

#include <stddef.h>

bool snake_style(SnakeStyle *s, int side, int paddles) {
    static const SnakeStyle styles[] = {
        {32, 1, 0, 2, 0.5, {1, 1}, 1.0, 7, 1.5, 20, 0, 2.0, 0.75},
        {64, 1, 0, 5, 1.0, {1, 1}, 1.8, 12, 2.5, 22, 0, 0.8, 1.0},
        {128, 1, 0, 5, 1.5, {2, 3}, 1.8, 20, 3.0, 35, 0, 0.9, 1.0},
        {256, 22, 0, 5, 2.0, {3, 3}, 1.8, 27, 5.0, 30, 0, 1.0, 1.0},
    };
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        if (styles[i].side != side) continue;
        *s = styles[i];
        s->paddles = paddles;
        s->distractor_size = paddles / 3;
        s->distractors /= s->distractor_size; /* the table has their paddles */
        return true;
    }
    return false;
}
