/* Pictures of clusters: of one example, what each block's clusters hold.
 *
 * Of pictures (tasks whose tokens are pixels, and custom data whose documents all have one and the
 * same square length):
 *   viz-<index>-layer<l>-clusters.png   the input, each token in its clusters' colours, and each
 *                                       cluster by itself
 *   viz-<index>-layer<l>-affinity.png   A_g as a heat map for each cluster
 * Of texts and other sequences:
 *   viz-<index>.html                    the tokens in their clusters' colours, block by block
 *   viz-<index>-layer<l>-affinity.png   A_g (C,N)
 * Of pairs, names have "-a" or "-b" behind the index, for the first and second document. Blocks
 * count from 0, as in the names of parameters. */
#ifndef VIZ_VIZ_H
#define VIZ_VIZ_H

#include "train/trained.h"
#include "viz/clusters.h"

typedef struct VizDoc {
    const int *ids;  /* (length) what the model read of it */
    int length, cls; /* cls: 1 where token 0 is the cls token, and ids begin at token 1 */
    int width;       /* of a picture's rows; 0: it is no picture */
    Clusters *layer; /* (depth) */
} VizDoc;

typedef struct Viz {
    const Trained *t;
    int index, label, predicted, docs, depth;
    double p; /* of what is predicted */
    VizDoc doc[2];
    Taps taps;
} Viz;

/* Runs example `index` of the split through the model, which was opened with a batch of 1.
 * EX_DATAERR: no clusters; EX_USAGE: no such example. */
bool viz_open(Viz *v, Trained *t, int index, Err *err);
void viz_close(Viz *v);

/* Writes the files of blocks layer .. layer (-1: of all) into `dir`, which is made, and tells their
 * names (EX_CANTCREAT, EX_IOERR). */
bool viz_write(const Viz *v, const char *dir, int layer, Err *err);

/* The tokens of these blocks on a terminal, in 256 colours, or with letters for clusters. Pictures
 * wider than VIZ_WIDEST are left out. */
enum { VIZ_WIDEST = 64 };
void viz_print(FILE *f, const Viz *v, int layer, bool colour);

/* ---- what the writers share ---- */

/* The side of a split's pictures; 0: its documents are none, or larger than can be drawn. */
enum { VIZ_LARGEST = 512 };
int viz_width(const Trained *t);

/* "example 3 of test: label 1 one snake, predicted 0 two snakes (52 %)" */
void viz_title(const Viz *v, char *buf, size_t size);

/* What stands for the tokens from n on: writes it as UTF-8 and returns of how many it is, several
 * where bytes are one character. */
enum { VIZ_TEXT = 48 };
int viz_token(const Viz *v, const VizDoc *d, int n, char buf[VIZ_TEXT]);
/* Whether such texts have to be set apart by spaces. */
bool viz_spaced(const Viz *v);

bool viz_write_clusters(const Viz *v, const VizDoc *d, int layer, const char *path, Err *err);
bool viz_write_affinity(const Viz *v, const VizDoc *d, int layer, const char *path, Err *err);
bool viz_write_html(const Viz *v, int layer, const char *path, Err *err);

#endif
