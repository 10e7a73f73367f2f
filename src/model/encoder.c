#include "model/encoder.h"

#include <string.h>

#include "attention/layer.h"
#include "core/lanes.h"
#include "core/log.h"
#include "model/embedding.h"
#include "model/normalize.h"
#include "ops/conv.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

/* ---- memory ---- */

void encoder_layout(EncoderScratch *t, Arena *a, const Model *m) {
    const size_t rows = (size_t)m->max_tokens * (size_t)m->conf.d;
    t->x = arena_reals(a, rows);
    t->dx = arena_reals(a, rows);
    t->convolved = m->conf.conv ? arena_reals(a, rows) : NULL;
    t->dy = model_dropout(m, DROPOUT_ATTENTION) > 0 ? arena_reals(a, rows) : NULL;
    t->embedding = doc_keeps_embedding(m) ? NULL : arena_reals(a, rows);
    t->attn = arena_part(a, attn_memory(m->mech, m->attn, m->max_tokens).scratch.used);
}

/* ---- the map of segments ---- */

SegmentPart segment_part(const Model *m, int segment) {
    const int sublayer = m->conf.pre_norm ? segment - 1 : segment;
    if (segment == m->nsegments - 1) return PART_POOLING;
    return sublayer < 0 ? PART_EMBEDDING : sublayer % 2 ? PART_FEED_FORWARD : PART_ATTENTION;
}

/* The block of a segment with attention or feed-forward. */
static int block_of(const Model *m, int segment) {
    return (m->conf.pre_norm ? segment - 1 : segment) / 2;
}

/* The stream that a segment starts from: the input of its norm. */
static real *input_of(const Model *m, const Doc *doc, int segment) {
    return doc->stream[m->conf.pre_norm ? segment - 1 : segment];
}

real *segment_output(const Model *m, const Doc *doc, int segment) {
    return doc->stream[m->conf.pre_norm ? segment : segment + 1];
}

/* Rows r0.. of what a segment's norm reads, and of what its sublayer leaves. */
static real *input_rows(const Segment *s, int r0) {
    return tile_rows(input_of(s->p->m, s->doc, s->segment), r0, s->p->m->conf.d);
}

static real *output_rows(const Segment *s, int r0) {
    return tile_rows(segment_output(s->p->m, s->doc, s->segment), r0, s->p->m->conf.d);
}

/* What a segment's sublayer reads, rows r0..r0+n-1: the norm of its input, written to `to`; or, in
 * segment 0, the embedding itself. The norm is made again in the backward pass. */
static const real *sublayer_input(const Segment *s, int r0, int n, real *to) {
    real *in = input_rows(s, r0);
    NormRows *const norm = s->dw ? norm_again : norm_forward;
    if (s->segment == 0) return in;
    norm(s->p, s->doc, s->segment - 1, to, in, r0, n);
    return to;
}

/* Once s->t->dx holds the gradient that the sublayer sends to its input, rows r0..r0+n-1: in
 * post-norm the residual joins it. */
static void join_input(const Segment *s, int r0, int n, const TileScratch *t) {
    const int d = s->p->m->conf.d;
    real *grad = tile_rows(s->doc->grad, r0, d), *dx = tile_rows(s->t->dx, r0, d);
    if (s->p->m->conf.pre_norm) return;
    vec_add(dx, dx, grad, n * d);
    memset(grad, 0, (size_t)(n * d) * sizeof *grad);
}

/* After join_input: s->t->dx goes back through the norm into doc->grad. */
static void input_backward(const Segment *s, int r0, int n, const TileScratch *t) {
    const int d = s->p->m->conf.d;
    if (s->segment > 0)
        norm_backward(s->p, s->doc, s->segment - 1, tile_rows(s->doc->grad, r0, d),
                      tile_rows(s->t->dx, r0, d), input_rows(s, r0), r0, n, s->dw);
}

/* ---- attention ---- */

AttnCall encoder_attention(const Pass *p, int layer, real *dw) {
    const BlockAt *at = &p->m->blocks[layer];
    AttnCall c = {.d = p->m->conf.d, .w = p->w, .dw = dw, .own = at->own, .rope = p->m->rope};
    for (int i = 0; i < ATTN_PROJECTIONS; i++) {
        const LinearAt *l = &at->attn[i];
        if (!(p->m->mech->projections & ATTN_HAS(i))) continue;
        c.proj[i] = (AttnLinear){p->w + l->w, p->wt + l->w, p->w + l->b, NULL, NULL};
        if (dw) c.proj[i].dw = dw + l->w, c.proj[i].db = dw + l->b;
    }
    return c;
}

