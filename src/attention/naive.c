/* Exact softmax attention with the N x N matrix of probabilities written out and kept for the
 * backward pass, as the papers' Transformer baseline does.
 *   P = softmax(Q K^T / tau), R = P V, head by head; Y = R W_o^T + b_o. Time O(N^2 d), memory
 *   O(h N^2).
 * Saved for backward: P [h,N,N] and R [N,d]; Q, K and V where kept. */
#include <math.h>
#include <string.h>

#include "attention/exact.h"
#include "attention/layer.h"
#include "core/gemm.h"
#include "ops/attnfn.h"

typedef struct Naive {
    const AttnShape *s;
    AttnRows rows;
    real *P;
    int N;
} Naive;

static size_t square(int N) { return (size_t)N * (size_t)N; }

static AttnMemory layout(Naive *o, const AttnShape *s, AttnMemory m, int N, bool backward) {
    o->s = s, o->N = N;
    attn_layout_rows(&o->rows, &attn_naive, s, &m, N, backward);
    o->P = arena_reals(&m.saved, square(N) * (size_t)s->h);
    for (int i = 0; i < 2 && backward; i++) arena_reals(&m.job, square(N));
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    return layout(&(Naive){0}, self, (AttnMemory){0}, N, backward);
}

static void scale(real *x, real f, size_t n) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) x[i] *= f;
}

static void forward_head(const void *ctx, int head, Arena scratch) {
    const Naive *o = ctx;
    const int N = o->N, d = o->s->d, e = o->s->e, at = head * e;
    real *P = o->P + (size_t)head * square(N);
    gemm_nt(P, N, o->rows.qkv[ATTN_Q] + at, d, o->rows.qkv[ATTN_K] + at, d, N, N, e, false);
    scale(P, (real)(1 / sqrt((double)e)), square(N));
    attnfn_forward(ATTN_SOFTMAX, P, P, N, N);
    gemm_nn(o->rows.r + at, d, P, N, o->rows.qkv[ATTN_V] + at, d, N, e, N, false);
}

/* dP = dR V^T, dS = softmax'(P) dP, dQ = dS K / tau, dK = dS^T Q / tau, dV = P^T dR. */
static void backward_head(const void *ctx, int head, Arena scratch) {
    const Naive *o = ctx;
    const int N = o->N, d = o->s->d, e = o->s->e, at = head * e;
    const real *P = o->P + (size_t)head * square(N);
    real *dP = arena_reals(&scratch, square(N)), *dS = arena_reals(&scratch, square(N));
    gemm_nt(dP, N, o->rows.dr + at, d, o->rows.qkv[ATTN_V] + at, d, N, N, e, false);
    memset(dS, 0, square(N) * sizeof *dS);
    attnfn_backward(ATTN_SOFTMAX, dS, dP, P, NULL, N, N);
    scale(dS, (real)(1 / sqrt((double)e)), square(N));
    gemm_nn(o->rows.dqkv[ATTN_Q] + at, d, dS, N, o->rows.qkv[ATTN_K] + at, d, N, e, N, true);
    gemm_tn(o->rows.dqkv[ATTN_K] + at, d, dS, N, o->rows.qkv[ATTN_Q] + at, d, N, e, N, true);
    gemm_tn(o->rows.dqkv[ATTN_V] + at, d, P, N, o->rows.dr + at, d, N, e, N, true);
}

static void forward(const void *self, const AttnCall *c) {
    Naive o;
    layout(&o, self, c->memory, c->N, false);
    attn_open_rows(c, &o.rows, o.s, false);
    attn_each(c, o.s->h, forward_head, NULL, &o);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

static void backward(const void *self, const AttnCall *c) {
    Naive o;
    layout(&o, self, c->memory, c->N, true);
    attn_open_rows(c, &o.rows, o.s, true);
    attn_output_backward(c, &o.rows, c->dY, c->N);
    attn_each(c, o.s->h, backward_head, NULL, &o);
    attn_close_rows(c, &o.rows, o.s);
}

static double flops(const void *self, int N) { return exact_flops(self, ATTEND_ALL, N); }

const AttnMech attn_naive = {
    .name = "naive",
    .title = "exact softmax attention with the N x N matrix kept, as the papers' baseline has it",
    .time = "O(N^2)",
    .memory = "O(N^2)",
    .reference = "arXiv:1706.03762",
    .projections = ATTN_QKVO,
    .self_size = sizeof(AttnShape),
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
