/* What a set of one's own says that a model of it is to know: its sizes, what its ids are, and what
 * its classes are called. Weights keep it as their metadata "set", so that they are of use where
 * the set is not:
 *
 *   {"vocab": 257, "classes": 2, "per_example": 1, "longest": 900, "ids": "bytes",
 *    "class_names": ["bad", "good"]}
 *
 * longest: tokens of the longest document of training; ids and class_names as in data/dataset.h,
 * where the set has them. Of the benchmark's tasks data/task.h has all of it, and no file does. */
#ifndef DATA_FACTS_H
#define DATA_FACTS_H

#include "data/dataset.h"

#define FACTS_META "set"
enum { FACTS_MOST = 1 << 22 }; /* bytes of the text: else names of classes are left out of it */

typedef struct Facts {
    int vocab, classes, per_example, longest;
    const char *ids; /* DATASET_BYTES or DATASET_PIXELS; NULL: not said */
    ClassNames class_names;
    char *text; /* the metadata; NULL: there are no facts */
} Facts;

/* Of a training split, which loses its names of classes to them. */
void facts_of_set(Facts *s, Dataset *d);
/* Of weights; without a text where these have none. EX_DATAERR: what they have is no such text. */
bool facts_read(Facts *s, const StFile *weights, Err *err);
void facts_close(Facts *s);

#endif
