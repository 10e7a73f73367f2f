/* How tokens take from clusters: CAST's mixing weights A_sum, and the sum over the clusters that do
 * not hold a token (docs/method.md, steps 7 and 8). */
#ifndef ATTENTION_CAST_MIX_H
#define ATTENTION_CAST_MIX_H

#include "attention/cast_state.h"

/* What a job here takes of AttnMemory.job. */
void cast_layout_mix(const Cast *s, Arena *job);

/* A_sum of all rows, members' weights, and what is left for the clusters that do not hold a row's
 * token. */
void cast_mix(const CastState *v);

/* R += A_sum R_inter of the clusters that do not hold a row's token; and all of the output of
 * tokens that are skipped. */
void cast_summaries(const CastState *v);

/* From dR to dR_inter, and to dA_sum as it is for clusters that do not hold the token: cluster
 * jobs overwrite their members'. */
void cast_summaries_backward(const CastState *v);

/* From dA_sum to the gradients of Q, S and phi, and to those of X and W_q where tokens are skipped;
 * from phi, which is whole then, to X and its own parameters. */
void cast_mix_backward(const CastState *v);

#endif
