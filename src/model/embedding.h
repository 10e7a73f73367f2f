/* What comes before the first sublayer: tokens and positions to rows of width d (model/fold.h says
 * where that is a sum of two rows of projected tables). */
#ifndef MODEL_EMBEDDING_H
#define MODEL_EMBEDDING_H

#include "model/tiles.h"

/* Makes doc->stream[0]: in the forward pass where it is kept; else for every segment that reads it,
 * in either pass. */
void embedding_make(const Segment *s);

/* Gradients of its parameters to s->dw, from that of its rows, which segment 0 has left. */
void embedding_backward(const Segment *s);

#endif
