/* Nystromformer (Xiong, Zeng, Chakraborty, Tan, Fung, Li, Singh 2021, arXiv:2102.03902). Landmarks
 * Q~ and K~ are means of L segments of queries and of keys. Head by head, tau = sqrt(e):
 *   F = softmax(Q K~^T / tau) [N,L],  A = softmax(Q~ K~^T / tau) [L,L],  B = softmax(Q~ K^T / tau)
 *   R = F Z (B V) + conv(V),  Z about the inverse of A, by steps from Z = A^T / |A|_1:
 *   Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4
 * |A|_1 is the largest sum of a column, of that head's A alone: the reference's default takes it
 * over the batch and all heads. conv is depthwise over tokens, a filter a head, zeros beyond the
 * ends. Where there are as many landmarks as tokens attention is exact. Not a convex combination of
 * values: sharp scores give outputs far from full attention's, as the method does.
 * Time O(N L d + L^3), memory O(N d + L^2).
 * Saved for backward: R [N,d], B V [L,d], the log-sum-exp of each row of F and B, A and each step's
 * Z (pinverse.h); Q, K and V where kept. */
#include <math.h>
#include <string.h>

#include "attention/exact.h"
#include "attention/layer.h"
#include "attention/pinverse.h"
#include "core/gemm.h"
#include "ops/attnfn.h"
#include "ops/conv.h"
#include "ops/vec.h"

typedef struct Nystrom {
    AttnShape shape;
    int landmarks, pinv_iterations, conv_kernel;
} Nystrom;

#define AT(field) offsetof(Nystrom, field)
static const ConfigKey keys[] = {
    {"landmarks", KEY_INT, AT(landmarks), "128", 1, 4096, NULL,
     "segments whose means stand for queries and keys"},
    {"pinv_iterations", KEY_INT, AT(pinv_iterations), "6", 1, 10, NULL,
     "steps towards the inverse"},
    {"conv_kernel", KEY_INT, AT(conv_kernel), "35", 0, 1023, KEY_ODD_OR_0,
     "taps of the convolution of values; 0: none"},
    {0},
};

static int params(const void *self, ParamSpec *specs) {
    const Nystrom *s = self;
    const int taps = s->conv_kernel;
    if (specs && taps)
        specs[0] = (ParamSpec){"conv",
                               2,
                               {s->shape.h, taps},
                               {INIT_UNIFORM, 1 / sqrt(taps)},
                               PARAM_TRAINED | PARAM_DECAYED};
    return taps ? 1 : 0;
}

/* What comes of Q~ and K~, or of Q and K where there are landmarks enough. */
typedef struct State {
    const Nystrom *s;
    const AttnCall *call;
    int N, L;
    AttnRows rows;
    ExactPack queries; /* of Q on K~ and Z (B V), or on K and V; o is R, before conv */
    ExactPack marks;   /* of Q~ on K and V; o is B V */
    PInverse inverse;
    real *mean[2], *dmean[2]; /* (L,d) Q~ and K~, and their gradients */
    real *M, *dM;             /* (L,d) Z (B V) */
    real *taps, *dtaps;       /* (kernel,d) filters, a column each; (d,kernel) */
} State;

static bool is_exact(const Nystrom *s, int N) { return s->landmarks >= N; }

static void layout_marks(State *o, AttnMemory *m, bool backward) {
    const AttnShape *shape = &o->s->shape;
    const size_t L = (size_t)o->L, d = (size_t)shape->d;
    exact_layout(&o->marks, shape, m, o->L, o->N, backward, false);
    o->marks.p.o = arena_reals(&m->saved, attend_padded(o->L) * d);
    pinverse_layout(&o->inverse, m, shape->h, o->L, o->s->pinv_iterations, backward);
    for (int i = 0; i < 2; i++) o->mean[i] = arena_reals(&m->scratch, L * d);
    o->M = arena_reals(&m->scratch, L * d);
    if (!backward) return;
    for (int i = 0; i < 2; i++) {
        o->dmean[i] = arena_reals(&m->scratch, L * d);
        if (o->dmean[i]) memset(o->dmean[i], 0, L * d * sizeof(real));
    }
    o->dM = arena_reals(&m->scratch, L * d);
    if (o->dM) memset(o->dM, 0, L * d * sizeof *o->dM);
    for (int i = 0; i < 2; i++) arena_reals(&m->job, L * L); /* dZ, dA of a head */
}

