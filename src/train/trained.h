/* A trained model, opened to be looked at, and a split to look at it with: what programs share that
 * evaluate and draw.
 *
 * Overrides may change what the weights do not depend on, and swap in another attention
 * (train/fit.h). */
#ifndef TRAIN_TRAINED_H
#define TRAIN_TRAINED_H

#include "core/option.h"
#include "data/input.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/loader.h"
#include "train/source.h"

typedef struct TrainedRequest {
    CommandLine line;  /* a run's directory, a checkpoint or exported weights, key=value ... */
    bool last;         /* of a run: last.safetensors */
    bool average;      /* of a run: the mean of the checkpoints that train.keep kept */
    int split, batch;  /* batch: examples at a time; 0: as many as in training */
    const char *input; /* instead of a split of data.dir: data/input.h; or NULL */
    bool lines;
    int input_split; /* of a directory; -1: not said */
} TrainedRequest;

typedef struct Trained {
    Config config;      /* overrides applied */
    Source from;        /* its run's config is what was trained */
    int kept;           /* checkpoints that w is the mean of, the last being `from`; 0: of none */
    bool averaged;      /* w is the checkpoint's averages: train.ema */
    char crc32[ST_CRC]; /* of the data of `from`, where w is of that one alone; else "" */
    FitSwap swap;       /* what was drawn, and what left behind */
    int split;
    Input input;   /* of a request with one: where its examples are from */
    Loader loader; /* of that split alone; its batch.out has classes' logits too */
    Engine engine; /* for evaluation */
    Arena memory;
    real *w;
} Trained;

/* EX_NOINPUT: no such place, no checkpoint in it, or no data; EX_DATAERR: damaged, of another
 * model; EX_CONFIG and EX_USAGE: overrides that are wrong, or that the weights do not fit;
 * EX_OSERR: memory. On error nothing is to be closed. */
bool trained_open(Trained *t, const TrainedRequest *r, Err *err);
void trained_close(Trained *t);

/* Whether nothing that counts was changed: the split gives what training measured. */
bool trained_as_it_was(const Trained *t);

/* Whether it was trained to guess masked tokens, and knows no classes. */
bool trained_guesses(const Trained *t);

/* evaluate (train/evaluate.h) of its split, which signals stop; errors of the weights name them.
 * EX_DATAERR: the data were written to meanwhile. */
bool trained_evaluate(Score *score, Trained *t, const char *what, const Watch *watch, Err *err);

/* Where classes have names, "classes": these, from 0. */
void trained_add_classes(const Trained *t, cJSON *o);
/* A class as people read it, into buf: "1 positive", or its number alone. */
const char *trained_class(const Trained *t, int k, char *buf, size_t size);

/* What was opened, a line each: checkpoint, model, what was changed, data. */
void trained_print(FILE *f, const Trained *t);
/* Where that is not printed: a warning of what was drawn or left behind, if anything was. */
void trained_warn(const Trained *t);
/* Of what was drawn, into buf: "not trained with these weights: surrogate; by train.seed 1"; "":
 * nothing was. Returns buf. */
char *trained_drawn(const Trained *t, char *buf, size_t size);
/* For programs: checkpoint, which, step, crc32, average_of, split, data_hash (of the file that the
 * split is read from), left_behind, drawn, as far as they are. To be deleted. */
cJSON *trained_json(const Trained *t);

#endif