static AttnCall attention_call(const Segment *s) {
    const Doc *doc = s->doc;
    AttnCall c = encoder_attention(s->p, s->layer, s->dw);
    c.N = doc->N;
    c.memory = (AttnMemory){.saved = doc->blocks[s->layer].attn, .scratch = s->t->attn};
    c.jobs = s->t->jobs;
    c.trace = doc->trace ? &doc->trace[s->layer] : NULL;
    c.meter = doc->meter;
    return c;
}

static void run_mechanism(const Model *m, void pass(const void *, const AttnCall *),
                          const AttnCall *c) {
    const double start = c->meter ? clock_seconds() : 0;
    pass(m->attn, c);
    if (c->meter) c->meter->seconds += clock_seconds() - start;
}

/* The input of attention: in memory of the stream, or made in s->t->x. */
static const real *attention_input(const Segment *s) {
    return s->segment == 0 ? s->doc->stream[0] : s->t->x;
}

static void input_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    sublayer_input(s, r0, n, tile_rows(s->t->x, r0, s->p->m->conf.d));
}

static const real *taps_of(const Segment *s) { return s->p->wt + s->p->m->blocks[s->layer].conv; }

static void convolve_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const ModelConf *m = &s->p->m->conf;
    conv_forward(s->t->convolved, attention_input(s), taps_of(s), m->conv, r0, n, s->doc->N, m->d);
}

/* Makes the input of attention, and returns what the mechanism reads. */
static const real *make_input(const Segment *s) {
    tiles_share(s, input_tile, NULL);
    if (!s->p->m->conf.conv) return attention_input(s);
    tiles_share(s, convolve_tile, NULL);
    return s->t->convolved;
}

/* Whether the residual connection keeps what the convolution adds to u, the input of attention. In
 * pre-norm that is not in the stream x: x + (v - u) + attention(v), v what the mechanism reads; in
 * post-norm, where x is u, v + attention(v). */
static bool keeps_convolution(const Segment *s) { return s->p->m->conf.conv_residual; }

static void keep_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const int d = s->p->m->conf.d;
    real *restrict y = output_rows(s, r0);
    const real *v = tile_rows(s->t->convolved, r0, d), *u = tile_rows(s->t->x, r0, d);
#pragma omp simd
    for (int i = 0; i < n * d; i++) y[i] += v[i] - u[i];
}

/* The gradient of v takes that of the output; of u alone, in pre-norm, it is taken away again. */
static void keep_backward_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const int d = s->p->m->conf.d;
    real *grad = tile_rows(s->doc->grad, r0, d), *dv = tile_rows(s->t->dx, r0, d);
    vec_add(dv, grad, dv, n * d);
    if (!s->p->m->conf.pre_norm) memset(grad, 0, (size_t)(n * d) * sizeof *grad);
}

/* Columns whose taps one job takes. */
enum { COLUMNS = 16 };

static void taps_backward(const void *ctx, int job, int thread) {
    const Segment *s = ctx;
    const Model *m = s->p->m;
    const int from = job * COLUMNS, rest = m->conf.d - from;
    conv_backward_weight(s->dw + m->blocks[s->layer].conv, s->t->dx, attention_input(s),
                         m->conf.conv, from, rest < COLUMNS ? rest : COLUMNS, s->doc->N, m->conf.d);
}

static void convolve_backward_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const ModelConf *m = &s->p->m->conf;
    conv_backward_input(s->t->convolved, s->t->dx, taps_of(s), m->conv, r0, n, s->doc->N, m->d);
    if (keeps_convolution(s) && m->pre_norm)
        vec_add_scaled(tile_rows(s->t->convolved, r0, m->d), tile_rows(s->doc->grad, r0, m->d), -1,
                       n * m->d);
}

/* From t->dx, of what the mechanism read, to t->dx of the input of attention. */
static void convolve_backward(const Segment *s) {
    EncoderScratch *t = s->t;
    real *dx = t->convolved;
    if (!s->p->m->conf.conv) return;
    if (keeps_convolution(s)) tiles_share(s, keep_backward_tile, NULL);
    lanes_share((s->p->m->conf.d + COLUMNS - 1) / COLUMNS, taps_backward, NULL, s);
    tiles_share(s, convolve_backward_tile, NULL);
    t->convolved = t->dx, t->dx = dx;
}

static const real *attention_residual(const Segment *s) {
    if (s->p->m->conf.pre_norm) return input_rows(s, 0);
    return keeps_convolution(s) ? s->t->convolved : attention_input(s);
}

