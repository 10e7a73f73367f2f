/* The clusters of documents, as the attention of a forward pass formed them, and the same turned
 * round, token by token. */
#ifndef VIZ_CLUSTERS_H
#define VIZ_CLUSTERS_H

#include "model/traces.h"

/* traces_open for documents of full length. EX_DATAERR: the model's attention has neither clusters
 * nor groups; `where` names it. On error nothing is to be closed. */
bool clusters_traces(Traces *t, const Model *m, int documents, const char *where, Err *err);

/* What is looked at apart: a block; and where heads have groups of their own, one head of it in one
 * round of grouping, as queries or as keys. */
typedef struct ClusterPart {
    int layer;
    int head, round; /* -1: clusters are of all heads */
    bool keys;
} ClusterPart;

/* The parts of a block: how many, and the i-th; `head` alone, -1 for all. */
int clusters_parts(const Traces *t, int head);
ClusterPart clusters_part(const Traces *t, int layer, int head, int i);
/* "layer 1, head 0, round 2, keys" with what there is more than one of; for a file's name
 * "layer1-head0-round2-keys". */
enum { CLUSTER_NAME = 64 };
const char *clusters_name(char buf[CLUSTER_NAME], const Traces *t, const ClusterPart *p);
const char *clusters_file(char buf[CLUSTER_NAME], const Traces *t, const ClusterPart *p);

/* One document in one part. Groups are clusters too: as many as the document has, each token in one
 * of them. */
typedef struct Clusters {
    int N, C, k;
    const int *list;      /* (C,k) tokens of each cluster, -1 for an empty slot */
    const real *affinity; /* (N,C) A_g; NULL: groups have none */
    int *size;            /* (C) tokens of each */
    int *start, *holders; /* token n is in clusters holders[start[n]] .. holders[start[n + 1] - 1],
                             the one with the highest affinity first */
    int *own;             /* the list's memory, of groups */
} Clusters;

/* N: the document's tokens. The trace's memory stays in use. */
void clusters_open(Clusters *c, const Traces *t, const AttnTrace *trace, const ClusterPart *part,
                   int N);
void clusters_close(Clusters *c);

/* How many clusters hold a token. */
static inline int clusters_of_token(const Clusters *c, int n) {
    return c->start[n + 1] - c->start[n];
}

/* Of tokens `from` to the last: those in no cluster, and those in several. */
void clusters_count(const Clusters *c, int from, int *none, int *several);

#endif
