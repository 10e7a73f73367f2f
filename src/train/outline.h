/* What a run is going to take: what its start prints (train/banner.h), as numbers and as JSON. */
#ifndef TRAIN_OUTLINE_H
#define TRAIN_OUTLINE_H

#include <stdio.h>

#include "train/loader.h"

/* Of the training examples: tokens, and useful operations of a forward pass, of one on average; the
 * share of those that are cut at model.max_length; and attention's operations between its
 * projections, as a share of exact attention's. */
typedef struct OutlineWork {
    double tokens, most_tokens, flops, cut, attention;
} OutlineWork;
OutlineWork outline_work(const Loader *f);
/* Of an update. */
double outline_update_flops(const Loader *f, const OutlineWork *work);

/* About how many bytes of those planned a run touches. */
double outline_touched(const Config *c, size_t planned);

typedef struct Outline {
    const Config *c;
    const Loader *loader; /* NULL: its data are not there yet */
    const char *dir;      /* the run's */
    int64_t update;       /* from which it goes on; 0: from the start */
    int64_t horizon;      /* of its schedule, where the data are there */
    size_t planned;       /* bytes */
    double peak;          /* GFLOP/s */
} Outline;
/* As JSON, one object. */
void outline_print(const Outline *o, FILE *f);

#endif
