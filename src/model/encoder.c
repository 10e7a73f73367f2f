#include "model/encoder.h"

#include <string.h>

#include "attention/layer.h"
#include "core/log.h"
#include "model/normalize.h"
#include "ops/conv.h"
#include "ops/dropout.h"
#include "ops/embed.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

enum { TILE = 256 };

/* ---- memory ---- */

static int largest(int a, int b) { return a > b ? a : b; }

void encoder_layout(EncoderScratch *t, Arena *a, const Model *m) {
    const size_t d = (size_t)m->conf.d;
    const int embedded = fold_applies(m) ? 0 : m->conf.d_emb;
    const size_t wide = (size_t)largest(largest(m->conf.d_ff, embedded), m->conf.d) * TILE;
    const size_t rows = (size_t)m->max_tokens * d;
    const AttnMemory attn = attn_memory(m->mech, m->attn, m->max_tokens);
    for (int i = 0; i < 2; i++) t->wide[i] = arena_reals(a, wide);
    for (int i = 0; i < 2; i++) t->narrow[i] = arena_reals(a, TILE * d);
    t->x = arena_reals(a, rows);
    t->dx = arena_reals(a, rows);
    t->convolved = m->conf.conv ? arena_reals(a, rows) : NULL;
    t->dy = model_dropout(m, DROPOUT_ATTENTION) > 0 ? arena_reals(a, rows) : NULL;
    t->embedding = doc_keeps_embedding(m) ? NULL : arena_reals(a, rows);
    t->attn = arena_part(a, attn.scratch.used);
    t->job = arena_part(a, attn.job.used);
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

static real *output_of(const Model *m, const Doc *doc, int segment) {
    return doc->stream[m->conf.pre_norm ? segment : segment + 1];
}

const real *segment_output(const Pass *p, const Doc *doc, int segment) {
    return output_of(p->m, doc, segment);
}

static real *rows(real *x, int r0, int d) { return x + (size_t)r0 * (size_t)d; }

/* What a segment's sublayer reads, rows r0..r0+n-1: the norm of its input, written to `to`; or, in
 * segment 0, the embedding itself. `norm`: norm_forward, or norm_again in the backward pass. */
static const real *sublayer_input(NormRows *norm, const Pass *p, const Doc *doc, int segment,
                                  int r0, int n, real *to) {
    real *in = rows(input_of(p->m, doc, segment), r0, p->m->conf.d);
    if (segment == 0) return in;
    norm(p, doc, segment - 1, to, in, r0, n);
    return to;
}

/* Calls for each tile of rows. */
#define FOR_TILES(r0, n, N)                                                                        \
    for (int r0 = 0, n; n = (N)-r0 < TILE ? (N)-r0 : TILE, r0 < (N); r0 += TILE)

static bool drops(const Pass *p, DropoutPlace place) {
    return p->drops && model_dropout(p->m, place) > 0;
}

static void drop(const Pass *p, const Doc *doc, DropoutPlace place, int layer, real *x, int r0,
                 int n, int d) {
    if (!drops(p, place)) return;
    RngKey key = rng_subkey(rng_subkey(doc->key, (uint64_t)place), (uint64_t)layer);
    dropout_apply(x, key, model_dropout(p->m, place), (int64_t)r0 * d, (int64_t)n * d);
}

/* ---- embedding ---- */

/* From token r0 on: (N - r0, d_emb); NULL: not added to tokens. */
static const real *positions(const Pass *p, int r0) {
    const size_t at = (size_t)r0 * (size_t)p->m->conf.d_emb;
    const int kind = p->m->conf.positions;
    return kind == POS_ROPE ? NULL : (kind == POS_LEARNED ? p->w + p->m->pos : p->m->sinusoid) + at;
}

static void embed_tile(const Pass *p, const Doc *doc, real *x, int r0, int n) {
    const Model *m = p->m;
    const int D = m->conf.d_emb, cls = m->conf.pooling == POOL_CLS, first = cls && r0 == 0;
    const real *pos = positions(p, r0);
    if (first) embed_forward(x, &(int){0}, p->w + m->cls, NULL, pos, 1, D);
    embed_forward(x + first * D, doc->ids + r0 - cls + first, p->w + m->tok, p->w + m->mask,
                  pos ? pos + first * D : NULL, n - first, D);
    drop(p, doc, DROPOUT_EMBED, 0, x, r0, n, D);
}

/* From the folded tables (model/fold.h): rows of width d. */
static void folded_forward(const Pass *p, const Doc *doc) {
    const Fold *f = p->fold;
    const int d = p->m->conf.d, cls = p->m->conf.pooling == POOL_CLS;
    real *out = doc->stream[0];
    if (cls) embed_forward(out, &(int){0}, f->cls, NULL, f->pos, 1, d);
    embed_forward(out + cls * d, doc->ids, f->tok, f->mask, f->pos ? f->pos + cls * d : NULL,
                  doc->N - cls, d);
}

static void folded_backward(const Pass *p, const Doc *doc, const real *grad, real *dw) {
    const Fold *f = p->fold;
    const int d = p->m->conf.d, cls = p->m->conf.pooling == POOL_CLS;
    real *dpos = f->pos ? dw + f->dpos : NULL;
    if (cls) embed_backward(dw + f->dcls, NULL, dpos, grad, &(int){0}, 1, d);
    embed_backward(dw + f->dtok, dw + f->dmask, dpos ? dpos + cls * d : NULL, grad + cls * d,
                   doc->ids, doc->N - cls, d);
}

static void embedding_forward(const Pass *p, const Doc *doc, EncoderScratch *t) {
    const Model *m = p->m;
    const int d = m->conf.d, D = m->conf.d_emb;
    if (p->fold->on) {
        folded_forward(p, doc);
        return;
    }
    FOR_TILES (r0, n, doc->N) {
        real *out = rows(doc->stream[0], r0, d), *x = D == d ? out : t->wide[0];
        embed_tile(p, doc, x, r0, n);
        if (D != d)
            linear_forward(out, d, x, D, p->wt + m->proj.w, p->w + m->proj.b, NULL, n, D, d);
    }
}

/* Makes doc->stream[0]: once, forward, where it is kept; else for every segment that reads it. */
static void embed(const Pass *p, Doc *doc, EncoderScratch *t, int segment, bool forward) {
    const bool kept = doc_keeps_embedding(p->m);
    const int last = !kept && p->m->conf.pre_norm ? 1 : 0;
    if (segment > last || (kept && !forward)) return;
    if (!kept) doc->stream[0] = t->embedding;
    embedding_forward(p, doc, t);
}

static void embedding_backward(const Pass *p, const Doc *doc, EncoderScratch *t, const real *grad,
                               real *dw) {
    const Model *m = p->m;
    const int d = m->conf.d, D = m->conf.d_emb, cls = m->conf.pooling == POOL_CLS;
    if (p->fold->on) {
        folded_backward(p, doc, grad, dw);
        return;
    }
    FOR_TILES (r0, n, doc->N) {
        const real *g = grad + (size_t)r0 * (size_t)d;
        real *dx = t->wide[1];
        if (D != d) {
            embed_tile(p, doc, t->wide[0], r0, n);
            linear_backward_weight(dw + m->proj.w, dw + m->proj.b, g, d, t->wide[0], D, n, D, d);
            linear_backward_input(dx, D, g, d, p->w + m->proj.w, false, n, D, d);
        } else {
            memcpy(dx, g, (size_t)(n * d) * sizeof *dx);
        }
        drop(p, doc, DROPOUT_EMBED, 0, dx, r0, n, D);
        real *dpos = m->conf.positions == POS_LEARNED ? dw + m->pos + (size_t)r0 * (size_t)D : NULL;
        const int first = cls && r0 == 0;
        if (first) embed_backward(dw + m->cls, NULL, dpos, dx, &(int){0}, 1, D);
        embed_backward(dw + m->tok, dw + m->mask, dpos ? dpos + first * D : NULL, dx + first * D,
                       doc->ids + r0 - cls + first, n - first, D);
    }
}

/* ---- sublayers ---- */

/* out = residual + dropout(linear(x)); y is scratch for dropout. */
static void add_residual(const Pass *p, const Doc *doc, int layer, real *restrict out,
                         const real *restrict residual, const real *x, const LinearAt *at, int in,
                         real *restrict y, int r0, int n) {
    const int d = p->m->conf.d;
    const real *wt = p->wt + at->w, *b = p->w + at->b;
    if (!drops(p, DROPOUT_FFN)) {
        linear_forward(out, d, x, in, wt, b, residual, n, in, d);
        return;
    }
    linear_forward(y, d, x, in, wt, b, NULL, n, in, d);
    drop(p, doc, DROPOUT_FFN, layer, y, r0, n, d);
#pragma omp simd
    for (int i = 0; i < n * d; i++) out[i] = residual[i] + y[i];
}

/* The gradient of y there: `to` if dropout changes it. */
static const real *residual_backward(const Pass *p, const Doc *doc, int layer, const real *grad,
                                     real *to, int r0, int n) {
    const int d = p->m->conf.d;
    if (!drops(p, DROPOUT_FFN)) return grad;
    memcpy(to, grad, (size_t)(n * d) * sizeof *to);
    drop(p, doc, DROPOUT_FFN, layer, to, r0, n, d);
    return to;
}

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

static AttnCall attention_call(const Pass *p, const Doc *doc, const EncoderScratch *t, int layer,
                               real *dw) {
    AttnCall c = encoder_attention(p, layer, dw);
    c.N = doc->N;
    c.memory = (AttnMemory){doc->blocks[layer].attn, t->attn, t->job};
    c.trace = doc->trace ? &doc->trace[layer] : NULL;
    c.meter = doc->meter;
    return c;
}

static void run_mechanism(const Model *m, void pass(const void *, const AttnCall *),
                          const AttnCall *c) {
    const double start = c->meter ? clock_seconds() : 0;
    pass(m->attn, c);
    if (c->meter) c->meter->seconds += clock_seconds() - start;
}

/* The input of attention: in memory of the stream, or made in t->x. */
static const real *attention_input(NormRows *norm, const Pass *p, const Doc *doc,
                                   const EncoderScratch *t, int segment) {
    const int d = p->m->conf.d;
    FOR_TILES (r0, n, doc->N) sublayer_input(norm, p, doc, segment, r0, n, rows(t->x, r0, d));
    return segment == 0 ? doc->stream[0] : t->x;
}

/* What the mechanism reads, from that. */
static const real *convolve(const Pass *p, const Doc *doc, const EncoderScratch *t, int layer,
                            const real *x) {
    const Model *m = p->m;
    if (!m->conf.conv) return x;
    conv_forward(t->convolved, x, p->wt + m->blocks[layer].conv, m->conf.conv, doc->N, m->conf.d);
    return t->convolved;
}

/* From t->dx, of what the mechanism read, to t->dx of the input of attention x. */
static void convolve_backward(const Pass *p, const Doc *doc, EncoderScratch *t, int layer,
                              const real *x, real *dw) {
    const Model *m = p->m;
    const size_t at = m->blocks[layer].conv;
    real *dx = t->convolved;
    if (!m->conf.conv) return;
    conv_backward_weight(dw + at, t->dx, x, m->conf.conv, doc->N, m->conf.d);
    conv_backward_input(dx, t->dx, p->wt + at, m->conf.conv, doc->N, m->conf.d);
    t->convolved = t->dx, t->dx = dx;
}

static void attention_forward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, int layer) {
    const Model *m = p->m;
    const int d = m->conf.d;
    AttnCall c = attention_call(p, doc, t, layer, NULL);
    const real *x = attention_input(norm_forward, p, doc, t, segment);
    c.X = convolve(p, doc, t, layer, x);
    c.Y = output_of(m, doc, segment);
    if (c.trace) c.trace->digest = 0;
    if (c.trace && c.trace->input) vec_copy(c.trace->input, c.X, c.N * d);
    const real *residual = m->conf.pre_norm ? input_of(m, doc, segment) : x;
    if (!drops(p, DROPOUT_ATTENTION)) c.base = residual; /* dropout comes between */
    run_mechanism(m, m->mech->forward, &c);
    FOR_TILES (r0, n, c.base ? 0 : doc->N) {
        real *y = rows(c.Y, r0, d);
        drop(p, doc, DROPOUT_ATTENTION, layer, y, r0, n, d);
        vec_add(y, residual + (size_t)r0 * (size_t)d, y, n * d);
    }
}

