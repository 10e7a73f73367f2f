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

/* ---- exact attention, to all and to neighbours ---- */

static void near(const Sublayer *s, double *R, int reach) {
    Operands o = operands_open(s);
    for (int head = 0; head < o.h; head++)
        for (int n = 0; n < o.N; n++) {
            for (int j = 0; j < o.N; j++)
                o.p[j] = abs(n - j) <= reach ? operands_score(&o, n, j, head) : -INFINITY;
            oracle_softmax(o.p, o.N);
            operands_mix(&o, R, n, head, o.p);
        }
    operands_close(&o);
}

void oracle_full(const Sublayer *s, double *R) { near(s, R, s->N); }

void oracle_local(const Sublayer *s, double *R) { near(s, R, sublayer_key(s, "window") / 2); }

/* ---- weights that are products of features ---- */

/* Weights of a query: <fq_n, fk_j>, by their sum and eps; fq, fk (N,m) of a head. */
static void kernel(const Operands *o, double *R, int head, const double *fq, const double *fk,
                   int m, double eps) {
    for (int n = 0; n < o->N; n++) {
        double sum = eps;
        for (int j = 0; j < o->N; j++) sum += o->p[j] = oracle_dot(fq + n * m, fk + j * m, m);
        for (int j = 0; j < o->N; j++) o->p[j] /= sum;
        operands_mix(o, R, n, head, o->p);
    }
}

/* exp(<w_f, x> - |x|^2 / 2) of x e^-1/4: the paper's form, which double has the range for. */
static double *positive_features(const Operands *o, const double *x, const real *w, int head,
                                 int m) {
    const int e = o->e;
    double *f = oracle_doubles((size_t)(o->N * m));
    for (int n = 0; n < o->N; n++)
        for (int r = 0; r < m; r++) {
            double sum = 0;
            for (int i = 0; i < e; i++) {
                const double at = x[n * o->d + head * e + i] * pow(e, -0.25);
                sum += (double)w[(head * m + r) * e + i] * at - at * at / 2;
            }
            f[n * m + r] = exp(sum);
        }
    return f;
}

void oracle_performer(const Sublayer *s, double *R) {
    Operands o = operands_open(s);
    const int key = sublayer_key(s, "features");
    const int m = key > 0 ? key : (int)fmax(8, ceil(o.e * log(o.e)));
    for (int head = 0; head < o.h; head++) {
        double *fq = positive_features(&o, o.tq, sublayer_own(s, 0), head, m);
        double *fk = positive_features(&o, o.tk, sublayer_own(s, 0), head, m);
        kernel(&o, R, head, fq, fk, m, 0);
        free(fq), free(fk);
    }
    operands_close(&o);
}

static double *elu_plus_one(const Operands *o, const double *x, int head) {
    double *f = oracle_doubles((size_t)(o->N * o->e));
    for (int n = 0; n < o->N; n++)
        for (int i = 0; i < o->e; i++) {
            const double at = x[n * o->d + head * o->e + i];
            f[n * o->e + i] = at > 0 ? at + 1 : exp(at);
        }
    return f;
}

void oracle_linear(const Sublayer *s, double *R) {
    Operands o = operands_open(s);
    for (int head = 0; head < o.h; head++) {
        double *fq = elu_plus_one(&o, o.tq, head), *fk = elu_plus_one(&o, o.tk, head);
        kernel(&o, R, head, fq, fk, o.e, 1e-6);
        free(fq), free(fk);
    }
    operands_close(&o);
}

/* ---- keys and values in fewer rows ---- */

/* E x (rank,e) of a head, by the first N columns of E (rank,max). */
static double *shortened(const Operands *o, const double *x, const real *E, int head, int rank,
                         int max) {
    double *y = oracle_doubles((size_t)(rank * o->e));
    for (int r = 0; r < rank; r++)
        for (int n = 0; n < o->N; n++)
            for (int i = 0; i < o->e; i++)
                y[r * o->e + i] += (double)E[r * max + n] * x[n * o->d + head * o->e + i];
    return y;
}

void oracle_linformer(const Sublayer *s, double *R) {
    Operands o = operands_open(s);
    const int rank = sublayer_key(s, "rank"), max = ((const AttnShape *)s->self)->max_tokens;
    double *p = oracle_doubles((size_t)rank);
    for (int head = 0; head < o.h; head++) {
        double *k = shortened(&o, o.tk, sublayer_own(s, 0), head, rank, max);
        double *v = shortened(&o, o.v, sublayer_own(s, 0), head, rank, max);
        for (int n = 0; n < o.N; n++) {
            const int at = n * o.d + head * o.e;
            for (int r = 0; r < rank; r++)
                p[r] = oracle_dot(o.tq + at, k + r * o.e, o.e) / sqrt(o.e);
            oracle_softmax(p, rank);
            for (int r = 0; r < rank; r++)
                for (int i = 0; i < o.e; i++) R[at + i] += p[r] * v[r * o.e + i];
        }
        free(k), free(v);
    }
    free(p);
    operands_close(&o);
}

/* ---- landmarks ---- */

