/* How a trained model does on a split: accuracy and loss as training measures them, and where it
 * errs. */
#ifndef TRAIN_ASSESS_H
#define TRAIN_ASSESS_H

#include "train/score.h"
#include "train/trained.h"

/* Of more than ASSESS_MOST_CLASSES there is no table of confusions. */
enum { ASSESS_BINS = 5, ASSESS_MOST_CLASSES = 512 };

typedef struct LengthBin {
    int from, to;                /* tokens of an example as the encoder sees them, both included */
    int count, answers, correct; /* answers: train/loader.h */
} LengthBin;

typedef struct Assessment {
    Score score;
    int count, K;   /* K: 0 of a model that guesses masked tokens */
    int cut;        /* examples that are longer than the model reads */
    int *labels;    /* (K) examples of each class */
    int *confusion; /* (K,K): row the label, column what was predicted; NULL: too many classes */
    LengthBin bin[ASSESS_BINS]; /* about equally many examples each, by rising length */
    int bins;                   /* 0: all examples have the same length */
    double flops, exact;        /* of attention between its projections; of exact attention there */
} Assessment;

/* Of the split's first `limit` examples, 0: of all.
 * `predict`: a CSV file, written atomically, or NULL. A line an example, in the split's order:
 *   index,label,predicted,p0,p1,...
 * index in the split, as viz_open counts (where val is held out of train.safetensors that is no
 * row of the file), classes, and the probability of each class (softmax of the logits).
 * EX_TEMPFAIL: a signal came; EX_DATAERR: the data were written to meanwhile; EX_SOFTWARE: weights
 * or a loss are not finite; nothing was written of either. EX_CANTCREAT, EX_IOERR, EX_USAGE:
 * predict. On error nothing is to be freed. */
bool assess(Assessment *a, Trained *t, const char *predict, int limit, Err *err);
void assess_free(Assessment *a);

/* For people; and one JSON object with all of it. */
void assess_print(FILE *f, const Assessment *a, const Trained *t);
void assess_print_json(FILE *f, const Assessment *a, const Trained *t);

#endif