/* f of n rows, from their x: in the document's memory if it keeps them, else in t->wide[0]. */
static const real *hidden_rows(const Pass *p, const Doc *doc, EncoderScratch *t, int layer,
                               const real *x, int r0, int n, bool first) {
    const LinearAt *fc1 = &p->m->blocks[layer].fc1;
    const int d = p->m->conf.d, F = p->m->conf.d_ff;
    real *kept = doc->blocks[layer].f, *f = kept ? rows(kept, r0, F) : t->wide[0];
    if (first || !kept) linear_forward(f, F, x, d, p->wt + fc1->w, p->w + fc1->b, NULL, n, d, F);
    return f;
}

static void feed_forward_forward(const Pass *p, Doc *doc, EncoderScratch *t, int segment,
                                 int layer) {
    const Model *m = p->m;
    const BlockAt *at = &m->blocks[layer];
    const int d = m->conf.d, F = m->conf.d_ff;
    FOR_TILES (r0, n, doc->N) {
        const real *x = sublayer_input(norm_forward, p, doc, segment, r0, n, t->narrow[0]);
        const real *f = hidden_rows(p, doc, t, layer, x, r0, n, true);
        vmath_gelu(t->wide[0], f, n * F);
        const real *residual = m->conf.pre_norm ? rows(input_of(m, doc, segment), r0, d) : x;
        add_residual(p, doc, layer, rows(output_of(m, doc, segment), r0, d), residual, t->wide[0],
                     &at->fc2, F, t->narrow[1], r0, n);
    }
}

