/* K-means in Hamming space, for clustered attention (arXiv:2007.04825). Signs of projections are
 * bits of a word of 64; what is near in angle differs in few. The reference code
 * begins with the first C words, and draws those of empty clusters without a seed: here words are
 * taken that are spread out, and the farthest ones. */
#ifndef ATTENTION_HAMMING_H
#define ATTENTION_HAMMING_H

#include <stdint.h>

#include "core/mem.h"

enum { HAMMING_BITS = 64 }; /* at most */

typedef struct Hamming {
    uint64_t *words;     /* (N) */
    uint64_t *centroids; /* (C) */
    uint64_t *counts;    /* (C,levels) for each bit how many members have it: bit l of the number
                            stands in word l */
    int levels;
    uint32_t *nearest; /* (N) the nearest centroid, and how far it is */
    int *size;         /* (C) */
    int *moved;        /* (C + 1) centroids that the last update changed, then -1 */
    bool *moves;       /* (C) whether it changed */
    int *list;         /* (N) */
    real *projected;   /* (bits,tile) */
} Hamming;
void hamming_layout(Hamming *o, Arena *a, int N, int C);

/* The words of N rows x (row stride ld, e columns): bit b is set where <x, planes[b]> > t_b, planes
 * (bits,e + 1), t_b in the last column; without `bias` t_b is 0. */
void hamming_words(const Hamming *o, const real *x, int ld, const real *planes, int bits, int e,
                   bool bias, int N);

/* cluster (N) gets each word's cluster of C, at most N. Centroids start as the words at floor(j N /
 * C). Each of `iterations` assigns words to the nearest centroid, the lower one on ties; between
 * two of them a centroid's bits become those that more than half of its members have, and empty
 * clusters, in ascending order, take the words that are farthest from the centroid that they were
 * assigned by, the lower word first, which stay where they are. */
void hamming_clusters(const Hamming *o, int *cluster, int N, int C, int iterations);

#endif
