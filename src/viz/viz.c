#include "viz/viz.h"

#include <math.h>

#include "data/bytes.h"
#include "data/picture.h"
#include "train/evaluate.h"

/* ---- what is shown ---- */

/* Data are pictures if all documents have one length, a square, and ids are bytes. */
static bool all_equal(const Dataset *d) {
    for (int i = 1; i < d->documents; i++)
        if (dataset_length(d, i) != dataset_length(d, 0)) return false;
    return d->vocab <= 256;
}

int viz_width(const Trained *t) {
    const Task *task = t->config.task;
    const Dataset *d = &t->loader.split[t->split];
    if ((task->tokens != TOKENS_PIXELS && task->vocab) || !all_equal(d)) return 0;
    const int n = dataset_length(d, 0), side = picture_side(n);
    return side > 1 && side <= VIZ_LARGEST && side * side == n ? side : 0;
}

static void open_doc(Viz *v, int which) {
    const Model *m = &v->t->config.model;
    const Sample *s = &v->t->loader.batch.samples[0];
    VizDoc *d = &v->doc[which];
    const int *ids = trained_guesses(v->t) ? s->targets[which] : s->ids[which];
    *d = (VizDoc){.ids = ids, .length = s->length[which], .width = viz_width(v->t)};
    d->cls = m->conf.pooling == POOL_CLS;
    d->part = mem_alloc((size_t)v->parts, sizeof *d->part);
    for (int i = 0; i < v->parts; i++)
        clusters_open(&d->part[i], &v->traces,
                      &v->traces.trace[which * m->conf.depth + v->part[i].layer], &v->part[i],
                      d->length + d->cls);
}

static double probability(const real *logits, int k, int K) {
    double sum = 0;
    for (int i = 0; i < K; i++) sum += exp((double)logits[i] - (double)logits[k]);
    return 1 / sum;
}

static void set_title(Viz *v) {
    const Batch *b = &v->t->loader.batch;
    const int k = b->out.predicted[0], K = v->t->config.model.task.classes;
    char label[64], predicted[64];
    if (trained_guesses(v->t)) {
        snprintf(v->title, sizeof v->title, "example %d of %s: %d of %d masked tokens guessed",
                 v->index, split_names[v->t->split], b->out.correct[0], b->answers[0]);
        return;
    }
    trained_class(v->t, b->samples[0].label, label, sizeof label);
    trained_class(v->t, k, predicted, sizeof predicted);
    snprintf(v->title, sizeof v->title, "example %d of %s: label %s, predicted %s (%.0f %%)",
             v->index, split_names[v->t->split], label, predicted,
             100 * probability(b->out.logits, k, K));
}

static bool run(const Viz *v, Trained *t, Err *err) {
    Batch *b = &t->loader.batch;
    if (v->index >= t->loader.examples[t->split])
        return err_set(err, EX_USAGE, "--index: the %s split has examples 0 to %d, got %d",
                       split_names[t->split], t->loader.examples[t->split] - 1, v->index);
    loader_split(&t->loader, t->split, v->index);
    b->n = 1;
    engine_evaluate(&t->engine, b->samples, 1, &b->out, v->traces.trace);
    return evaluate_check(&t->engine, &t->loader, t->split, v->index, err) ||
           err_set(err, err->code, "%s: %s", t->from.path, err->text);
}

static void choose_parts(Viz *v, int layer, int head) {
    const int depth = v->t->config.model.conf.depth, from = layer < 0 ? 0 : layer,
              layers = layer < 0 ? depth : 1, each = clusters_parts(&v->traces, head);
    v->parts = layers * each;
    v->part = mem_alloc((size_t)v->parts, sizeof *v->part);
    for (int i = 0; i < v->parts; i++)
        v->part[i] = clusters_part(&v->traces, from + i / each, head, i % each);
}

static bool check_head(const Trained *t, int head, Err *err) {
    const Model *m = &t->config.model;
    if (head < 0 || (m->mech->groups && head < m->conf.heads)) return true;
    if (!m->mech->groups && !m->mech->clusters) return true; /* nor anything else to show */
    if (m->mech->groups)
        return err_set(err, EX_USAGE, "--head: the model has heads 0 to %d, got %d",
                       m->conf.heads - 1, head);
    return err_set(err, EX_USAGE, "--head: clusters of %s attention are of all heads together",
                   m->mech->name);
}

bool viz_open(Viz *v, Trained *t, int index, int layer, int head, Err *err) {
    const Model *m = &t->config.model;
    *v = (Viz){.t = t, .index = index, .docs = m->task.per_example};
    if (!check_head(t, head, err)) return false;
    if (!clusters_traces(&v->traces, m, v->docs, t->from.path, err)) return false;
    if (!run(v, t, err)) {
        traces_close(&v->traces);
        return false;
    }
    set_title(v);
    choose_parts(v, layer, head);
    for (int i = 0; i < v->docs; i++) open_doc(v, i);
    return true;
}

void viz_close(Viz *v) {
    for (int i = 0; i < v->docs; i++) {
        for (int j = 0; j < v->parts && v->doc[i].part; j++) clusters_close(&v->doc[i].part[j]);
        mem_free(v->doc[i].part);
    }
    traces_close(&v->traces);
    mem_free(v->part);
    *v = (Viz){0};
}

/* ---- in words ---- */

bool viz_spaced(const Viz *v) { return v->t->config.task->tokens != TOKENS_BYTES; }

int viz_token(const Viz *v, const VizDoc *d, int n, char buf[VIZ_TEXT]) {
    const Task *task = v->t->config.task;
    const int i = n - d->cls;
    if (i < 0) {
        snprintf(buf, VIZ_TEXT, "<cls>");
        return 1;
    }
    if (task->tokens == TOKENS_BYTES) return bytes_character(buf, d->ids + i, d->length - i);
    if (task->words)
        snprintf(buf, VIZ_TEXT, "%s", task->words[d->ids[i]]);
    else
        snprintf(buf, VIZ_TEXT, "%d", d->ids[i]);
    return 1;
}
