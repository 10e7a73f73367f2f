/* The embedding's projection, folded into its tables. W (tok[id] + pos[n]) + b = (W tok[id]) + (W
 * pos[n] + b): instead of projecting every token of a batch, both tables are projected once an
 * update, a token's embedding is a sum of two rows of width d, and the gradients of these rows go
 * through W once a batch. The same function and gradients, at a few percent of the products. Not
 * with dropout, which comes between sum and projection, nor where there is nothing to gain (d >=
 * d_emb) or positions are sinusoidal, whose table does not train. */
#ifndef MODEL_FOLD_H
#define MODEL_FOLD_H

#include "model/model.h"

typedef struct Fold {
    bool on;
    real *tok, *pos, *cls, *mask; /* (vocab,d), (max_tokens,d), (d), (d): projected, the bias in
                              pos; with rotary positions pos is NULL and the bias in the others */
    /* Where a batch sums their gradients: within the embedding's part of a vector of gradients,
     * which they do not fill; what comes before `from` (0 where not folded) stays unused. */
    size_t from, dtok, dpos, dcls, dmask;
} Fold;

bool fold_applies(const Model *m);
void fold_layout(Fold *f, Arena *a, const Model *m);

/* Projects the tables. */
void fold_tables(const Fold *f, const Model *m, const real *w, const real *wt);

/* sums: the gradients of a batch from f->from on. Adds to grads those of tok, pos, cls, mask and
 * proj. */
void fold_gradients(const Fold *f, const Model *m, const real *w, const real *sums, real *grads);

#endif
