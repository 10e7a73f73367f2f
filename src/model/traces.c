#include "model/traces.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"

static int *no_choices(size_t n) {
    int *x = mem_alloc(n, sizeof *x);
    memset(x, 0xff, n * sizeof *x); /* -1 */
    return x;
}

/* What a document has in a block. */
static size_t slots(const Traces *t) { return (size_t)t->C * (size_t)t->k; }
static size_t places(const Traces *t) {
    return (size_t)t->heads * (size_t)t->rounds * (size_t)t->tokens;
}

void traces_open(Traces *t, const Model *m, int documents, int tokens, unsigned wanted) {
    const AttnMech *mech = m->mech;
    const size_t all = (size_t)documents * (size_t)m->conf.depth;
    const bool choices = wanted & TRACES_CHOICES;
    bool keys = false;
    *t = (Traces){.documents = documents, .depth = m->conf.depth, .tokens = tokens};
    t->trace = mem_alloc(all, sizeof *t->trace);
    if (choices && mech->clusters) mech->clusters(m->attn, &t->C, &t->k);
    if (choices && mech->groups) mech->groups(m->attn, &t->rounds, &keys), t->heads = m->conf.heads;
    const size_t cells = (size_t)m->max_tokens * (size_t)t->C,
                 reals = (size_t)m->max_tokens * (size_t)m->conf.d;
    if (t->C) t->clusters = no_choices(all * slots(t));
    if (t->rounds) t->groups = no_choices(all * places(t));
    if (keys) t->groups_key = no_choices(all * places(t));
    if (t->C && wanted & TRACES_AFFINITIES)
        t->affinities = mem_alloc(all * cells, sizeof *t->affinities);
    if (wanted & TRACES_INPUTS) t->inputs = mem_alloc(all * reals, sizeof *t->inputs);
    for (size_t i = 0; i < all; i++) {
        const size_t document = i / (size_t)t->depth, block = i % (size_t)t->depth,
                     at = block * (size_t)documents + document;
        AttnTrace *trace = &t->trace[i];
        trace->stride = tokens;
        if (t->clusters) trace->clusters = t->clusters + at * slots(t);
        if (t->groups) trace->groups = t->groups + at * places(t);
        if (t->groups_key) trace->groups_key = t->groups_key + at * places(t);
        if (t->affinities) trace->affinities = t->affinities + i * cells;
        if (t->inputs) trace->input = t->inputs + i * reals;
    }
}

void traces_close(Traces *t) {
    mem_free(t->trace);
    mem_free(t->clusters), mem_free(t->groups), mem_free(t->groups_key);
    mem_free(t->affinities), mem_free(t->inputs);
    *t = (Traces){0};
}

/* [B,shape...], or [B,2,shape...] of pairs. */
static StTensor tensor(const Traces *t, const Model *m, const char *name, int *data, int block,
                       const int *shape, int ndim) {
    int n = m->task.per_example;
    int64_t full[ST_MAX_DIMS] = {t->documents / n, 2};
    size_t each = (size_t)t->documents;
    for (int i = 0; i < ndim; i++) full[n++] = shape[i], each *= (size_t)shape[i];
    return st_tensor(name, DT_I32, n, full, data + (size_t)block * each);
}

int traces_tensors(const Traces *t, const Model *m, StTensor *tensors, char (*names)[96]) {
    const struct {
        const char *name;
        int *data, ndim, shape[3];
    } kinds[] = {{"clusters", t->clusters, 2, {t->C, t->k}},
                 {"groups", t->groups, 3, {t->heads, t->rounds, t->tokens}},
                 {"groups_key", t->groups_key, 3, {t->heads, t->rounds, t->tokens}}};
    int n = 0;
    for (int block = 0; block < t->depth; block++)
        for (int i = 0; i < 3; i++) {
            if (!kinds[i].data) continue;
            snprintf(names[n], sizeof names[n], "%s.%d", kinds[i].name, block);
            tensors[n] =
                tensor(t, m, names[n], kinds[i].data, block, kinds[i].shape, kinds[i].ndim);
            n++;
        }
    return n;
}
