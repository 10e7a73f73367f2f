/* Clustering by affinity: the choice G(A_g) of the method's step 4, through which no gradient
 * passes. */
#ifndef ATTENTION_CLUSTER_H
#define ATTENTION_CLUSTER_H

#include "core/mem.h"

typedef enum ClusterRule { CLUSTER_TOPK, CLUSTER_SA_TOPK } ClusterRule;
#define CLUSTER_RULE_CHOICES "topk sa_topk"

typedef struct ClusterScratch {
    void *keys[2]; /* sort keys */
    int *items[2]; /* what they belong to */
    int *count;
} ClusterScratch;
void cluster_layout(ClusterScratch *s, Arena *a, int N);

/* All N items, the largest score first. */
void cluster_order(int *list, const real *score, const ClusterScratch *s, int N);

/* All N items by their cluster of C, in ascending order in each; where each cluster begins in it,
 * and the last ends, goes into start (C + 1). */
void cluster_sort(int *order, int *start, const int *cluster, int N, int C);

/* Both list at most k tokens a cluster, -1 in empty slots: top_k best first, sa_top_k as assigned.
 * Equal scores, in all three: the lower index first (-0 equals +0); NaN is below everything. */

/* One cluster: list (k) takes the k tokens with the largest affinity (N); returns how many. */
int cluster_top_k(int *list, const real *affinity, const ClusterScratch *s, int N, int k);

/* All clusters: list (C,k), size (C); affinity (C,N), row stride ld. Tokens by descending best
 * affinity; each goes to its best cluster with room, listed there in that order. */
void cluster_sa_top_k(int *list, int *size, const real *affinity, int ld, const ClusterScratch *s,
                      int N, int C, int k);

#endif
