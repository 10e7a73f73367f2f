#include "model/embedding.h"

#include <string.h>

#include "ops/embed.h"
#include "ops/linear.h"

/* From token r0 on: (N - r0, d_emb); NULL: not added to tokens. */
static const real *positions(const Pass *p, int r0) {
    const size_t at = (size_t)r0 * (size_t)p->m->conf.d_emb;
    const int kind = p->m->conf.positions;
    return kind == POS_ROPE ? NULL : (kind == POS_LEARNED ? p->w + p->m->pos : p->m->sinusoid) + at;
}

/* The sum of a token's rows in the tables, and its dropout, rows r0..r0+n-1. */
static void sum_rows(const Segment *s, real *x, int r0, int n) {
    const Pass *p = s->p;
    const Model *m = p->m;
    const int D = m->conf.d_emb, cls = m->conf.pooling == POOL_CLS, first = cls && r0 == 0;
    const real *pos = positions(p, r0);
    if (first) embed_forward(x, &(int){0}, p->w + m->cls, NULL, pos, 1, D);
    embed_forward(x + first * D, s->doc->ids + (r0 - cls + first), p->w + m->tok, p->w + m->mask,
                  pos ? pos + first * D : NULL, n - first, D);
    doc_drop(p, s->doc, DROPOUT_EMBED, 0, x, r0, n, D);
}

/* ---- forward ---- */

static void folded_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Fold *f = s->p->fold;
    const int d = s->p->m->conf.d, cls = s->p->m->conf.pooling == POOL_CLS;
    const int first = cls && r0 == 0;
    const real *pos = f->pos ? f->pos + (size_t)r0 * (size_t)d : NULL;
    real *out = tile_rows(s->doc->stream[0], r0, d);
    if (first) embed_forward(out, &(int){0}, f->cls, NULL, pos, 1, d);
    embed_forward(out + first * d, s->doc->ids + (r0 - cls + first), f->tok, f->mask,
                  pos ? pos + first * d : NULL, n - first, d);
}

static void projected_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Pass *p = s->p;
    const Model *m = p->m;
    const int d = m->conf.d, D = m->conf.d_emb;
    real *out = tile_rows(s->doc->stream[0], r0, d), *x = D == d ? out : t->wide[0];
    sum_rows(s, x, r0, n);
    if (D != d) linear_forward(out, d, x, D, p->wt + m->proj.w, p->w + m->proj.b, NULL, n, D, d);
}

void embedding_forward(const Segment *s, bool forward) {
    const Model *m = s->p->m;
    const bool kept = doc_keeps_embedding(m);
    const int last = !kept && m->conf.pre_norm ? 1 : 0;
    if (s->segment > last || (kept && !forward)) return;
    if (!kept) s->doc->stream[0] = s->t->embedding;
    tiles_share(s, s->p->fold->on ? folded_tile : projected_tile, NULL);
}

/* ---- backward ---- */

/* The gradient of its rows, from r0 on: before the first norm the stream's own. */
static const real *gradient(const Segment *s, int r0) {
    const Model *m = s->p->m;
    return tile_rows(m->conf.pre_norm ? s->doc->grad : s->t->dx, r0, m->conf.d);
}

static void folded_backward(const Segment *s) {
    const Fold *f = s->p->fold;
    const Doc *doc = s->doc;
    const int d = s->p->m->conf.d, cls = s->p->m->conf.pooling == POOL_CLS;
    const real *grad = gradient(s, 0);
    real *dw = s->dw, *dpos = f->pos ? dw + f->dpos : NULL;
    if (cls) embed_backward(dw + f->dcls, NULL, dpos, grad, &(int){0}, 1, d);
    embed_backward(dw + f->dtok, dw + f->dmask, dpos ? dpos + cls * d : NULL, grad + cls * d,
                   doc->ids, doc->N - cls, d);
}

/* Through the projection and dropout: the sums' gradient to t->wide[1]. */
static void sums_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Model *m = s->p->m;
    const int d = m->conf.d, D = m->conf.d_emb;
    const real *g = gradient(s, r0);
    real *dx = t->wide[1];
    if (D != d) {
        sum_rows(s, t->wide[0], r0, n);
        linear_backward_input(dx, D, g, d, s->p->w + m->proj.w, false, n, D, d);
    } else {
        memcpy(dx, g, (size_t)(n * d) * sizeof *dx);
    }
    doc_drop(s->p, s->doc, DROPOUT_EMBED, 0, dx, r0, n, D);
}

static void add_sums_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Model *m = s->p->m;
    const int d = m->conf.d, D = m->conf.d_emb, cls = m->conf.pooling == POOL_CLS;
    const int first = cls && r0 == 0;
    const real *dx = t->wide[1];
    real *dw = s->dw;
    if (D != d)
        linear_backward_weight(dw + m->proj.w, dw + m->proj.b, gradient(s, r0), d, t->wide[0], D, n,
                               D, d);
    real *dpos = m->conf.positions == POS_LEARNED ? tile_rows(dw + m->pos, r0, D) : NULL;
    if (first) embed_backward(dw + m->cls, NULL, dpos, dx, &(int){0}, 1, D);
    embed_backward(dw + m->tok, dw + m->mask, dpos ? dpos + first * D : NULL, dx + first * D,
                   s->doc->ids + (r0 - cls + first), n - first, D);
}

void embedding_backward(const Segment *s) {
    if (s->p->fold->on)
        folded_backward(s);
    else
        tiles_share(s, sums_tile, add_sums_tile);
}
