#include "model/doc.h"

#include "attention/layer.h"
#include "ops/dropout.h"

/* Of a whole batch's activations, which batch norm has in memory, embeddings are a twelfth, and
 * their tables are small. */
bool doc_keeps_embedding(const Model *m) { return m->conf.norm != NORM_BATCH; }

void doc_layout(Doc *doc, Arena *a, const Model *m, int N) {
    const size_t n = (size_t)N, d = (size_t)m->conf.d;
    const int streams = 2 * m->conf.depth + 1;
    doc->N = N;
    doc->stream = arena_take(a, (size_t)streams, sizeof *doc->stream);
    doc->mean = arena_take(a, (size_t)m->nnorms, sizeof *doc->mean);
    doc->rstd = arena_take(a, (size_t)m->nnorms, sizeof *doc->rstd);
    doc->blocks = arena_take(a, (size_t)m->conf.depth, sizeof *doc->blocks);
    const bool measuring = !a->base;
    const size_t saved = attn_memory(m->mech, m->attn, N).saved.used;
    for (int i = 0; i < streams; i++) {
        real *s = i > 0 || doc_keeps_embedding(m) ? arena_reals(a, n * d) : NULL;
        if (!measuring) doc->stream[i] = s;
    }
    for (int i = 0; i < m->nnorms && m->conf.norm != NORM_BATCH; i++) {
        real *mean = arena_reals(a, n), *rstd = arena_reals(a, n);
        if (!measuring) doc->mean[i] = mean, doc->rstd[i] = rstd;
    }
    for (int i = 0; i < m->conf.depth; i++) {
        BlockActs b = {.attn = arena_part(a, saved)};
        b.f = model_keeps_products(m) ? arena_reals(a, n * (size_t)m->conf.d_ff) : NULL;
        if (!measuring) doc->blocks[i] = b;
    }
    doc->grad = arena_reals(a, n * d);
    doc->z = arena_reals(a, d);
    doc->dz = arena_reals(a, d);
}

bool doc_drops(const Pass *p, DropoutPlace place) {
    return p->drops && model_dropout(p->m, place) > 0;
}

void doc_drop(const Pass *p, const Doc *doc, DropoutPlace place, int layer, real *x, int r0, int n,
              int d) {
    if (!doc_drops(p, place)) return;
    RngKey key = rng_subkey(rng_subkey(doc->key, (uint64_t)place), (uint64_t)layer);
    dropout_apply(x, key, model_dropout(p->m, place), (int64_t)r0 * d, (int64_t)n * d);
}