static void drop_output_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const int d = s->p->m->conf.d;
    real *y = output_rows(s, r0);
    doc_drop(s->p, s->doc, DROPOUT_ATTENTION, s->layer, y, r0, n, d);
    vec_add(y, attention_residual(s) + (size_t)r0 * (size_t)d, y, n * d);
}

static void attention_forward(const Segment *s) {
    const Model *m = s->p->m;
    const bool drops = doc_drops(s->p, DROPOUT_ATTENTION);
    AttnCall c = attention_call(s);
    c.X = make_input(s);
    c.Y = output_rows(s, 0);
    if (c.trace) c.trace->digest = 0;
    if (c.trace && c.trace->input)
        memcpy(c.trace->input, c.X, (size_t)c.N * (size_t)m->conf.d * sizeof *c.X);
    if (!drops) c.base = attention_residual(s); /* else dropout comes between */
    run_mechanism(m, m->mech->forward, &c);
    if (drops) tiles_share(s, drop_output_tile, NULL);
    if (keeps_convolution(s) && m->conf.pre_norm) tiles_share(s, keep_tile, NULL);
}

static void drop_gradient_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const int d = s->p->m->conf.d;
    real *dy = tile_rows(s->t->dy, r0, d);
    memcpy(dy, tile_rows(s->doc->grad, r0, d), (size_t)(n * d) * sizeof *dy);
    doc_drop(s->p, s->doc, DROPOUT_ATTENTION, s->layer, dy, r0, n, d);
}

static void attention_backward(const Segment *s) {
    const Model *m = s->p->m;
    AttnCall c = attention_call(s);
    c.X = make_input(s);
    c.dY = s->doc->grad;
    c.dX = s->t->dx;
    if (doc_drops(s->p, DROPOUT_ATTENTION)) {
        tiles_share(s, drop_gradient_tile, NULL);
        c.dY = s->t->dy;
    }
    run_mechanism(m, m->mech->backward, &c);
    convolve_backward(s);
    tiles_share(s, join_input, input_backward);
}

/* ---- feed-forward ---- */

/* out = residual + dropout(linear(x)); y is scratch for dropout. */
static void add_residual(const Segment *s, real *restrict out, const real *restrict residual,
                         const real *x, real *restrict y, int r0, int n) {
    const Pass *p = s->p;
    const LinearAt *at = &p->m->blocks[s->layer].fc2;
    const int d = p->m->conf.d, F = p->m->conf.d_ff;
    const real *wt = p->wt + at->w, *b = p->w + at->b;
    if (!doc_drops(p, DROPOUT_FFN)) {
        linear_forward(out, d, x, F, wt, b, residual, n, F, d);
        return;
    }
    linear_forward(y, d, x, F, wt, b, NULL, n, F, d);
    doc_drop(p, s->doc, DROPOUT_FFN, s->layer, y, r0, n, d);
    vec_add(out, residual, y, n * d);
}

/* The gradient of y there: in the stream's, or in `to` if dropout changes it. */
static const real *output_gradient(const Segment *s, real *to, int r0) {
    return doc_drops(s->p, DROPOUT_FFN) ? to : tile_rows(s->doc->grad, r0, s->p->m->conf.d);
}

/* f of n rows, from their x: in the document's memory if it keeps them, else in t->wide[0]. */
static const real *hidden_rows(const Segment *s, const real *x, int r0, int n,
                               const TileScratch *t) {
    const Pass *p = s->p;
    const LinearAt *fc1 = &p->m->blocks[s->layer].fc1;
    const int d = p->m->conf.d, F = p->m->conf.d_ff;
    real *kept = s->doc->blocks[s->layer].f, *f = kept ? tile_rows(kept, r0, F) : t->wide[0];
    if (!s->dw || !kept) linear_forward(f, F, x, d, p->wt + fc1->w, p->w + fc1->b, NULL, n, d, F);
    return f;
}

static void feed_forward_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Model *m = s->p->m;
    const real *x = sublayer_input(s, r0, n, t->narrow[0]);
    const real *f = hidden_rows(s, x, r0, n, t);
    vmath_gelu(t->wide[0], f, n * m->conf.d_ff);
    add_residual(s, output_rows(s, r0), m->conf.pre_norm ? input_rows(s, r0) : x, t->wide[0],
                 t->narrow[1], r0, n);
}

/* Leaves the gradient of f in t->wide[1], gelu(f) in t->wide[0], that of the sublayer's output
 * where dropout changed it in t->narrow[0], and that of its input in s->t->dx. */
