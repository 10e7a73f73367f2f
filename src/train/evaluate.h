/* Accuracy and loss over a whole split, an answer: of labels, or of masked tokens. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "train/loader.h"
#include "train/score.h"

/* What is wanted of an evaluation beside its means; any may be NULL or 0. */
typedef struct Watch {
    void (*batch)(void *ctx,
                  const Batch *b); /* called after each batch, in the order of examples */
    void *ctx;
    AttnTrace *traces; /* (train.batch, per_example, depth): of the batch at hand */
    int most;          /* how many examples, the first ones; 0: all */
} Watch;

/* As people read a mean loss, into buf: "loss 0.6021", of masked training "1.7811 bits a token". */
const char *loss_text(char *buf, size_t size, double loss, int objective);
/* An accuracy: "63.00 ± 2.79 %", with the standard error of so many examples; without it of 0, and
 * in masked training, since masked tokens of one document are no examples of their own. */
const char *accuracy_text(char *buf, size_t size, double accuracy, int examples, int objective);

/* Means over the answers (train/loader.h), the last partial batch too, summed in the examples'
 * order: the result does not depend on the number of threads. `what` heads the progress line; watch
 * may be NULL. EX_TEMPFAIL: a signal asks to stop; EX_SOFTWARE: weights or an example's loss are
 * not finite, and err says where that begins. */
bool evaluate(Score *score, Engine *e, Loader *f, int split, const char *what, const Watch *watch,
              Err *err);

/* Whether the losses of the batch at hand, which begins with example `from` of the split, are
 * finite; else as above. */
bool evaluate_check(Engine *e, const Loader *f, int split, int from, Err *err);

#endif
