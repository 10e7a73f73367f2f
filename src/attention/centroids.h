/* What clustered and improved clustered attention share (Vyas, Katharopoulos, Fleuret 2020,
 * arXiv:2007.04825): each head's queries in C clusters, by K-means of their hashes (hamming.h), and
 * the clusters' means, which attend to all keys. No gradient passes through the choice. */
#ifndef ATTENTION_CENTROIDS_H
#define ATTENTION_CENTROIDS_H

#include "attention/layer.h"
#include "ops/attend.h"

/* Config; a mechanism's own begins with it. */
typedef struct Clustered {
    AttnShape shape;
    int clusters, bits, iterations;
    bool hash_bias;
} Clustered;

#define CENTROIDS_KEYS                                                                             \
    {"clusters",                                                                                   \
     KEY_INT,                                                                                      \
     offsetof(Clustered, clusters),                                                                \
     "100",                                                                                        \
     1,                                                                                            \
     4096,                                                                                         \
     NULL,                                                                                         \
     "clusters of each head's queries",                                                            \
     .also = "n_clusters"},                                                                        \
        {"bits", KEY_INT, offsetof(Clustered, bits), "63", 1, 64, NULL, "bits of a query's hash"}, \
        {"iterations",                                                                             \
         KEY_INT,                                                                                  \
         offsetof(Clustered, iterations),                                                          \
         "10",                                                                                     \
         1,                                                                                        \
         1000,                                                                                     \
         NULL,                                                                                     \
         "assignments of K-means, with updates between them"},                                     \
    {                                                                                              \
        "hash_bias", KEY_BOOL, offsetof(Clustered, hash_bias), "true", 0, 0, NULL,                 \
            "hyperplanes need not pass through the origin"                                         \
    }

/* As AttnMech.params and groups: the hyperplanes are its own parameter 0. */
int centroids_params(const void *self, ParamSpec *specs);
void centroids_groups(const void *self, int *rounds, bool *keys);

typedef struct Centroids {
    const Clustered *s;
    const AttnCall *call;
    AttnRows *rows;
    int N, C;     /* C: no more than N */
    int *cluster; /* (h,N) saved: of each query */
    int *start;   /* (h,C + 1) saved: where a cluster's queries begin in `order` */
    int *order;   /* (h,N) saved: queries by cluster, in ascending order in each */
    real *mean;   /* (C,d) of turned queries; 0 of an empty cluster */
    real *dmean;  /* (C,d) backward: 0, to be added to */
    real *sum;    /* (C,d) backward: of a cluster's queries, the gradients of their rows of R */
} Centroids;

void centroids_layout(Centroids *o, const Clustered *s, AttnMemory *memory, int N, bool backward);
/* The most that a job of theirs needs. */
void centroids_layout_job(const Clustered *s, Arena *job, int N);

/* A head's queries of cluster c: how many, and which. */
static inline int centroids_size(const Centroids *o, int head, int c) {
    const int *from = o->start + head * (o->C + 1) + c;
    return from[1] - from[0];
}
static inline const int *centroids_members(const Centroids *o, int head, int c) {
    return o->order + (size_t)head * (size_t)o->N + o->start[head * (o->C + 1) + c];
}

/* A call's start: Q, K and V, turned; queries are clustered as they were, which the trace is told;
 * the pack has their means and all keys. */
void centroids_open(Centroids *o, AttnRows *rows, AttendPack *pack, const AttnCall *c,
                    bool backward);
/* From dY to `sum`, which is the pack's gradient of its output. */
void centroids_share(const Centroids *o, AttendPack *pack);
/* From the pack's gradients, and those of Q, K and V that were added elsewhere, to dX. */
void centroids_close(const Centroids *o, const AttendPack *pack);

#endif
