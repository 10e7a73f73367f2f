/* The clusters of documents, as the attention of a forward pass formed them, and the same turned
 * round, token by token. */
#ifndef VIZ_CLUSTERS_H
#define VIZ_CLUSTERS_H

#include "model/traces.h"

/* traces_open for documents of full length. EX_DATAERR: the model's attention has no clusters;
 * `where` names it. On error nothing is to be closed. */
bool clusters_traces(Traces *t, const Model *m, int documents, const char *where, Err *err);

/* One document in one block. */
typedef struct Clusters {
    int N, C, k;
    const int *list;      /* (C,k) tokens of each cluster, -1 for an empty slot */
    const real *affinity; /* (N,C) A_g */
    int *size;            /* (C) tokens of each */
    int *start, *holders; /* token n is in clusters holders[start[n]] .. holders[start[n + 1] - 1],
                             the one with the highest affinity first */
} Clusters;

/* N: the document's tokens. The trace's memory stays in use. */
void clusters_open(Clusters *c, const Traces *t, const AttnTrace *trace, int N);
void clusters_close(Clusters *c);

/* How many clusters hold a token. */
static inline int clusters_of_token(const Clusters *c, int n) {
    return c->start[n + 1] - c->start[n];
}

/* Of tokens `from` to the last: those in no cluster, and those in several. */
void clusters_count(const Clusters *c, int from, int *none, int *several);

#endif