/* After t->dx holds the gradient that the sublayer sends to its input, rows r0..r0+n-1: the
 * residual joins it in post-norm, and it goes back through the norm into doc->grad. */
static void input_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, int r0, int n,
                           real *dw) {
    const Model *m = p->m;
    const int d = m->conf.d;
    real *restrict grad = rows(doc->grad, r0, d), *restrict dx = rows(t->dx, r0, d);
    if (!m->conf.pre_norm) {
#pragma omp simd
        for (int i = 0; i < n * d; i++) dx[i] += grad[i];
        memset(grad, 0, (size_t)(n * d) * sizeof *grad);
    }
    if (segment > 0)
        norm_backward(p, doc, segment - 1, grad, dx, rows(input_of(m, doc, segment), r0, d), r0, n,
                      dw);
}

static void attention_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, int layer,
                               real *dw) {
    const Model *m = p->m;
    const int d = m->conf.d, N = doc->N;
    AttnCall c = attention_call(p, doc, t, layer, dw);
    const real *x = attention_input(norm_again, p, doc, t, segment);
    c.X = convolve(p, doc, t, layer, x);
    c.dY = doc->grad;
    c.dX = t->dx;
    if (drops(p, DROPOUT_ATTENTION)) {
        c.dY = memcpy(t->dy, doc->grad, (size_t)(N * d) * sizeof *t->dy);
        drop(p, doc, DROPOUT_ATTENTION, layer, t->dy, 0, N, d);
    }
    run_mechanism(m, m->mech->backward, &c);
    convolve_backward(p, doc, t, layer, x, dw);
    FOR_TILES (r0, n, N) input_backward(p, doc, t, segment, r0, n, dw);
}

