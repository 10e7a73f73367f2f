/* A small model with random weights, and a batch of ragged random documents. */
#ifndef TESTS_TINY_H
#define TESTS_TINY_H

#include "draws.h"
#include "model/engine.h"
#include "model/traces.h"

/* As in a config's section "model"; what is 0 or NULL gets the value behind it. */
typedef struct TinyConf {
    int depth, heads, d, d_ff, d_emb, max_length; /* 1, 1, 4, 5, d, 8 */
    int conv;                                     /* 0 */
    const char *norm, *positions, *pooling;       /* layer, learned, mean */
    const char *tok_init;                         /* normal */
    const char *attention;                        /* "type":"cast","clusters":3 */
    bool post_norm, conv_residual;
    double dropout, masked; /* masked: the share of tokens to be guessed; 0: it classifies */
    double dropout_at[DROPOUT_PLACES];  /* where it is another than dropout; -1: none */
    double smoothing;                   /* of labels: the engine's, which the test opens */
    int B, vocab, classes, per_example; /* 3, 5, 3, 1 */
} TinyConf;

typedef struct Tiny {
    Model m;
    int B;
    Sample *samples;
    int *ids, *targets;
    real *w, *grads; /* (total) grads are 0 */
    /* what an engine's step writes, if `out` and `traces` are passed on */
    Outcome out;
    Traces traces;
} Tiny;

/* Writes the config into `json` (size 1024) and fills in the defaults. */
void tiny_print(TinyConf *conf, char *json);

/* Lengths are drawn from 1..max_length; the first document has all of it. Bugs in the config end
 * the test. */
void tiny_open(Tiny *t, TinyConf conf, Draws d);
void tiny_close(Tiny *t);

/* The Engine's step on all samples from zeroed gradients, batch norm's statistics committed to
 * nowhere. */
void tiny_step(Tiny *t, Engine *e, double scale);
double tiny_loss(const Tiny *t); /* the sum that the step left */

#endif
