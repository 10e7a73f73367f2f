/* What clusters are like over a whole split, a block at a time.
 *
 *   size         tokens of a cluster: mean, least, most; `empty`: share of clusters without any
 *   none         share of tokens that no cluster holds; `several`: that more than one does
 *   entropy      in bits, mean over tokens: -sum_c p_c log2 p_c with p_c = A_g[n,c] / sum A_g[n,:],
 *                how undecided a token's affinities are. 0: all for one cluster; log2 C: all
 *                alike. Tokens whose affinities sum to 0 are left out
 *   cosine       between two surrogate tokens (d numbers each): mean over pairs, and the largest
 *                in absolute value. Of the weights, whatever the examples
 *   compactness  square root of the mean over clusters of two tokens or more of s / r, with s the
 *                mean square distance of its m tokens to their centroid, and r what is expected of
 *                that for m tokens drawn from the document's N without replacement: (m - 1) / m *
 *                N / (N - 1) times the mean square distance of all N to theirs. Distances in
 *                pixels of the plane for pictures, in tokens along the text otherwise; the ratio
 *                has no unit. 1: spread like chance; 0: all in one place
 *
 *   moved        angle between a surrogate token and where it began, in degrees: mean over
 *                clusters. Of the weights; not known where they began with others (train.init)
 *   kept         the weight that exact attention has, with the same queries and keys, on the
 *                tokens that a token sees by themselves: mean over tokens (model/nearness.h)
 *
 * The cls token, which has no place, counts in all but compactness. What has no value is NaN, null
 * in JSON. */
#ifndef VIZ_CLUSTER_STATS_H
#define VIZ_CLUSTER_STATS_H

#include "train/trained.h"
#include "viz/clusters.h"

typedef struct LayerStats {
    int layer, head; /* head -1: clusters are of all heads */
    double documents, tokens, clusters;
    double size, least, most, empty, none, several, entropy, cosine, cosine_most, compactness,
        moved, kept;
} LayerStats;

/* Sums over documents, that the above are means of; `least` begins as INFINITY, all else as 0. */
typedef struct ClusterSums {
    double documents, tokens, clusters;
    double size, least, most, empty, none, several;
    double entropy, decided;    /* decided: tokens that have an entropy */
    double compactness, spread; /* spread: clusters that have a compactness */
} ClusterSums;
/* Adds a document; cls: 1 where token 0 has no place. width: of a picture's rows, 0 of a text. */
void cluster_sums_add(ClusterSums *s, const Clusters *c, int cls, int width);
/* Without what is the weights' alone. */
LayerStats cluster_sums_means(const ClusterSums *s);

/* Rows: a block each; where heads have groups of their own, a head of a block each, over all rounds
 * and over queries and keys. */
int cluster_stats_rows(const Trained *t);

/* Of the first `limit` examples of the split (0: of all); stats has these rows. The model was
 * opened with a batch of any size. EX_DATAERR: no clusters, or the data were written to meanwhile;
 * EX_TEMPFAIL: a signal came; EX_SOFTWARE: weights or a loss are not finite; EX_OSERR: memory, of
 * `kept`. */
bool cluster_stats(LayerStats *stats, Trained *t, int limit, bool kept, Err *err);

void cluster_stats_print(FILE *f, const LayerStats *stats, const Trained *t);
void cluster_stats_print_json(FILE *f, const LayerStats *stats, const Trained *t);

#endif
