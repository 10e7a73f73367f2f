/* The model: embedding, encoder blocks around an attention mechanism, pooling, classifier head; one
 * document a sample or two.
 *
 * The encoder is cut into segments at its norms, because batch norm needs sums over the whole batch
 * there:
 *   segment 0            embedding [post-norm: and the first sublayer]
 *   segment s            norm s-1, then a sublayer: attention and feed-forward in turn
 *   the last segment     the last norm, then pooling
 * Without batch norm nothing couples documents, and a document runs through all segments at once
 * (model/engine.h). Parameters are registered in the order of segments, so that each segment's lie
 * together. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "attention/attention.h"
#include "model/params.h"
#include "ops/pool.h"

typedef enum NormKind { NORM_LAYER, NORM_SCALE, NORM_BATCH } NormKind;
typedef enum TokInit { TOK_NORMAL, TOK_SMOOTH } TokInit;
typedef enum Positions { POS_LEARNED, POS_SINUSOIDAL, POS_ROPE } Positions;

/* The places of dropout, which number its masks. */
typedef enum DropoutPlace {
    DROPOUT_EMBED,
    DROPOUT_ATTENTION,
    DROPOUT_FFN,
    DROPOUT_PLACES
} DropoutPlace;

typedef struct ModelConf {
    int depth, heads, d, d_ff, d_emb, max_length, norm, positions, pooling, conv, tok_init;
    bool pre_norm, conv_residual;
    double dropout;
    double dropout_at[DROPOUT_PLACES]; /* less than 0: as dropout */
} ModelConf;
extern const ConfigKey model_keys[];

/* What the model is to read and to tell apart: known from the task. */
typedef struct ModelTask {
    int vocab, classes, per_example, max_length;
    double masked; /* the share of tokens that it is to guess (model/lm.h); 0: it classifies */
    bool masks;    /* some of its tokens may be masked */
} ModelTask;

/* Offsets of a norm's parameters: layer and batch g and b; scale g alone; batch also its running
 * statistics. */
typedef struct NormAt {
    size_t g, b, mean, var;
} NormAt;

typedef struct BlockAt {
    LinearAt attn[ATTN_PROJECTIONS], fc1, fc2;
    size_t conv; /* before attention, where there is one */
    size_t *own; /* (Model.own) the mechanism's */
} BlockAt;

typedef struct Model {
    ModelConf conf;
    ModelTask task;
    const AttnMech *mech;
    void *attn; /* the mechanism's self, shared by all blocks */
    int own;    /* number of the mechanism's own parameters */
    int e, max_tokens;
    Params params;
    size_t tok, pos, cls, mask;
    size_t embedding_reals; /* of tok, mask, pos, cls and proj, which come first */
    LinearAt proj, head1, head2, lm;
    BlockAt *blocks;
    NormAt *norms;
    int nnorms, nsegments;
    size_t *segment_at; /* (nsegments + 1) where a segment's parameters start */
    real *sinusoid;     /* (max_tokens,d_emb) of sinusoidal positions */
    real *rope;         /* ops/rope.h, for max_tokens, of rotary ones */
} Model;

/* Reads object `json` ("model": its keys and "attention"), checks across keys, registers all
 * parameters. `where` names the config file. */
bool model_open(Model *m, const cJSON *json, const ModelTask *task, const char *where, Err *err);
void model_close(Model *m);

/* The resolved config: every key with its value. */
void model_write(const Model *m, cJSON *json);
/* Adds to the section "model" of a resolved config what it lacks, with its default: keys that an
 * older version did not know, those of the mechanism that it names included. */
void model_complete(cJSON *config);
/* Every key with type, default and help, all mechanisms' included. */
void model_help(FILE *f);

/* The probability there, in training. */
double model_dropout(const Model *m, DropoutPlace place);

/* Whether the products of a document's sublayers are kept for the backward pass, which else makes
 * them again. */
bool model_keeps_products(const Model *m);

/* How many projections a block has around its mechanism. */
int model_projections(const Model *m);

/* Useful floating-point operations of the forward pass on one document of `length` tokens: products
 * only, what the method needs, 2 for a multiply-add. The backward pass needs twice as many. */
double model_flops(const Model *m, int length);
/* Adds those of attention between its projections, of a layer, and those of exact attention. */
void model_attention_flops(const Model *m, int length, double *own, double *exact);
/* The head's, a sample; in masked training of none. */
double model_head_flops(const Model *m);

/* Of a document of `length` tokens, those that masked training masks: at least one. */
int model_masked(const Model *m, int length);

/* Tokens of a document that are read: it is cut to max_length. */
int model_reads(const Model *m, int length);
/* As the encoder sees it: these, and the cls token. */
int model_tokens(const Model *m, int length);

#endif
