/* Examples of the prepared splits as the batches that an engine reads.
 *
 * Which examples an update sees follows from seed and update alone: every epoch is a permutation of
 * the training split of its own, cut into updates; what is left over is not seen in that epoch. So
 * going on at any update needs no state and no time.
 *
 * With data.holdout, train and val are two views of train.safetensors, each in the file's order:
 * val has those of its n examples that a permutation keyed by data.holdout_seed puts into the first
 * n * data.holdout (rounded) places, train has the others; val.safetensors is not read. The choice
 * does not depend on train.seed, so runs that differ in it are validated on the same examples.
 *
 * With data.augment the task varies training examples by train.seed, the epoch and the example; of
 * documents that are longer than what is read, before they are cut.
 *
 * In masked training the masks of an example follow from train.seed, the epoch and the example, of
 * validation and test from train.seed and the example alone. */
#ifndef TRAIN_LOADER_H
#define TRAIN_LOADER_H

#include "data/dataset.h"
#include "model/engine.h"
#include "train/config.h"

typedef struct Batch {
    int n;
    int *examples;   /* (n) their indices in the split's file */
    Sample *samples; /* (n) */
    int *answers;    /* (n) that are asked for: one, or as many as tokens are masked */
    Outcome out;     /* (n) loss and answers, for the engine to fill */
    double tokens;   /* as the encoder sees them */
    double flops;    /* useful ones of a forward pass */
} Batch;

typedef struct Loader {
    const Config *c;
    Dataset split[SPLITS];
    int examples[SPLITS]; /* of each split's file or view */
    int *view[SPLITS];    /* (examples) indices in the file; NULL: all of it */
    int *order;           /* (examples) the training split in the order of `epoch` */
    int64_t epoch;
    int *ids;    /* of the batch at hand */
    int *masked; /* its ids with some of them masked; NULL: none are */
    int *whole;  /* a document to be augmented, and scratch for it */
    int longest; /* of these documents */
    Batch batch;
} Loader;

/* Opens the splits of data.dir and checks that they are the task's (EX_DATAERR), and enough for an
 * update and to hold out (EX_CONFIG). Of those that validate and test, train.eval_limit examples.
 */
bool loader_open(Loader *f, const Config *c, Err *err);
/* Whether so many, of the file at `path`, are enough for an update (EX_CONFIG). */
bool loader_has_enough(const Config *c, const char *path, int64_t examples, Err *err);
/* One split alone, all of it, and what a view of it needs: for programs that do not train. Others
 * must not be read. */
bool loader_open_split(Loader *f, const Config *c, int split, Err *err);
/* The same of a set that is open, which is closed with the loader, or on error (EX_DATAERR). */
bool loader_open_set(Loader *f, const Config *c, int split, Dataset *set, Err *err);
void loader_close(Loader *f);
/* Memory for batches of at most train.batch examples. */
void loader_layout(Loader *f, Arena *a);

/* How many of n training examples data.holdout has validate; 0 without it. */
int64_t loader_held(const Config *c, int64_t n);

/* Of the file that a split is read from; NULL: it is held out of the training split, whose hash
 * says it, or is not open, or has none yet (data/verify.h computes it). */
const char *loader_hash(const Loader *f, int split);
/* Whether a document of an example is longer than the model reads, and is cut. */
bool loader_cuts(const Loader *f, int split, int example);

/* {"source", "train", "val", "test", "hashes"}: what the data's metadata say of where they come
 * from, examples a split, and of each its hash; to be deleted. */
cJSON *loader_describe(const Loader *f);

int64_t loader_updates_per_epoch(const Loader *f);

/* The answers that an update asks for, its micro-batches together. */
double loader_answers(Loader *f, int64_t update);

/* The micro-batch (0, 1, ...) of update 1, 2, ... into f->batch. */
void loader_train(Loader *f, int64_t update, int micro);
/* Examples from, from + 1, ... of a split (or its view) into f->batch: train.batch of them, or what
 * is left. */
void loader_split(Loader *f, int split, int from);

/* Of a split's file, the index of example i of the split. */
int loader_index(const Loader *f, int split, int i);

/* Of an example by its index in the file: tokens as the encoder sees them, useful operations of a
 * forward pass. */
double loader_tokens(const Loader *f, int split, int example);
double loader_flops(const Loader *f, int split, int example);
/* Adds those of attention between its projections, of a layer, and those of exact attention. */
void loader_attention_flops(const Loader *f, int split, int example, double *own, double *exact);

#endif
