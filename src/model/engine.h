/* A batch through the model: samples are dealt to lanes, lanes run on threads (core/lanes.h),
 * gradients are summed in a fixed tree. In evaluation every sample is a lane of its own.
 * Results do not depend on the number of threads. All memory is planned in engine_open; a step
 * allocates nothing.
 *
 * Without batch norm a sample runs forward and backward at once in its thread's memory, so the
 * memory in use is threads times one sample. Batch norm couples samples: then all run one segment
 * after the other, their activations stay in memory, and sums over the batch are taken between
 * segments. A pair's two documents are one sample: their head needs both.
 *
 * Where the job has several ranks, rank 0's calls are all of theirs (model/crew.h): batches are
 * shared out, but for evaluations whose logits or traces are wanted; steps want none then. */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include "core/lanes.h"
#include "model/deal.h"
#include "model/head.h"
#include "model/lm.h"

typedef struct Worker {
    EncoderScratch encoder;
    HeadScratch head;
    LmScratch lm;
    Doc docs[2];
    Arena memory; /* the documents at hand */
} Worker;

typedef struct Engine {
    const Model *m;
    int lanes, max_batch;
    int ranks;           /* that have a part in its batches (model/crew.h): 1, or all */
    bool train, coupled; /* coupled: batch norm in training */
    double smoothing;    /* of labels in engine_step (ops/xent.h): 0, or what the owner sets */
    Arena memory;
    LanePool pool;
    Worker *workers; /* (threads) */
    TileScratch *tiles;
    Arena *jobs; /* (threads) what a thread works in when it takes a part of a document's work */
    const real *w;
    real *wt;
    Fold fold;
    real *batch_grads; /* (total) the sums of a batch, where they are not yet the gradients */
    Deal deal;
    double seconds; /* of the step at hand, in lanes, without waiting for other ranks */
    /* batch norm */
    Doc *docs; /* (max_batch * per_example) */
    Arena docs_memory;
    BatchStats *stats; /* (nnorms) */
    real *moments;     /* (max_batch * per_example,2,d) of each document's rows */
    real *running; /* (nnorms,2,d) running statistics of the update at hand, not yet committed */
} Engine;

/* Plans memory for batches of up to max_batch samples; train: gradients are wanted. */
bool engine_open(Engine *e, const Model *m, int max_batch, int lanes, bool train, Err *err);
void engine_close(Engine *e);
/* Bytes that engine_open would map to train, most of them touched only when used. */
size_t engine_bytes(const Model *m, int max_batch, int lanes);

/* To be called when weights have changed: keeps the pointer, refreshes transposed copies. */
void engine_weights(Engine *e, const real *w);

/* Forward and backward: adds `scale` times the gradient of the sum of losses, of smoothed labels if
 * so, to grads; NULL: forward alone. `key`, the update's, drives dropout. traces
 * (B,per_example,depth) may be NULL. */
void engine_step(Engine *e, const Sample *samples, int B, double scale, RngKey key, real *grads,
                 const Outcome *out, AttnTrace *traces);

/* Forward alone, as in evaluation: no dropout, labels as they are, running statistics.
 * traces as above. */
void engine_evaluate(Engine *e, const Sample *samples, int B, const Outcome *out,
                     AttnTrace *traces);

/* Computes a sample again as engine_evaluate does, for those who want to see its activations:
 * `look` is called when its document 0, then 1, is through (Worker.docs), and with document =
 * per_example when the head is (Worker.head), which masked training has not. */
typedef void EngineLook(void *ctx, const Pass *p, const Worker *k, int document);
void engine_walk(Engine *e, const Sample *s, EngineLook *look, void *ctx);

/* Batch norm's running statistics: begin copies them from the weights, each step updates the copy,
 * commit writes it back. An update that is abandoned before commit leaves no trace. */
void engine_begin_update(Engine *e);
void engine_commit(Engine *e, real *w);

#endif
