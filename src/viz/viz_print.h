/* Clusters on a terminal. */
#ifndef VIZ_VIZ_PRINT_H
#define VIZ_VIZ_PRINT_H

#include "viz/viz.h"

/* The tokens of the blocks to show, in 256 colours, or with marks for clusters. Pictures wider
 * than VIZ_WIDEST are left out. */
enum { VIZ_WIDEST = 64 };
void viz_print(FILE *f, const Viz *v, bool colour);

#endif
