/* Clusters as PNG: a grid of panels, or the matrix of affinities. */
#ifndef VIZ_VIZ_PNG_H
#define VIZ_VIZ_PNG_H

#include "viz/viz.h"

/* A part of a document (EX_CANTCREAT, EX_IOERR). Clusters are of pictures alone. */
typedef bool VizPng(const Viz *v, const VizDoc *d, int part, const char *path, Err *err);
VizPng viz_png_clusters, viz_png_affinity;

#endif