static AttnMemory layout(State *o, const Nystrom *s, AttnMemory m, int N, bool backward) {
    const bool exact = is_exact(s, N);
    const size_t filters = (size_t)s->conv_kernel * (size_t)s->shape.d;
    o->s = s, o->N = N, o->L = exact ? N : s->landmarks;
    attn_layout_rows(&o->rows, &attn_nystrom, &s->shape, &m, N, backward);
    o->taps = arena_reals(&m.scratch, filters);
    o->dtaps = arena_reals(&m.scratch, backward ? filters : 0);
    exact_layout(&o->queries, &s->shape, &m, N, o->L, backward, true); /* conv is in R */
    o->queries.p.o = o->rows.r;
    if (!exact) layout_marks(o, &m, backward);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    const Nystrom *s = self;
    const AttnMemory all = layout(&(State){0}, s, (AttnMemory){0}, N, backward);
    if (is_exact(s, N)) return all;
    return attn_either(all, layout(&(State){0}, s, (AttnMemory){0}, s->landmarks, backward));
}

/* ---- landmarks ---- */

/* Segment j is of tokens from..to-1. */
static int segment_from(const State *o, int j) { return (int)((int64_t)j * o->N / o->L); }

static void mean_of(const void *ctx, int j, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, from = segment_from(o, j), to = segment_from(o, j + 1);
    for (int i = 0; i < 2; i++) {
        real *mean = o->mean[i] + j * d;
        memset(mean, 0, (size_t)d * sizeof *mean);
        for (int n = from; n < to; n++)
            vec_add(mean, mean, o->rows.qkv[i] + (size_t)n * (size_t)d, d);
        for (int x = 0; x < d; x++) mean[x] /= (real)(to - from);
    }
}

static void mean_backward(const void *ctx, int j, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, from = segment_from(o, j), to = segment_from(o, j + 1);
    const real share = 1 / (real)(to - from);
    for (int i = 0; i < 2; i++)
        for (int n = from; n < to; n++) {
            real *to_row = o->rows.dqkv[i] + (size_t)n * (size_t)d;
            vec_add_scaled(to_row, o->dmean[i] + j * d, share, d);
        }
}

static real inv_tau(const State *o) { return (real)(1 / sqrt((double)o->s->shape.e)); }

/* A head's A, its inverse, and Z (B V). */
static void inverse_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, at = head * o->s->shape.e, L = o->L;
    real *A = pinverse_input(&o->inverse, head);
    gemm_nt(A, L, o->mean[0] + at, d, o->mean[1] + at, d, L, L, o->s->shape.e, false);
    for (int i = 0; i < L * L; i++) A[i] *= inv_tau(o);
    attnfn_forward(ATTN_SOFTMAX, A, A, L, L);
    pinverse_forward(&o->inverse, head, scratch);
}

static void values_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, e = o->s->shape.e, at = head * e, L = o->L;
    gemm_nn(o->M + at, d, pinverse_output(&o->inverse, head), L, o->marks.p.o + at, d, L, e, L,
            false);
}

/* From dM: d(B V) = Z^T dM, in place of M, which is packed; dZ = dM (B V)^T, and on through A to Q~
 * and K~. */
static void inverse_backward_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, e = o->s->shape.e, at = head * e, L = o->L;
    const size_t square = (size_t)L * (size_t)L;
    real *dZ = arena_reals(&scratch, square), *dA = arena_reals(&scratch, square);
    gemm_tn(o->M + at, d, pinverse_output(&o->inverse, head), L, o->dM + at, d, L, e, L, false);
    gemm_nt(dZ, L, o->dM + at, d, o->marks.p.o + at, d, L, L, e, false);
    pinverse_backward(&o->inverse, head, dA, dZ, scratch);
    real *dS = memset(dZ, 0, square * sizeof *dZ);
    attnfn_backward(ATTN_SOFTMAX, dS, dA, pinverse_input(&o->inverse, head), NULL, L, L);
    for (int i = 0; i < L * L; i++) dS[i] *= inv_tau(o);
    gemm_nn(o->dmean[0] + at, d, dS, L, o->mean[1] + at, d, L, e, L, true);
    gemm_tn(o->dmean[1] + at, d, dS, L, o->mean[0] + at, d, L, e, L, true);
}

/* ---- conv ---- */

/* The head's filter for each of its columns. */
static void spread_taps(const State *o) {
    const int d = o->s->shape.d, taps = o->s->conv_kernel;
    for (int t = 0; t < taps; t++)
        for (int i = 0; i < d; i++)
            o->taps[t * d + i] = attn_own(o->call, 0)[i / o->s->shape.e * taps + t];
}

static void conv_tile(const void *ctx, int tile, Arena scratch) {
    const State *o = ctx;
    conv_add(o->rows.r, o->rows.qkv[ATTN_V], o->taps, o->s->conv_kernel, 1, tile * ATTN_TILE,
             attn_tile_rows(o->N, tile), o->N, o->s->shape.d);
}

