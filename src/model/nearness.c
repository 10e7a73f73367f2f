#include "model/nearness.h"

#include <math.h>
#include <string.h>

#include "attention/layer.h"
#include "core/gemm.h"
#include "ops/vec.h"
#include "ops/vmath.h"

enum { QUERIES = 64 };

/* ---- sums ---- */

void nearness_add(Nearness *sum, const Nearness *x) {
    sum->off += x->off, sum->all += x->all;
    sum->kept += x->kept, sum->queries += x->queries;
    sum->flops += x->flops, sum->exact += x->exact;
}

double nearness_error(const Nearness *x) { return sqrt(x->off / x->all); }
double nearness_kept(const Nearness *x) { return x->kept / x->queries; }
double nearness_flops(const Nearness *x) { return x->flops / x->exact; }

/* ---- one document ---- */

void nearness_layout(NearScratch *t, Arena *a, const Model *m) {
    const size_t N = (size_t)m->max_tokens, d = (size_t)m->conf.d, words = (N + 63) / 64;
    const AttnMemory need = attn_memory(m->mech, m->attn, m->max_tokens);
    t->memory.saved = arena_part(a, need.saved.used);
    t->memory.scratch = arena_part(a, need.scratch.used);
    t->memory.job = arena_part(a, need.job.used);
    t->seen =
        m->mech->subset ? arena_take(a, (size_t)m->conf.heads * N * words, sizeof *t->seen) : NULL;
    for (int i = 0; i < 3; i++) t->qkv[i] = arena_reals(a, N * d);
    t->r = arena_reals(a, N * d);
    t->eye = arena_reals(a, d * d);
    t->zero = arena_reals(a, d);
    t->scores = arena_reals(a, QUERIES * N);
    t->o = arena_reals(a, QUERIES * (size_t)m->e);
}

/* The mechanism's output, through the identity; and which keys were seen. */
static void run_mechanism(const Model *m, const NearScratch *t, AttnCall c, AttnTrace *trace) {
    const size_t words = ((size_t)c.N + 63) / 64;
    *trace = (AttnTrace){.stride = c.N, .seen = t->seen};
    if (t->seen) memset(t->seen, 0, (size_t)m->conf.heads * (size_t)c.N * words * sizeof *t->seen);
    memset(t->eye, 0, (size_t)c.d * (size_t)c.d * sizeof *t->eye);
    memset(t->zero, 0, (size_t)c.d * sizeof *t->zero);
    for (int i = 0; i < c.d; i++) t->eye[(size_t)i * ((size_t)c.d + 1)] = 1;
    c.proj[ATTN_O] = (AttnLinear){.w = t->eye, .wt = t->eye, .b = t->zero};
    c.Y = t->r, c.memory = t->memory, c.trace = trace;
    m->mech->forward(m->attn, &c);
}

/* Queries as keys: each divided by its norm; a zero query stays what it is. */
static void queries_as_keys(const Model *m, const NearScratch *t, int N) {
    const int e = m->e;
    for (size_t i = 0; i < (size_t)N * (size_t)m->conf.heads; i++) {
        const real *q = t->qkv[ATTN_Q] + i * (size_t)e;
        real *k = t->qkv[ATTN_K] + i * (size_t)e;
        const real square = vec_dot(q, q, e);
        for (int x = 0; x < e; x++) k[x] = square > 0 ? q[x] / REAL_SQRT(square) : 0;
    }
}

static void project(const Model *m, const NearScratch *t, const AttnCall *c) {
    AttnRows rows = {.qkv = {t->qkv[ATTN_Q], t->qkv[ATTN_K], t->qkv[ATTN_V]}};
    AttnCall in = *c;
    if (m->mech->keys_are_queries) rows.qkv[ATTN_K] = NULL;
    in.memory = t->memory;
    attn_project(&in, &rows, c->X, c->N);
    attn_turn(c, &rows, m->attn, c->N);
    if (m->mech->keys_are_queries) queries_as_keys(m, t, c->N);
}

/* Exact weights of a query from its scores, in place; returns how much the keys have that it sees.
 */
static double weights(const Model *m, real *s, const uint64_t *seen, int query, int N) {
    double kept = 0;
    const real tau = REAL_SQRT((real)m->e);
    for (int j = 0; j < N; j++) s[j] /= tau;
    if (m->mech->keys_are_queries && N > 1) s[query] = -INFINITY; /* its own key is itself */
    const real sum = vmath_exp_sum(s, s, vmath_max(s, N), N);
    for (int j = 0; j < N; j++) {
        s[j] /= sum;
        if (seen && seen[j / 64] >> j % 64 & 1) kept += (double)s[j];
    }
    return kept;
}

static void compare(Nearness *near, const real *r, const real *exact, int e) {
    for (int x = 0; x < e; x++) {
        const double off = (double)r[x] - (double)exact[x];
        near->off += off * off;
        near->all += (double)exact[x] * (double)exact[x];
    }
}

/* A head's queries n0 to n0 + n - 1. */
static void exact_tile(Nearness *near, const Model *m, const NearScratch *t, const AttnTrace *trace,
                       int head, int n0, int n) {
    const int d = m->conf.d, e = m->e, N = trace->stride, at = head * e;
    const size_t first = (size_t)n0 * (size_t)d + (size_t)at;
    gemm_nt(t->scores, N, t->qkv[ATTN_Q] + first, d, t->qkv[ATTN_K] + at, d, n, N, e, false);
    for (int i = 0; i < n; i++)
        near->kept += weights(m, t->scores + (size_t)i * (size_t)N,
                              t->seen ? attn_trace_seen(trace, head, n0 + i) : NULL, n0 + i, N);
    gemm_nn(t->o, e, t->scores, N, t->qkv[ATTN_V] + at, d, n, e, N, false);
    for (int i = 0; i < n; i++) compare(near, t->r + first + i * d, t->o + i * e, e);
}

void nearness_of(Nearness *near, const Pass *p, const NearScratch *t, int layer, const real *X,
                 int N) {
    const Model *m = p->m;
    AttnTrace trace;
    AttnCall c = encoder_attention(p, layer, NULL);
    c.N = N, c.X = X;
    run_mechanism(m, t, c, &trace);
    project(m, t, &c);
    for (int head = 0; head < m->conf.heads; head++) {
        near[head] = (Nearness){.kept = t->seen ? 0 : NAN, .queries = N};
        near[head].flops = m->mech->flops(m->attn, N);
        near[head].exact = attn_full.flops(m->attn, N);
        for (int n0 = 0, n; n0 < N; n0 += n) {
            n = N - n0 < QUERIES ? N - n0 : QUERIES;
            exact_tile(&near[head], m, t, &trace, head, n0, n);
        }
    }
}
