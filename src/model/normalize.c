#include "model/normalize.h"

#include "ops/norm.h"

#define LAYER_EPS REAL(1e-5)
#define SCALE_EPS REAL(1e-5)

void norm_forward(const Pass *p, const Doc *doc, int index, real *y, const real *x, int r0, int n) {
    const NormAt *at = &p->m->norms[index];
    const int d = p->m->conf.d;
    const real *g = p->w + at->g, *b = p->w + at->b;
    if (p->m->conf.norm == NORM_LAYER)
        layernorm_forward(y, doc->mean[index] + r0, doc->rstd[index] + r0, x, g, b, LAYER_EPS, n,
                          d);
    else if (p->m->conf.norm == NORM_SCALE)
        scalenorm_forward(y, doc->rstd[index] + r0, x, *g, SCALE_EPS, n, d);
    else
        batchnorm_apply(y, x, p->stats[index].mean, p->stats[index].rstd, g, b, n, d);
}

void norm_again(const Pass *p, const Doc *doc, int index, real *y, const real *x, int r0, int n) {
    const NormAt *at = &p->m->norms[index];
    if (p->m->conf.norm == NORM_LAYER)
        layernorm_again(y, doc->mean[index] + r0, doc->rstd[index] + r0, x, p->w + at->g,
                        p->w + at->b, n, p->m->conf.d);
    else
        norm_forward(p, doc, index, y, x, r0, n);
}

void norm_backward(const Pass *p, const Doc *doc, int index, real *dx, const real *dy,
                   const real *x, int r0, int n, real *dw) {
    const NormAt *at = &p->m->norms[index];
    const int d = p->m->conf.d;
    const real *g = p->w + at->g;
    real *dg = dw + at->g, *db = dw + at->b;
    if (p->m->conf.norm == NORM_LAYER)
        layernorm_backward(dx, dg, db, dy, x, doc->mean[index] + r0, doc->rstd[index] + r0, g, n,
                           d);
    else if (p->m->conf.norm == NORM_SCALE)
        scalenorm_backward(dx, dg, dy, x, doc->rstd[index] + r0, *g, SCALE_EPS, n, d);
    else
        batchnorm_backward(dx, dg, db, dy, x, p->stats[index].mean, p->stats[index].rstd, g, n, d);
}

void norm_finish(const Pass *p, int index, real *dx, const real *x, int n) {
    const BatchStats *s = &p->stats[index];
    batchnorm_finish(dx, x, s->mean, s->rstd, p->w + p->m->norms[index].g, s->dg, s->db,
                     s->population, n, p->m->conf.d);
}