static void feed_forward_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment,
                                  int layer, real *dw) {
    const Model *m = p->m;
    const BlockAt *at = &m->blocks[layer];
    const int d = m->conf.d, F = m->conf.d_ff;
    real *g = t->wide[0], *df = t->wide[1];
    FOR_TILES (r0, n, doc->N) {
        const real *dy =
            residual_backward(p, doc, layer, rows(doc->grad, r0, d), t->narrow[0], r0, n);
        linear_backward_input(df, F, dy, d, p->w + at->fc2.w, false, n, F, d);
        const real *x = sublayer_input(norm_again, p, doc, segment, r0, n, t->narrow[1]);
        vmath_gelu_grad(df, g, hidden_rows(p, doc, t, layer, x, r0, n, false), n * F);
        linear_backward_weight(dw + at->fc2.w, dw + at->fc2.b, dy, d, g, F, n, F, d);
        linear_backward_weight(dw + at->fc1.w, dw + at->fc1.b, df, F, x, d, n, d, F);
        linear_backward_input(rows(t->dx, r0, d), d, df, F, p->w + at->fc1.w, false, n, d, F);
        input_backward(p, doc, t, segment, r0, n, dw);
    }
}

/* ---- segments ---- */

static void pool_segment(const Pass *p, Doc *doc, EncoderScratch *t, int segment) {
    const int d = p->m->conf.d;
    FOR_TILES (r0, n, doc->N)
        sublayer_input(norm_forward, p, doc, segment, r0, n, rows(t->x, r0, d));
    if (!p->m->task.masked) pool_forward(doc->z, t->x, (Pooling)p->m->conf.pooling, doc->N, d);
}