static void conv_backward_tile(const void *ctx, int tile, Arena scratch) {
    const State *o = ctx;
    conv_add(o->rows.dqkv[ATTN_V], o->rows.dr, o->taps, o->s->conv_kernel, -1, tile * ATTN_TILE,
             attn_tile_rows(o->N, tile), o->N, o->s->shape.d);
}

static void conv_backward(const State *o) {
    const int d = o->s->shape.d, taps = o->s->conv_kernel;
    if (!taps) return;
    attn_each(o->call, attn_tiles(o->N), conv_backward_tile, NULL, o);
    memset(o->dtaps, 0, (size_t)(d * taps) * sizeof *o->dtaps);
    conv_backward_weight(o->dtaps, o->rows.dr, o->rows.qkv[ATTN_V], taps, 0, d, o->N, d);
    for (int i = 0; i < d; i++)
        for (int t = 0; t < taps; t++)
            attn_own_grad(o->call, 0)[i / o->s->shape.e * taps + t] += o->dtaps[i * taps + t];
}

/* ---- the sublayer ---- */

static void open(State *o, const Nystrom *s, const AttnCall *c, bool backward) {
    real *const *qkv = o->rows.qkv;
    layout(o, s, c->memory, c->N, backward);
    o->call = c;
    attn_open_rows(c, &o->rows, &s->shape, backward);
    if (s->conv_kernel) spread_taps(o);
    attend_pack_queries(&o->queries.p, qkv[ATTN_Q], NULL, c->N);
    if (is_exact(s, c->N)) {
        attend_pack_keys(&o->queries.p, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
        return;
    }
    attn_each(c, o->L, mean_of, NULL, o);
    attend_pack_queries(&o->marks.p, o->mean[0], NULL, o->L);
    attend_pack_keys(&o->marks.p, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
    if (!backward) {
        exact_attend(c, &o->marks);
        attn_each(c, s->shape.h, inverse_head, NULL, o);
    }
    attn_each(c, s->shape.h, values_head, NULL, o);
    attend_pack_keys(&o->queries.p, o->mean[1], o->M, NULL, o->L);
}

static void tell(const State *o, AttnTrace *trace) {
    for (int head = 0; head < o->s->shape.h; head++)
        attn_trace_choice(trace, head, pinverse_column(&o->inverse, head));
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    if (c->trace && !is_exact(o.s, c->N)) tell(&o, c->trace);
    exact_attend(c, &o.queries);
    if (o.s->conv_kernel) attn_each(c, attn_tiles(c->N), conv_tile, NULL, &o);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

static void marks_backward(State *o) {
    const AttnCall *c = o->call;
    real *const *dqkv = o->rows.dqkv;
    attend_unpack(&o->queries.p, dqkv[ATTN_Q], o->dmean[1], o->dM);
    attn_each(c, o->s->shape.h, inverse_backward_head, NULL, o);
    attend_pack_backward(&o->marks.p, o->M);
    exact_attend_backward(c, &o->marks);
    attend_unpack(&o->marks.p, o->dmean[0], dqkv[ATTN_K], dqkv[ATTN_V]);
    attn_each(c, o->L, mean_backward, NULL, o);
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    real *const *dqkv = o.rows.dqkv;
    attn_output_backward(c, &o.rows, c->dY, c->N);
    attend_pack_backward(&o.queries.p, o.rows.dr);
    exact_attend_backward(c, &o.queries);
    if (is_exact(o.s, c->N))
        attend_unpack(&o.queries.p, dqkv[ATTN_Q], dqkv[ATTN_K], dqkv[ATTN_V]);
    else
        marks_backward(&o);
    conv_backward(&o);
    attn_close_rows(c, &o.rows, &o.s->shape);
}

/* F and B with their values; A, the steps of Z, four products each, and Z (B V); conv. */
static double flops(const void *self, int N) {
    const Nystrom *s = self;
    const double n = N, L = s->landmarks, d = s->shape.d, conv = n * s->conv_kernel * d;
    if (is_exact(s, N)) return 2 * (2 * n * n * d + conv);
    const double inverse = 4 * s->pinv_iterations * L * L * L * s->shape.h;
    return 2 * (4 * n * L * d + 2 * L * L * d + inverse + conv);
}

const AttnMech attn_nystrom = {
    .name = "nystrom",
    .title = "softmax by landmarks and an inverse, and a convolution of values",
    .time = "O(N L + L^3) for L landmarks",
    .memory = "O(N + L^2)",
    .swap = "with conv_kernel=0",
    .reference = "arXiv:2102.03902",
    .projections = ATTN_QKVO,
    .keys = keys,
    .self_size = sizeof(Nystrom),
    .params = params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
