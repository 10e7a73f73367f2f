/* Augmentation (data.augment): what a training example could have been as well. Its label stays
 * right, or nearly so. A task names its own (data/task.h); these are shared by several or plain. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>

#include "core/rng.h"
#include "io/schema.h"

/* Settings; a task has those that its table of keys names. */
typedef struct Augment {
    bool flip;
    int shift;
    double drop;
} Augment;

/* Changes the n ids of one whole document in place. scratch: AUGMENT_SCRATCH * n ints. */
typedef void AugmentFn(const Augment *a, int *ids, int n, int *scratch, RngKey key);
enum { AUGMENT_SCRATCH = 4 };

/* A square picture, row by row: mirrored left to right or not, and shifted by up to `shift` pixels
 * each way, as likely each; what comes in is 0. One that is no square is left as it is. */
AugmentFn augment_picture;
extern const ConfigKey augment_picture_keys[];

/* A square picture with its rows and columns swapped or not and, with `flip`, mirrored left to
 * right or not and top to bottom or not: one of the square's symmetries, as likely each. One that
 * is no square is left as it is. */
AugmentFn augment_symmetry;
extern const ConfigKey augment_symmetry_keys[];

/* Each token is masked (core/token.h) with probability `drop`. */
AugmentFn augment_drop;
extern const ConfigKey augment_drop_keys[];

/* Of one document (0; of pairs 0 or 1) of an example, by its index in its file, in an epoch (from
 * 0). */
RngKey augment_key(uint64_t seed, int64_t epoch, int example, int document);

#endif
