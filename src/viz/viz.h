/* An example run through a trained model, and what the clusters of its blocks hold: for those who
 * write and print it. */
#ifndef VIZ_VIZ_H
#define VIZ_VIZ_H

#include "train/trained.h"
#include "viz/clusters.h"

typedef struct VizDoc {
    const int *ids;  /* (length) its tokens; in masked training with those that were hidden */
    int length, cls; /* cls: 1 where token 0 is the cls token, and ids begin at token 1 */
    int width;       /* of a picture's rows; 0: it is no picture */
    Clusters *part;  /* (parts) */
} VizDoc;

typedef struct Viz {
    const Trained *t;
    int index, docs;
    int parts;         /* that are shown */
    ClusterPart *part; /* (parts) */
    char title[256];   /* "example 3 of test: label 1 one snake, predicted 0 two snakes (52 %)" */
    VizDoc doc[2];
    Traces traces;
} Viz;

/* Runs example `index` of the split through the model, which was opened with a batch of 1, to show
 * block `layer` (-1: all; one that it has) of it, and where heads have groups of their own `head`
 * (-1: all). EX_DATAERR: no clusters; EX_USAGE: no such example or head; EX_SOFTWARE: its loss is
 * not finite.
 */
bool viz_open(Viz *v, Trained *t, int index, int layer, int head, Err *err);
void viz_close(Viz *v);

/* The side of a split's pictures; 0: its documents are none, or larger than can be drawn. */
enum { VIZ_LARGEST = 512 };
int viz_width(const Trained *t);

/* What stands for the tokens from n on: writes it as UTF-8 and returns of how many it is, several
 * where bytes are one character. */
enum { VIZ_TEXT = 48 };
int viz_token(const Viz *v, const VizDoc *d, int n, char buf[VIZ_TEXT]);
/* Whether such texts have to be set apart by spaces. */
bool viz_spaced(const Viz *v);

#endif
