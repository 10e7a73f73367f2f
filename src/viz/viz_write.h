/* Pictures of clusters: of one example, what each block's clusters hold.
 *
 * Of pictures (tasks whose tokens are pixels, and custom data of at most 256 ids whose documents
 * all have one and the same square length):
 *   viz-<index>-layer<l>-clusters.png   the input, each token in its clusters' colours, and each
 *                                       cluster by itself
 *   viz-<index>-layer<l>-affinity.png   A_g as a heat map for each cluster
 * Of texts and other sequences:
 *   viz-<index>.html                    the tokens in their clusters' colours, block by block
 *   viz-<index>-layer<l>-affinity.png   A_g (C,N)
 * Of pairs, names of PNG files have "-a" or "-b" behind the index, for the first and second
 * document; of another split than the test set all have its name before it: viz-train-<index>.
 * Blocks count from 0, as in the names of parameters. Where heads have groups of their
 * own, files of a block have "-head<h>" behind its number, with several rounds "-round<r>", and
 * where keys are grouped apart "-queries" or "-keys"; there are no affinities. */
#ifndef VIZ_VIZ_WRITE_H
#define VIZ_VIZ_WRITE_H

#include "viz/viz.h"

/* Writes the files of the blocks to show into `dir`, which is made, and tells their names
 * (EX_CANTCREAT, EX_IOERR). */
bool viz_write(const Viz *v, const char *dir, Err *err);

#endif
