/* What a file is, by its first bytes: a slip in the name of an output must not cost a file of
 * another kind. */
#ifndef IO_KIND_H
#define IO_KIND_H

#include "core/err.h"

typedef enum FileKind {
    KIND_ANY, /* for what takes no file's place */
    KIND_JSON,
    KIND_METRICS, /* docs/metrics.md */
    KIND_CHECKPOINT,
    KIND_WEIGHTS, /* exported: train/source.h */
    KIND_DATASET,
    KIND_TENSORS, /* safetensors that are neither */
    KIND_CARD,    /* of exported weights */
    KIND_READER,  /* of these, in Python */
    KIND_HTML,
    KIND_SVG,
    KIND_PNG,
    KIND_PDF,
    KIND_GNUPLOT,
    KIND_SCRIPT,
    KIND_PREDICTIONS, /* of cast_eval */
    KIND_CHECKED,     /* the note of a check of data */
    KIND_LISTOPS,     /* the table of a split in LRA's release */
    KIND_PATHFINDER   /* the list of a folder's pictures there */
} FileKind;

/* Whether a file of that kind may take the place of what is at `path`: nothing, a file without a
 * byte, or one of the same kind. EX_CANTCREAT else, and nothing is touched. */
bool kind_may_replace(const char *path, FileKind kind, Err *err);

/* Whether it is a file of that kind. */
bool kind_is(const char *path, FileKind kind);

#endif
