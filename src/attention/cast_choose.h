/* CAST's clusters: scores of all tokens, affinities, choice (docs/method.md, steps 2 to 4). No
 * gradient passes through the choice. */
#ifndef ATTENTION_CAST_CHOOSE_H
#define ATTENTION_CAST_CHOOSE_H

#include "attention/cast_state.h"

/* Takes from `memory` what choosing works with; the state goes on from a copy made before. */
void cast_layout_choose(const Cast *s, AttnMemory *memory, int N);

/* Fills in what the state saves of the scores and the clusters, and, where it skips, the order of
 * rows and how many of them are clustered. It reads X and the projections where it skips, else
 * queries and keys. `memory`: what is left of the call's. */
void cast_choose(CastState *v, AttnMemory memory);

#endif
