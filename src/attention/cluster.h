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
void cluster_place(ClusterScratch *s, Arena *a, int N);

/* Lists at most k tokens a cluster, best first: list (C,k), -1 in empty slots; size (C).
 *   affinity (C,N), row stride ld
 *   topk: cluster c takes the k tokens with the largest affinity[c,:].
 *   sa_topk: tokens by descending best affinity; each takes its best cluster with room, listed
 *       there in that order.
 * Equal scores: the lower index first (-0 equals +0); NaN is below everything. */
void cluster_choose(ClusterRule rule, int *list, int *size, const real *affinity, int ld,
                    const ClusterScratch *s, int N, int C, int k);

#endif
