/* Memory for what the attention of a batch's documents chose, block by block, and the same as
 * tensors for a file. */
#ifndef MODEL_TAPS_H
#define MODEL_TAPS_H

#include "model/model.h"

typedef struct Taps {
    int documents, depth, tokens; /* tokens: of a row of groups */
    int C, k, heads, rounds;      /* 0: the mechanism has none */
    AttnTap *tap;                 /* (documents,depth), as the engine takes them */
    int *clusters;                /* (depth,documents,C,k) */
    int *groups, *groups_key;     /* (depth,documents,heads,rounds,tokens) */
    real *affinities;             /* (documents,depth,max_tokens,C), where asked for */
} Taps;

/* For documents of at most `tokens` tokens, cls counted. */
void taps_open(Taps *t, const Model *m, int documents, int tokens, bool affinities);
void taps_close(Taps *t);

/* Fills in clusters.<block> I32 [B,C,k], groups.<block> and groups_key.<block> I32
 * [B,heads,rounds,tokens] for st_write, of pairs [B,2,...]; returns how many, at most 3 a block. */
int taps_tensors(const Taps *t, const Model *m, StTensor *tensors, char (*names)[96]);

#endif