/* a (n,m) b (m,k) */
static double *product(const double *a, const double *b, int n, int m, int k) {
    double *y = oracle_doubles((size_t)(n * k));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int c = 0; c < k; c++) y[i * k + c] += a[i * m + j] * b[j * k + c];
    return y;
}

/* c I - a, in place of a (n,n). */
static void from_identity(double c, double *a, int n) {
    for (int i = 0; i < n * n; i++) a[i] = (i % (n + 1) == 0 ? c : 0) - a[i];
}

/* Rows of softmax(a b^T), a (n,e), b (m,e). */
static double *weights(const double *a, const double *b, int n, int m, int e) {
    double *p = oracle_doubles((size_t)(n * m));
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) p[i * m + j] = oracle_dot(a + i * e, b + j * e, e);
        oracle_softmax(p + i * m, m);
    }
    return p;
}

/* Of A (L,L): Z after so many steps. */
static double *pseudo_inverse(const double *A, int L, int steps) {
    double rows = 0, columns = 0;
    for (int i = 0; i < L; i++) {
        double row = 0, column = 0;
        for (int j = 0; j < L; j++) row += fabs(A[i * L + j]), column += fabs(A[j * L + i]);
        rows = fmax(rows, row), columns = fmax(columns, column);
    }
    double *Z = oracle_doubles((size_t)(L * L));
    for (int i = 0; i < L; i++)
        for (int j = 0; j < L; j++) Z[i * L + j] = A[j * L + i] / (columns * rows);
    for (int step = 0; step < steps; step++) {
        double *AZ = product(A, Z, L, L, L), *inner = product(A, Z, L, L, L);
        for (int c = 7; c <= 15; c += 8) { /* 7 I - A Z, 15 I - A Z that */
            from_identity(c, inner, L);
            double *next = product(AZ, inner, L, L, L);
            free(inner);
            inner = next;
        }
        from_identity(13, inner, L);
        double *next = product(Z, inner, L, L, L);
        for (int i = 0; i < L * L; i++) next[i] /= 4;
        free(AZ), free(inner), free(Z);
        Z = next;
    }
    return Z;
}

/* A head's rows of x, scaled; (N,e). */
static double *head_rows(const Operands *o, const double *x, int head, double scale) {
    double *y = oracle_doubles((size_t)(o->N * o->e));
    for (int n = 0; n < o->N; n++)
        for (int i = 0; i < o->e; i++) y[n * o->e + i] = scale * x[n * o->d + head * o->e + i];
    return y;
}

/* Means of L segments of x (N,e). */
static double *landmarks(const double *x, int N, int L, int e) {
    double *y = oracle_doubles((size_t)(L * e));
    for (int j = 0; j < L; j++) {
        const int first = j * N / L, end = (j + 1) * N / L;
        for (int n = first; n < end; n++)
            for (int i = 0; i < e; i++) y[j * e + i] += x[n * e + i] / (end - first);
    }
    return y;
}

/* R += F Z (B V) of a head. */
static void by_landmarks(const Sublayer *s, const Operands *o, double *R, int head, int L) {
    const int N = o->N, e = o->e;
    double *q = head_rows(o, o->tq, head, pow(e, -0.25)), *lq = landmarks(q, N, L, e);
    double *k = head_rows(o, o->tk, head, pow(e, -0.25)), *lk = landmarks(k, N, L, e);
    double *v = head_rows(o, o->v, head, 1);
    double *F = weights(q, lk, N, L, e), *A = weights(lq, lk, L, L, e),
           *B = weights(lq, k, L, N, e);
    double *Z = pseudo_inverse(A, L, sublayer_key(s, "pinv_iterations"));
    double *BV = product(B, v, L, N, e), *ZBV = product(Z, BV, L, L, e);
    double *y = product(F, ZBV, N, L, e);
    for (int n = 0; n < N; n++)
        for (int i = 0; i < e; i++) R[n * o->d + head * e + i] += y[n * e + i];
    free(q), free(lq), free(k), free(lk), free(v), free(F), free(A), free(B), free(Z);
    free(BV), free(ZBV), free(y);
}

/* R += conv(V) of a head. */
static void convolve(const Operands *o, double *R, const real *w, int head, int kernel_size) {
    for (int n = 0; n < o->N; n++)
        for (int t = 0; t < kernel_size; t++) {
            const int from = n + t - (kernel_size - 1) / 2;
            for (int i = head * o->e; i < (head + 1) * o->e && from >= 0 && from < o->N; i++)
                R[n * o->d + i] += (double)w[head * kernel_size + t] * o->v[from * o->d + i];
        }
}

void oracle_nystrom(const Sublayer *s, double *R) {
    const int L = sublayer_key(s, "landmarks"), size = sublayer_key(s, "conv_kernel");
    Operands o = operands_open(s);
    if (L >= o.N) oracle_full(s, R);
    for (int head = 0; head < o.h; head++) {
        if (L < o.N) by_landmarks(s, &o, R, head, L);
        if (size > 0) convolve(&o, R, sublayer_own(s, 0), head, size);
    }
    operands_close(&o);
}
