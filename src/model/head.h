/* The classifier: fc2(gelu(fc1(features))), of z of one document or [a, b, a*b, a-b] of two. */
#ifndef MODEL_HEAD_H
#define MODEL_HEAD_H

#include "model/encoder.h"

typedef struct HeadScratch {
    real *features, *dfeatures; /* (d or 4 d) */
    real *h, *g, *dh;           /* (d) before and after gelu */
    real *logits, *dlogits;     /* (classes) */
} HeadScratch;
void head_layout(HeadScratch *t, Arena *a, const Model *m);

/* Reads docs[..].z; leaves t->logits. */
void head_forward(const Pass *p, const Doc *docs, HeadScratch *t);

/* From t->dlogits: adds to dw, writes docs[..].dz. */
void head_backward(const Pass *p, Doc *docs, HeadScratch *t, real *dw);

#endif
