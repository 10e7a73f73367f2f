/* Pathfinder's official files: imgs/<batch>/sample_<number>.png, and metadata/<batch>.npy with a
 * row an image, of which the folder (first), the file (second), the label (fourth) and, where it is
 * there, the number of a contour's dashes (sixth) are read.
 * Metadata is text (LRA's release: fields between single blanks) or NumPy's binary table of strings
 * (what Linsley's program writes), whatever the name says.
 *
 * They are read from a directory or from a tar archive that holds them. Only names of this form are
 * ever opened. */
#ifndef DATA_PATHFINDER_TREE_H
#define DATA_PATHFINDER_TREE_H

#include <stdint.h>

#include "io/file.h"

#define PATHFINDER_HARD "curv_contour_length_14"

typedef struct TreeSample {
    int batch, number, label;
} TreeSample;

typedef struct Tree Tree;

/* The directory with imgs and metadata: `from`, or PATHFINDER_HARD in it. */
bool tree_locate(char *place, const char *from);

/* Reads the metadata, batches in the order of their numbers, of such a directory or of an archive.
 * In an archive with several, pathfinder<side>/PATHFINDER_HARD is taken. EX_NOINPUT; EX_DATAERR,
 * with the place; EX_OSERR: too little memory for an archive's images. */
Tree *tree_open(const char *place, int side, Err *err);
void tree_close(Tree *t);
int tree_count(const Tree *t);
/* Dashes of all contours, "paddles" in the official program; 0: not told, or not one number. */
int tree_paddles(const Tree *t);
TreeSample tree_sample(const Tree *t, int i);

/* An image's pixels (side,side). *empty: its file has no byte, as one in LRA's release has; then
 * there are none. EX_NOINPUT, EX_DATAERR. */
bool tree_pixels(Tree *t, int i, unsigned char *pixels, bool *empty, Err *err);

#endif
