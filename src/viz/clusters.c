#include "viz/clusters.h"

bool clusters_traces(Traces *t, const Model *m, int documents, const char *where, Err *err) {
    if (!m->mech->clusters)
        return err_set(err, EX_DATAERR,
                       "%s: its attention is '%s', which has no clusters: there is nothing to show",
                       where, m->mech->name);
    traces_open(t, m, documents, m->max_tokens, true);
    return true;
}

/* Among a token's holders so far, by falling affinity; of equal ones the lower cluster first. */
static void insert(Clusters *c, int n, int have, int cluster) {
    const real *a = c->affinity + (size_t)n * (size_t)c->C;
    int *h = c->holders + c->start[n], i = have;
    for (; i > 0 && a[h[i - 1]] < a[cluster]; i--) h[i] = h[i - 1];
    h[i] = cluster;
}

void clusters_open(Clusters *c, const Traces *t, const AttnTrace *trace, int N) {
    *c = (Clusters){N, t->C, t->k, trace->clusters, trace->affinities, NULL, NULL, NULL};
    const size_t k = (size_t)t->k, slots = (size_t)t->C * k;
    c->size = mem_alloc((size_t)c->C, sizeof *c->size);
    c->start = mem_alloc((size_t)N + 1, sizeof *c->start);
    int *have = mem_alloc((size_t)N, sizeof *have);
    for (size_t i = 0; i < slots; i++) {
        REQUIRE(c->list[i] < N, "token %d of %d", c->list[i], N);
        if (c->list[i] < 0) continue;
        c->size[i / k]++;
        c->start[c->list[i] + 1]++;
    }
    for (int n = 0; n < N; n++) c->start[n + 1] += c->start[n];
    c->holders = mem_alloc((size_t)c->start[N] + 1, sizeof *c->holders);
    for (size_t i = 0; i < slots; i++)
        if (c->list[i] >= 0) insert(c, c->list[i], have[c->list[i]]++, (int)(i / k));
    mem_free(have);
}

void clusters_close(Clusters *c) {
    mem_free(c->size);
    mem_free(c->start);
    mem_free(c->holders);
    *c = (Clusters){0};
}

void clusters_count(const Clusters *c, int from, int *none, int *several) {
    *none = *several = 0;
    for (int n = from; n < c->N; n++) {
        *none += clusters_of_token(c, n) == 0;
        *several += clusters_of_token(c, n) > 1;
    }
}
