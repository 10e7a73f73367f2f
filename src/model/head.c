#include "model/head.h"

#include <string.h>

#include "ops/linear.h"
#include "ops/vmath.h"

static int width(const Model *m) { return m->task.per_example == 2 ? 4 * m->conf.d : m->conf.d; }

void head_layout(HeadScratch *t, Arena *a, const Model *m) {
    const size_t d = (size_t)m->conf.d, in = (size_t)width(m), K = (size_t)m->task.classes;
    t->features = arena_reals(a, in);
    t->dfeatures = arena_reals(a, in);
    t->h = arena_reals(a, d);
    t->g = arena_reals(a, d);
    t->dh = arena_reals(a, d);
    t->logits = arena_reals(a, K);
    t->dlogits = arena_reals(a, K);
}

void head_forward(const Pass *p, const Doc *docs, HeadScratch *t) {
    const Model *m = p->m;
    const int d = m->conf.d, in = width(m), K = m->task.classes;
    if (m->task.per_example == 2)
        pair_forward(t->features, docs[0].z, docs[1].z, d);
    else
        memcpy(t->features, docs[0].z, (size_t)d * sizeof(real));
    linear_forward(t->h, d, t->features, in, p->wt + m->head1.w, p->w + m->head1.b, NULL, 1, in, d);
    vmath_gelu(t->g, t->h, d);
    linear_forward(t->logits, K, t->g, d, p->wt + m->head2.w, p->w + m->head2.b, NULL, 1, d, K);
}

void head_backward(const Pass *p, Doc *docs, HeadScratch *t, real *dw) {
    const Model *m = p->m;
    const int d = m->conf.d, in = width(m), K = m->task.classes;
    linear_backward_weight(dw + m->head2.w, dw + m->head2.b, t->dlogits, K, t->g, d, 1, d, K);
    linear_backward_input(t->dh, d, t->dlogits, K, p->w + m->head2.w, false, 1, d, K);
    vmath_gelu_grad(t->dh, t->g, t->h, d);
    linear_backward_weight(dw + m->head1.w, dw + m->head1.b, t->dh, d, t->features, in, 1, in, d);
    linear_backward_input(t->dfeatures, in, t->dh, d, p->w + m->head1.w, false, 1, in, d);
    for (int i = 0; i < m->task.per_example; i++) memset(docs[i].dz, 0, (size_t)d * sizeof(real));
    if (m->task.per_example == 2)
        pair_backward(docs[0].dz, docs[1].dz, t->dfeatures, docs[0].z, docs[1].z, d);
    else
        memcpy(docs[0].dz, t->dfeatures, (size_t)d * sizeof(real));
}
