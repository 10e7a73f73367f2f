/* What a trained model says of examples of one's own. */
#ifndef TRAIN_PREDICT_H
#define TRAIN_PREDICT_H

#include <stdio.h>

#include "train/trained.h"

typedef struct Predictions {
    int n, K;
    int *predicted; /* (n) */
    double *p;      /* (n,K) the probability of each class: softmax of the logits */
    int cut;        /* documents longer than what the model reads */
    double seconds;
} Predictions;

/* `t` was opened with an input. `csv`: a file as assess.h has it, without labels, and with where
 * each is from behind the probabilities; or NULL. EX_TEMPFAIL: a signal came; EX_DATAERR: the data
 * were written to meanwhile; EX_SOFTWARE: weights or a loss are not finite; EX_USAGE: it was
 * trained to guess masked tokens; EX_CANTCREAT, EX_IOERR: csv. On error nothing is to be freed. */
bool predict(Predictions *p, Trained *t, const char *csv, Err *err);
void predictions_free(Predictions *p);

/* For people; and one JSON object. */
void predictions_print(FILE *f, const Predictions *p, const Trained *t);
void predictions_print_json(FILE *f, const Predictions *p, const Trained *t);

/* For whoever writes predictions: the heading of their CSV, and a row of it, up to the last class
 * (label -1: there is none); the probabilities of K logits; and the error of a model that knows no
 * classes. */
void predict_heading(FILE *f, int K);
void predict_row(FILE *f, int index, int label, int predicted, const double *p, int K);
void predict_probabilities(double *p, const real *logits, int K);
bool predict_no_classes(const Trained *t, const char *option, Err *err);

#endif
