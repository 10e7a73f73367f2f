/* What an evaluation says, and which of two is the better (train.best). */
#ifndef TRAIN_SCORE_H
#define TRAIN_SCORE_H

#include <stdbool.h>

typedef struct Score {
    double accuracy, loss; /* means over examples; in masked training over masked tokens */
} Score;

typedef enum ScoreBy { SCORE_BY_ACCURACY, SCORE_BY_LOSS } ScoreBy;

#define SCORE_BY_CHOICES "accuracy loss"

/* By accuracy: more of it, or as much and less loss. By loss: less of it, or as much and more
 * accuracy. */
bool score_beats(const Score *a, const Score *b, ScoreBy by);

/* The standard error of an accuracy in so many examples. */
double score_error(double accuracy, int examples);

#endif