void segment_forward(const Pass *p, Doc *doc, EncoderScratch *t, int segment) {
    embed(p, doc, t, segment, true);
    switch (segment_part(p->m, segment)) {
    case PART_ATTENTION: attention_forward(p, doc, t, segment, block_of(p->m, segment)); break;
    case PART_FEED_FORWARD:
        feed_forward_forward(p, doc, t, segment, block_of(p->m, segment));
        break;
    case PART_POOLING: pool_segment(p, doc, t, segment); break;
    case PART_EMBEDDING: break;
    }
}

static void pool_segment_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment,
                                  real *dw) {
    const int d = p->m->conf.d;
    FOR_TILES (r0, n, doc->N) {
        real *grad = rows(doc->grad, r0, d), *dnorm = t->narrow[0];
        if (p->m->task.masked)
            memcpy(dnorm, grad, (size_t)(n * d) * sizeof *dnorm);
        else
            memset(dnorm, 0, (size_t)(n * d) * sizeof *dnorm);
        memset(grad, 0, (size_t)(n * d) * sizeof *grad);
        if (!p->m->task.masked)
            pool_backward(dnorm, doc->dz, (Pooling)p->m->conf.pooling, r0, n, doc->N, d);
        norm_backward(p, doc, segment - 1, grad, dnorm, rows(input_of(p->m, doc, segment), r0, d),
                      r0, n, dw);
    }
}

void segment_backward(const Pass *p, Doc *doc, EncoderScratch *t, int segment, real *dw) {
    const Model *m = p->m;
    if (segment == m->nsegments - 1) {
        pool_segment_backward(p, doc, t, segment, dw);
        return;
    }
    embed(p, doc, t, segment, false);
    if (m->conf.norm == NORM_BATCH)
        norm_finish(p, segment, doc->grad, output_of(m, doc, segment), doc->N);
    const SegmentPart part = segment_part(m, segment);
    if (part == PART_ATTENTION)
        attention_backward(p, doc, t, segment, block_of(m, segment), dw);
    else if (part == PART_FEED_FORWARD)
        feed_forward_backward(p, doc, t, segment, block_of(m, segment), dw);
    if (segment == 0) embedding_backward(p, doc, t, m->conf.pre_norm ? doc->grad : t->dx, dw);
}
