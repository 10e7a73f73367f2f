/* Memory for what the attention of a batch's documents chose, block by block, and the same as
 * tensors for a file. */
#ifndef MODEL_TRACES_H
#define MODEL_TRACES_H

#include "model/model.h"

typedef struct Traces {
    int documents, depth, tokens; /* tokens: of a row of groups */
    int C, k, heads, rounds;      /* 0: the mechanism has none, or they are not wanted */
    AttnTrace *trace;             /* (documents,depth), as the engine takes them */
    int *clusters;                /* (depth,documents,C,k) */
    int *groups, *groups_key;     /* (depth,documents,heads,rounds,tokens) */
    real *affinities;             /* (documents,depth,max_tokens,C), where asked for */
    real *inputs;                 /* (documents,depth,max_tokens,d), where asked for */
} Traces;

/* What is wanted of them; affinities come with choices. */
enum { TRACES_CHOICES = 1, TRACES_AFFINITIES = 2, TRACES_INPUTS = 4 };

/* For documents of at most `tokens` tokens, cls counted. */
void traces_open(Traces *t, const Model *m, int documents, int tokens, unsigned wanted);
void traces_close(Traces *t);

/* Fills in clusters.<block> I32 [B,C,k], groups.<block> and groups_key.<block> I32
 * [B,heads,rounds,tokens] for st_write, of pairs [B,2,...]; returns how many, at most 3 a block. */
int traces_tensors(const Traces *t, const Model *m, StTensor *tensors, char (*names)[96]);

#endif
