/* Every mechanism against its definition, written out in double and as plainly as can be. A row of
 * attn_table without one here is an error. MECHANISM=name: that one alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/cast_state.h"
#include "gradcheck.h"
#include "sublayer.h"

#define BAR (sizeof(real) == 8 ? 1e-12 : 3e-5)

/* R (N,d) of the case. */
typedef void Oracle(const Sublayer *s, double *R);

static void *must(void *p) {
    if (!p) abort();
    return p;
}
static double *doubles(size_t n) { return must(calloc(n ? n : 1, sizeof(double))); }

/* x W^T + b, x (N,d). */
static double *projected(const Sublayer *s, const double *x, AttnProjection p) {
    const real *w = sublayer_linear(s, p, 0), *b = sublayer_linear(s, p, 1);
    const int d = s->d;
    double *y = doubles((size_t)(s->N * d));
    for (int n = 0; n < s->N; n++)
        for (int i = 0; i < d; i++) {
            y[n * d + i] = (double)b[i];
            for (int j = 0; j < d; j++) y[n * d + i] += x[n * d + j] * (double)w[i * d + j];
        }
    return y;
}

static double *input(const Sublayer *s) {
    double *x = doubles((size_t)(s->N * s->d));
    for (int i = 0; i < s->N * s->d; i++) x[i] = (double)s->X[i];
    return x;
}

/* Queries or keys as they multiply each other: pairs of columns turned, where positions are rotary.
 */
static double *turned(const Sublayer *s, const double *x) {
    const int N = s->N, d = s->d, e = ((const AttnShape *)s->self)->e;
    double *y = doubles((size_t)(N * d));
    memcpy(y, x, (size_t)(N * d) * sizeof *y);
    for (int n = 0; n < N && s->rope; n++)
        for (int j = 0; j < d; j += 2) {
            const double angle = n * pow(10000, -(j % e) / (double)e), *in = x + n * d + j;
            y[n * d + j] = in[0] * cos(angle) - in[1] * sin(angle);
            y[n * d + j + 1] = in[0] * sin(angle) + in[1] * cos(angle);
        }
    return y;
}

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void softmax(double *x, int n) {
    double top = x[0], sum = 0;
    for (int i = 1; i < n; i++) top = fmax(top, x[i]);
    for (int i = 0; i < n; i++) sum += x[i] = exp(x[i] - top);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

static double laplace(double x) { return erfc((sqrt(0.5) - x) * sqrt(2 * acos(-1))) / 2; }

/* ---- exact attention ---- */

static void exact(const Sublayer *s, double *R) {
    const AttnShape *shape = s->self;
    const int N = s->N, d = s->d, e = shape->e;
    double *x = input(s), *q0 = projected(s, x, ATTN_Q), *k0 = projected(s, x, ATTN_K),
           *q = turned(s, q0), *k = turned(s, k0), *v = projected(s, x, ATTN_V),
           *p = doubles((size_t)N);
    for (int n = 0; n < N; n++)
        for (int at = 0; at < d; at += e) {
            for (int j = 0; j < N; j++) p[j] = dot(q + n * d + at, k + j * d + at, e) / sqrt(e);
            softmax(p, N);
            for (int j = 0; j < N; j++)
                for (int i = 0; i < e; i++) R[n * d + at + i] += p[j] * v[j * d + at + i];
        }
    free(x), free(q0), free(k0), free(q), free(k), free(v), free(p);
}

/* ---- CAST, docs/method.md, steps 1 to 8, at the clusters that it reports ---- */

typedef struct CastOracle {
    const Cast *s;
    int N, d, C, slots, *clusters;
    double *x, *q, *k, *v, *phi;
    double *turned_q, *turned_k; /* what multiplies each other */
    const real *S;
} CastOracle;

static double softplus1(double x) { return 1 + log1p(exp(x)); }

static void apply(const CastOracle *o, double *x, int n) {
    if (!o->s->fn) softmax(x, n);
    for (int i = 0; i < n && o->s->fn; i++) x[i] = laplace(x[i]);
}

/* <x[n,head], S[c,head]> */
static double score(const CastOracle *o, const double *x, int n, int c, int head) {
    const int at = head * o->s->shape.e;
    double sum = 0;
    for (int i = 0; i < o->s->shape.e; i++)
        sum += x[n * o->d + at + i] * (double)o->S[c * o->d + at + i];
    return sum;
}

static int members(const CastOracle *o, int c) {
    int m = 0;
    while (m < o->slots && o->clusters[c * o->slots + m] >= 0) m++;
    return m;
}

static bool holds(const CastOracle *o, int c, int n) {
    for (int i = 0; i < members(o, c); i++)
        if (o->clusters[c * o->slots + i] == n) return true;
    return false;
}

/* R += A_sum R_intra of the members, A_sum R_inter of others. */
static void add_cluster(const CastOracle *o, const double *mix, int c, int head, double *R) {
    const int m = members(o, c), *list = o->clusters + c * o->slots, e = o->s->shape.e,
              at = head * e, d = o->d;
    const double tau = sqrt(e);
    double *p = doubles((size_t)m), *summary = doubles((size_t)e);
    for (int i = 0; i < m; i++)
        p[i] = score(o, o->k, list[i], c, head) * softplus1(-o->phi[list[i]]) / tau;
    if (m) apply(o, p, m);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < e; j++) summary[j] += p[i] * o->v[list[i] * d + at + j];
    for (int i = 0; i < m && o->s->intra; i++) {
        for (int j = 0; j < m; j++)
            p[j] = dot(o->turned_q + list[i] * d + at, o->turned_k + list[j] * d + at, e) / tau;
        apply(o, p, m);
        for (int j = 0; j < m; j++)
            for (int x = 0; x < e; x++)
                R[list[i] * d + at + x] +=
                    mix[list[i] * o->C + c] * p[j] * o->v[list[j] * d + at + x];
    }
    for (int n = 0; n < o->N && o->s->summaries; n++)
        for (int x = 0; x < e && !holds(o, c, n); x++)
            R[n * d + at + x] += mix[n * o->C + c] * summary[x];
    free(p), free(summary);
}

