/* The encoder on one document: segments forward and backward (model/model.h says where it is cut).
 * A document has memory of its own; it belongs to one thread, and others take parts of its work
 * (core/lanes.h). */
#ifndef MODEL_ENCODER_H
#define MODEL_ENCODER_H

#include "model/tiles.h"

/* All but tiles and jobs, which are of all threads and their owner's to lay out. */
void encoder_layout(EncoderScratch *t, Arena *a, const Model *m);

/* What a segment computes, besides its norm. */
typedef enum SegmentPart {
    PART_EMBEDDING, /* alone */
    PART_ATTENTION,
    PART_FEED_FORWARD,
    PART_POOLING /* not in masked training, where it leaves its norm's output in EncoderScratch.x */
} SegmentPart;
SegmentPart segment_part(const Model *m, int segment);

void segment_forward(const Pass *p, Doc *doc, EncoderScratch *t, int segment);

/* Adds the gradients of the segment's parameters to dw. The last segment starts from doc->dz, in
 * masked training from doc->grad. With batch norm, the norm's gradient is finished when the segment
 * before it runs, from the sums over the batch. */
void segment_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, real *dw);

/* A block's attention, to be called on a document: without the document, memory and a trace; with
 * its gradients in dw, NULL in the forward pass. */
AttnCall encoder_attention(const Pass *p, int layer, real *dw);

/* The stream that a segment leaves for the norm after it: (N,d). */
real *segment_output(const Model *m, const Doc *doc, int segment);

#endif
