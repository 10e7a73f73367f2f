#include "train/score.h"

#include <stddef.h>

const char *score_by_name(int by) {
    static const char *const names[] = {"accuracy", "loss"};
    return by >= SCORE_BY_ACCURACY && by <= SCORE_BY_LOSS ? names[by] : NULL;
}

bool score_beats(const Score *a, const Score *b, ScoreBy by) {
    const bool more = a->accuracy > b->accuracy, less = a->loss < b->loss;
    return by == SCORE_BY_LOSS ? less || (a->loss == b->loss && more)
                               : more || (a->accuracy == b->accuracy && less);
}
