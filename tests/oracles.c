#include "oracles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what they share ---- */

void *oracle_must(void *p) {
    if (!p) abort();
    return p;
}

double *oracle_doubles(size_t n) { return oracle_must(calloc(n ? n : 1, sizeof(double))); }

double *oracle_input(const Sublayer *s) {
    double *x = oracle_doubles((size_t)(s->N * s->d));
    for (int i = 0; i < s->N * s->d; i++) x[i] = (double)s->X[i];
    return x;
}

double *oracle_projected(const Sublayer *s, const double *x, AttnProjection p) {
    const real *w = sublayer_linear(s, p, 0), *b = sublayer_linear(s, p, 1);
    const int d = s->d;
    double *y = oracle_doubles((size_t)(s->N * d));
    for (int n = 0; n < s->N; n++)
        for (int i = 0; i < d; i++) {
            y[n * d + i] = (double)b[i];
            for (int j = 0; j < d; j++) y[n * d + i] += x[n * d + j] * (double)w[i * d + j];
        }
    return y;
}

double *oracle_turned(const Sublayer *s, const double *x) {
    const int N = s->N, d = s->d, e = ((const AttnShape *)s->self)->e;
    double *y = oracle_doubles((size_t)(N * d));
    memcpy(y, x, (size_t)(N * d) * sizeof *y);
    for (int n = 0; n < N && s->rope; n++)
        for (int j = 0; j < d; j += 2) {
            const double angle = n * pow(10000, -(j % e) / (double)e), *in = x + n * d + j;
            y[n * d + j] = in[0] * cos(angle) - in[1] * sin(angle);
            y[n * d + j + 1] = in[0] * sin(angle) + in[1] * cos(angle);
        }
    return y;
}

double oracle_dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

double oracle_softmax(double *x, int n) {
    double top = x[0], sum = 0;
    for (int i = 1; i < n; i++) top = fmax(top, x[i]);
    for (int i = 0; i < n; i++) sum += x[i] = exp(x[i] - top);
    for (int i = 0; i < n; i++) x[i] /= sum;
    return top + log(sum);
}

Operands operands_open(const Sublayer *s) {
    const AttnShape *shape = s->self;
    double *x = oracle_input(s);
    Operands o = {.N = s->N, .d = s->d, .h = shape->h, .e = shape->e};
    o.q = oracle_projected(s, x, ATTN_Q), o.tq = oracle_turned(s, o.q);
    if (s->mech->projections & ATTN_HAS(ATTN_K))
        o.k = oracle_projected(s, x, ATTN_K), o.tk = oracle_turned(s, o.k);
    o.v = oracle_projected(s, x, ATTN_V);
    o.p = oracle_doubles((size_t)s->N);
    free(x);
    return o;
}

void operands_close(Operands *o) {
    free(o->q), free(o->k), free(o->v), free(o->tq), free(o->tk), free(o->p);
}

double operands_score(const Operands *o, int n, int j, int head) {
    const int at = head * o->e;
    return oracle_dot(o->tq + n * o->d + at, o->tk + j * o->d + at, o->e) / sqrt(o->e);
}

void operands_mix(const Operands *o, double *out, int n, int head, const double *p) {
    const int d = o->d, at = head * o->e;
    for (int j = 0; j < o->N; j++)
        for (int i = 0; i < o->e; i++) out[n * d + at + i] += p[j] * o->v[j * d + at + i];
}

/* ---- exact attention ---- */

void oracle_full(const Sublayer *s, double *R) {
    Operands o = operands_open(s);
    for (int head = 0; head < o.h; head++)
        for (int n = 0; n < o.N; n++) {
            for (int j = 0; j < o.N; j++) o.p[j] = operands_score(&o, n, j, head);
            oracle_softmax(o.p, o.N);
            operands_mix(&o, R, n, head, o.p);
        }
    operands_close(&o);
}
