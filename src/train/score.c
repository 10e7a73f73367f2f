#include "train/score.h"

#include <math.h>

bool score_beats(const Score *a, const Score *b, ScoreBy by) {
    const bool more = a->accuracy > b->accuracy, less = a->loss < b->loss;
    return by == SCORE_BY_LOSS ? less || (a->loss == b->loss && more)
                               : more || (a->accuracy == b->accuracy && less);
}

double score_error(double accuracy, int examples) {
    return sqrt(accuracy * (1 - accuracy) / examples);
}
