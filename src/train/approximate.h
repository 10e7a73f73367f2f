/* How near an attention comes to exact attention, over documents: on what the trained model's own
 * attention reads, or on random numbers. Sums are in the order of documents: the result does not
 * depend on the number of threads. */
#ifndef TRAIN_APPROXIMATE_H
#define TRAIN_APPROXIMATE_H

#include <cjson/cJSON.h>

#include "model/nearness.h"
#include "model/traces.h"
#include "train/trained.h"

typedef struct Approximation {
    int depth, heads, documents;
    double tokens;  /* of all documents */
    Nearness *near; /* (depth,heads) */
} Approximation;

/* Of `other`'s attention where the attention of `t`, which may be the same, runs: on the first
 * `limit` examples of t's split (0: on all), in its batches. EX_CONFIG: documents are too
 * long for `other`; EX_TEMPFAIL: a signal came; EX_DATAERR: the data were written to meanwhile;
 * EX_SOFTWARE: weights or a loss are not finite; EX_OSERR: memory. On error nothing is to be freed.
 */
bool approximate(Approximation *a, Trained *t, const Trained *other, int limit, Err *err);

/* Of a config's attention on `documents` of full length: queries, keys and values are N(0,1), the
 * mechanism's own parameters as they are drawn. EX_OSERR. */
bool approximate_random(Approximation *a, const Config *c, int documents, Err *err);

void approximation_free(Approximation *a);

/* The sum over the heads of a block. */
Nearness approximation_block(const Approximation *a, int layer);

/* For people; and for programs, into an object: documents, tokens (a document's mean), flops_share,
 * error, kept, and `heads` with layer, head, error and kept of each. */
void approximation_print(FILE *f, const Approximation *a);
void approximation_json(cJSON *o, const Approximation *a);

#endif