static void cast(const Sublayer *s, double *R) {
    CastOracle o = {.s = s->self, .N = s->N, .d = s->d, .clusters = s->trace.clusters};
    s->mech->clusters(s->self, &o.C, &o.slots);
    o.x = input(s), o.S = sublayer_own(s, SURROGATE), o.phi = doubles((size_t)o.N);
    o.q = projected(s, o.x, ATTN_Q), o.k = projected(s, o.x, ATTN_K);
    o.v = projected(s, o.x, ATTN_V);
    o.turned_q = turned(s, o.q), o.turned_k = turned(s, o.k);
    for (int n = 0; n < o.N; n++) {
        o.phi[n] = (double)*sublayer_own(s, PHI_BIAS);
        for (int i = 0; i < o.d; i++)
            o.phi[n] += o.x[n * o.d + i] * (double)sublayer_own(s, PHI_WEIGHT)[i];
    }
    double *mix = doubles((size_t)(o.N * o.C));
    for (int head = 0; head < o.s->shape.h; head++) {
        for (int n = 0; n < o.N; n++) {
            for (int c = 0; c < o.C; c++)
                mix[n * o.C + c] =
                    score(&o, o.q, n, c, head) * softplus1(o.phi[n]) / sqrt(o.s->shape.e);
            apply(&o, mix + n * o.C, o.C);
        }
        for (int c = 0; c < o.C; c++) add_cluster(&o, mix, c, head, R);
    }
    free(o.turned_q), free(o.turned_k);
    free(o.x), free(o.q), free(o.k), free(o.v), free(o.phi), free(mix);
}

/* ---- every mechanism ---- */

static const struct {
    const AttnMech *mech;
    Oracle *oracle;
} oracles[] = {{&attn_cast, cast}, {&attn_full, exact}, {&attn_naive, exact}};

static Oracle *oracle_of(const AttnMech *m) {
    for (size_t i = 0; i < sizeof oracles / sizeof *oracles; i++)
        if (oracles[i].mech == m) return oracles[i].oracle;
    fail_msg("%s has no oracle in tests/attention/test_oracle.c", m->name);
    return NULL;
}

static void compare(const Sublayer *s, const char *what) {
    double *R = doubles((size_t)(s->N * s->d)), worst = 0, most = 1;
    oracle_of(s->mech)(s, R);
    double *Y = projected(s, R, ATTN_O);
    for (int i = 0; i < s->N * s->d; i++) {
        const double off = fabs((double)s->Y[i] - Y[i]);
        if (worst == worst && !(off <= worst)) worst = off; /* NaN stays */
        most = fmax(most, fabs(Y[i]));
    }
    if (!(worst <= BAR * most))
        fail_msg("%s, N %d: Y is off by %.2g of %.2g", what, s->N, worst, most);
    free(R), free(Y);
}

/* False: the mechanism refuses the variant. */
static bool check(const AttnMech *m, int variant, int N, int h, int e, MechSizes sizes, bool rope) {
    const AttnShape shape = {h * e, h, e, N + 4, N + 3, N % 2};
    char text[MECH_TEXT];
    Err err;
    int C = 0, k = 0;
    mech_print(text, m, variant, sizes);
    void *self = mech_open(m, text, &shape, &err);
    if (!self) return false;
    Draws d = draws_open("oracle", (uint64_t)(variant * 1000 + N));
    Sublayer s;
    sublayer_open(&s, m, self, N, &d);
    if (rope) sublayer_turn(&s);
    if (m->clusters) m->clusters(self, &C, &k);
    s.trace.clusters = C ? must(malloc((size_t)(C * k) * sizeof(int))) : NULL;
    sublayer_forward(&s);
    compare(&s, text);
    free(s.trace.clusters);
    sublayer_close(&s);
    free(self);
    return true;
}

/* Around vectors, blocks and tiles, and longer than any of them. */
static void every_mechanism_is_its_definition(void **state) {
    (void)state;
    static const int lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 130, 257, 300};
    for (int i = 0; attn_table[i]; i++) {
        int variants = 0;
        if (!mech_wanted(attn_table[i])) continue;
        for (int v = 0; v < mech_variants(attn_table[i]); v++)
            for (int n = 0; n < (int)(sizeof lengths / sizeof *lengths); n++) {
                const int N = lengths[n];
                /* its numbers: small ones, and as many as there are tokens */
                const MechSizes sizes = {n % 2 ? 1 + n % 6 : N, 1 + N / 3};
                variants += check(attn_table[i], v, N, 1 + n % 3, 1 + n % 5, sizes, false);
                variants += check(attn_table[i], v, N, 1 + n % 3, 2 + n % 3 * 2, sizes, true);
            }
        assert_true(variants > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mechanism_is_its_definition)};
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
