#include "model/embedding.h"

#include <string.h>

#include "ops/embed.h"
#include "ops/linear.h"

/* Rows of a token, of what is masked, of the token in front, and of positions (NULL: not added). */
typedef struct Tables {
    const real *tok, *mask, *cls, *pos;
} Tables;
typedef struct TableGradients {
    real *tok, *mask, *cls, *pos;
} TableGradients;

static bool has_cls(const Segment *s) { return s->p->m->conf.pooling == POOL_CLS; }

/* y (n,d), of tokens r0..r0+n-1. */
static void embed_rows(const Segment *s, real *y, Tables t, int r0, int n, int d) {
    const int cls = has_cls(s), first = cls && r0 == 0;
    const real *pos = t.pos ? t.pos + (size_t)r0 * (size_t)d : NULL;
    if (first) embed_forward(y, &(int){0}, t.cls, NULL, pos, 1, d);
    embed_forward(y + first * d, s->doc->ids + (r0 - cls + first), t.tok, t.mask,
                  pos ? pos + first * d : NULL, n - first, d);
}

static void embed_rows_backward(const Segment *s, TableGradients t, const real *dy, int r0, int n,
                                int d) {
    const int cls = has_cls(s), first = cls && r0 == 0;
    real *pos = t.pos ? t.pos + (size_t)r0 * (size_t)d : NULL;
    if (first) embed_backward(t.cls, NULL, pos, dy, &(int){0}, 1, d);
    embed_backward(t.tok, t.mask, pos ? pos + first * d : NULL, dy + first * d,
                   s->doc->ids + (r0 - cls + first), n - first, d);
}

static const real *positions(const Pass *p) {
    const int kind = p->m->conf.positions;
    return kind == POS_ROPE ? NULL : kind == POS_LEARNED ? p->w + p->m->pos : p->m->sinusoid;
}

/* The sum of a token's rows in the tables, and its dropout, rows r0..r0+n-1. */
static void sum_rows(const Segment *s, real *x, int r0, int n) {
    const Pass *p = s->p;
    const Model *m = p->m;
    const Tables t = {p->w + m->tok, p->w + m->mask, p->w + m->cls, positions(p)};
    embed_rows(s, x, t, r0, n, m->conf.d_emb);
    doc_drop(p, s->doc, DROPOUT_EMBED, 0, x, r0, n, m->conf.d_emb);
}

/* ---- forward ---- */

static void folded_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Fold *f = s->p->fold;
    const int d = s->p->m->conf.d;
    embed_rows(s, tile_rows(s->doc->stream[0], r0, d), (Tables){f->tok, f->mask, f->cls, f->pos},
               r0, n, d);
}

static void projected_tile(const Segment *s, int r0, int n, const TileScratch *t) {
    const Pass *p = s->p;
    const Model *m = p->m;
    const int d = m->conf.d, D = m->conf.d_emb;
    real *out = tile_rows(s->doc->stream[0], r0, d), *x = D == d ? out : t->wide[0];
    sum_rows(s, x, r0, n);
    if (D != d) linear_forward(out, d, x, D, p->wt + m->proj.w, p->w + m->proj.b, NULL, n, D, d);
}

void embedding_make(const Segment *s) {
    const Model *m = s->p->m;
    const bool kept = doc_keeps_embedding(m);
    const int last = !kept && m->conf.pre_norm ? 1 : 0;
    if (s->segment > last || (kept && s->dw)) return;
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
    real *dw = s->dw;
    const TableGradients t = {dw + f->dtok, dw + f->dmask, dw + f->dcls,
                              f->pos ? dw + f->dpos : NULL};
    embed_rows_backward(s, t, gradient(s, 0), 0, s->doc->N, s->p->m->conf.d);
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
    const int d = m->conf.d, D = m->conf.d_emb;
    real *dw = s->dw;
    const TableGradients to = {dw + m->tok, dw + m->mask, dw + m->cls,
                               m->conf.positions == POS_LEARNED ? dw + m->pos : NULL};
    if (D != d)
        linear_backward_weight(dw + m->proj.w, dw + m->proj.b, gradient(s, r0), d, t->wide[0], D, n,
                               D, d);
    embed_rows_backward(s, to, t->wide[1], r0, n, D);
}

void embedding_backward(const Segment *s) {
    if (s->p->fold->on)
        folded_backward(s);
    else
        tiles_share(s, sums_tile, add_sums_tile);
}
