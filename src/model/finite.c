#include "model/finite.h"

#include <math.h>
#include <stdio.h>

#include "core/log.h"
#include "model/normalize.h"

size_t finite_count_bad(const real *x, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += (size_t)!isfinite(x[i]);
    return bad;
}

bool finite_params(const Params *p, const real *w, char *text, size_t size) {
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        const size_t bad = finite_count_bad(w + q->at, q->n);
        if (!bad) continue;
        snprintf(text, size, "parameter '%s': %zu of its %zu values %s not finite", q->name, bad,
                 q->n, bad == 1 ? "is" : "are");
        return false;
    }
    return true;
}

const Param *finite_statistics(const Engine *e) {
    const Params *p = &e->m->params;
    const size_t d = (size_t)e->m->conf.d;
    for (int i = 0; i < 2 * e->m->nnorms && e->coupled; i++) {
        const NormAt *at = &e->m->norms[i / 2];
        if (!finite_count_bad(e->running + (size_t)i * d, d)) continue;
        for (const Param *q = p->list; q < p->list + p->count; q++)
            if (q->at == (i % 2 ? at->var : at->mean)) return q;
    }
    return NULL;
}

/* ---- activations ---- */

typedef struct Search {
    char *text; /* "" as long as all are finite */
    size_t size;
    real *row; /* (d) */
} Search;

static bool is_bad(const Search *s, const real *x, size_t n) {
    return !*s->text && finite_count_bad(x, n);
}

/* Of a stream (model/doc.h): the embedding, or what a sublayer leaves, the residual added. */
static void look_at_stream(Search *s, const Model *m, const Doc *doc, int stream) {
    if (!is_bad(s, doc->stream[stream], (size_t)doc->N * (size_t)m->conf.d)) return;
    if (stream == 0)
        snprintf(s->text, s->size, "embedding");
    else
        snprintf(s->text, s->size, "block %d, output of %s", (stream - 1) / 2,
                 stream % 2 ? "attention" : "the feed-forward layer");
}

/* Made again row by row: sublayers read norms without keeping them. */
static void look_at_norm(Search *s, const Pass *p, const Doc *doc, int norm, int stream) {
    const size_t d = (size_t)p->m->conf.d;
    for (int r = 0; r < doc->N && !*s->text; r++) {
        norm_forward(p, doc, norm, s->row, doc->stream[stream] + (size_t)r * d, r, 1);
        if (!is_bad(s, s->row, d)) continue;
        if (norm == 2 * p->m->conf.depth)
            snprintf(s->text, s->size, "the last norm");
        else
            snprintf(s->text, s->size, "block %d, norm%d", norm / 2, norm % 2 + 1);
    }
}

static void look_at_document(Search *s, const Pass *p, const Doc *doc) {
    const Model *m = p->m;
    for (int stream = 0; stream <= 2 * m->conf.depth; stream++) {
        const int norm = m->conf.pre_norm ? stream : stream - 1;
        look_at_stream(s, m, doc, stream);
        if (norm >= 0) look_at_norm(s, p, doc, norm, stream);
    }
    const size_t pooled = m->task.masked > 0 ? 0 : (size_t)m->conf.d;
    if (is_bad(s, doc->z, pooled)) snprintf(s->text, s->size, "pooled tokens");
}

static void look_at_head(Search *s, const Model *m, const HeadScratch *t) {
    const size_t d = (size_t)m->conf.d, pair = m->task.per_example == 2 ? 4 * d : 0;
    if (is_bad(s, t->features, pair)) snprintf(s->text, s->size, "features of the pair");
    if (is_bad(s, t->h, d)) snprintf(s->text, s->size, "head, output of fc1");
    if (is_bad(s, t->logits, (size_t)m->task.classes)) snprintf(s->text, s->size, "logits");
}

static void look(void *ctx, const Pass *p, const Worker *k, int document) {
    Search *s = ctx;
    const int per = p->m->task.per_example;
    const bool found = *s->text;
    if (document == per)
        look_at_head(s, p->m, &k->head);
    else
        look_at_document(s, p, &k->docs[document]);
    if (*s->text && !found && per == 2 && document < per)
        format_add(s->text, s->size, " of document %d", document);
}

void finite_activation(Engine *e, const Sample *s, char *text, size_t size) {
    Search search = {text, size, mem_alloc((size_t)e->m->conf.d, sizeof(real))};
    *text = '\0';
    engine_walk(e, s, look, &search);
    if (!*text) snprintf(text, size, "loss");
    mem_free(search.row);
}
