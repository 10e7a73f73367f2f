/* Where a run's first weights come from, with train.init: trained weights (train/source.h), taken
 * by name. A parameter that they lack is drawn as without them. One of another shape is an error,
 * but for what belongs to a task or a length: token embeddings (tok), the classifier's head (fc1,
 * fc2) and that of masked training (lm) are then new; of learned positions (pos) of the same width
 * the first rows are taken, as many as there are on both sides, and others are new. */
#ifndef TRAIN_ORIGIN_H
#define TRAIN_ORIGIN_H

#include "train/config.h"
#include "train/source.h"

typedef enum OriginPart { ORIGIN_NEW, ORIGIN_TAKEN, ORIGIN_ROWS, ORIGIN_LEFT } OriginPart;
enum { ORIGIN_PARTS = ORIGIN_LEFT + 1 };

typedef struct Origin {
    const Params *params; /* NULL: train.init is empty, and there is nothing to take */
    Source from;
    StFile file;
    OriginPart *part; /* of each parameter */
    int count[ORIGIN_PARTS];
} Origin;

/* Opens what train.init names, and decides for each parameter. EX_NOINPUT, EX_DATAERR: as
 * source_open; EX_CONFIG: a tensor has another shape, or no parameter is there. On error nothing is
 * to be closed. */
bool origin_open(Origin *o, const Config *c, Err *err);
void origin_close(Origin *o);

/* Says what is taken, new and left. */
void origin_tell(const Origin *o);
/* The same with the file's checksum and the config that it was trained under, if it has one, for
 * env.json; of a run's file also what that run began with, as its own env.json has it ("init" in
 * this one); NULL: there is nothing. */
cJSON *origin_describe(const Origin *o);

/* Into w, which holds initial values. EX_DATAERR: what was taken is not finite. */
bool origin_take(const Origin *o, real *w, Err *err);

#endif
