/* An update of training, in steps: the gradients of all its micro-batches, then what they make of
 * weights, moments, running statistics and averages. Until update_commit, none of these is touched.
 */
#ifndef TRAIN_UPDATE_H
#define TRAIN_UPDATE_H

#include "train/loader.h"
#include "train/meter.h"
#include "train/state.h"

typedef struct Update {
    const TrainConf *conf;
    Loader *loader;
    Engine *engine;
    State *state;
    real *grads;    /* (total) */
    int64_t number; /* 1, 2, ... */
    double lr;
    double answers, loss, correct; /* sums over answers: train/loader.h */
    double norm;                   /* of the gradients */
    Work work;
    const Param *overflow; /* would not be finite after the commit, or its moments; NULL: none */
} Update;

/* Forward and backward of all micro-batches; false if a signal came in between. */
bool update_gradients(Update *u);

/* Whether the loss, the gradients and all that would be committed are finite. */
bool update_is_finite(Update *u);
/* What is not, into text: "loss nan, norm of the gradients nan: not finite". */
void update_describe_bad(const Update *u, char *text, size_t size);
/* Warns which gradients are not, and of which examples. */
void update_tell_bad(const Update *u);

void update_commit(const Update *u);
/* Instead: it counts as made, and leaves all else as it was. */
void update_skip(const Update *u);

#endif