static void feed_forward_backward_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Pass *p = s->p;
    const BlockAt *at = &p->m->blocks[s->layer];
    const int d = p->m->conf.d, F = p->m->conf.d_ff;
    real *g = t->wide[0], *df = t->wide[1];
    const real *dy = output_gradient(s, t->narrow[0], r0);
    if (dy == t->narrow[0]) {
        memcpy(t->narrow[0], tile_rows(s->doc->grad, r0, d), (size_t)(n * d) * sizeof *dy);
        doc_drop(p, s->doc, DROPOUT_FFN, s->layer, t->narrow[0], r0, n, d);
    }
    linear_backward_input(df, F, dy, d, p->w + at->fc2.w, false, n, F, d);
    const real *x = sublayer_input(s, r0, n, t->narrow[1]);
    vmath_gelu_grad(df, g, hidden_rows(s, x, r0, n, t), n * F);
    linear_backward_input(tile_rows(s->t->dx, r0, d), d, df, F, p->w + at->fc1.w, false, n, d, F);
}

/* What adds to gradients of parameters. */
static void feed_forward_sums_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const BlockAt *at = &s->p->m->blocks[s->layer];
    const int d = s->p->m->conf.d, F = s->p->m->conf.d_ff;
    const real *dy = output_gradient(s, t->narrow[0], r0);
    real *dw = s->dw;
    linear_backward_weight(dw + at->fc2.w, dw + at->fc2.b, dy, d, t->wide[0], F, n, F, d);
    linear_backward_weight(dw + at->fc1.w, dw + at->fc1.b, t->wide[1], F, t->narrow[1], d, n, d, F);
    join_input(s, r0, n, t);
    input_backward(s, r0, n, t);
}

/* ---- pooling ---- */

static void pool_segment(const Segment *s) {
    tiles_share(s, input_tile, NULL);
    if (s->p->m->task.masked == 0)
        pool_forward(s->doc->z, s->t->x, (Pooling)s->p->m->conf.pooling, s->doc->N,
                     s->p->m->conf.d);
}

static void pool_backward_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Model *m = s->p->m;
    const int d = m->conf.d;
    real *grad = tile_rows(s->doc->grad, r0, d), *dnorm = t->narrow[0];
    if (m->task.masked > 0)
        memcpy(dnorm, grad, (size_t)(n * d) * sizeof *dnorm);
    else
        memset(dnorm, 0, (size_t)(n * d) * sizeof *dnorm);
    memset(grad, 0, (size_t)(n * d) * sizeof *grad);
    if (m->task.masked == 0)
        pool_backward(dnorm, s->doc->dz, (Pooling)m->conf.pooling, r0, n, s->doc->N, d);
}

static void pool_norm_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    norm_backward(s->p, s->doc, s->segment - 1, tile_rows(s->doc->grad, r0, s->p->m->conf.d),
                  t->narrow[0], input_rows(s, r0), r0, n, s->dw);
}

/* ---- segments ---- */

static Segment segment_on(const Pass *p, Doc *doc, EncoderScratch *t, int segment, real *dw) {
    return (Segment){p, doc, t, segment, block_of(p->m, segment), dw};
}

void segment_forward(const Pass *p, Doc *doc, EncoderScratch *t, int segment) {
    const Segment s = segment_on(p, doc, t, segment, NULL);
    embedding_make(&s);
    switch (segment_part(p->m, segment)) {
    case PART_ATTENTION: attention_forward(&s); break;
    case PART_FEED_FORWARD: tiles_share(&s, feed_forward_tile, NULL); break;
    case PART_POOLING: pool_segment(&s); break;
    case PART_EMBEDDING: break;
    }
}

void segment_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, real *dw) {
    const Segment s = segment_on(p, doc, t, segment, dw);
    embedding_make(&s);
    if (p->m->conf.norm == NORM_BATCH && segment < p->m->nsegments - 1)
        norm_finish(p, segment, doc->grad, segment_output(p->m, doc, segment), doc->N);
    switch (segment_part(p->m, segment)) {
    case PART_ATTENTION: attention_backward(&s); break;
    case PART_FEED_FORWARD:
        tiles_share(&s, feed_forward_backward_tile, feed_forward_sums_tile);
        break;
    case PART_POOLING: tiles_share(&s, pool_backward_tile, pool_norm_tile); break;
    case PART_EMBEDDING: break;
    }
    if (segment == 0) embedding_backward(&s);
}
