#include "viz/clusters.h"

#include <stdio.h>

#include "core/log.h"

bool clusters_traces(Traces *t, const Model *m, int documents, const char *where, Err *err) {
    if (!m->mech->clusters && !m->mech->groups)
        return err_set(err, EX_DATAERR,
                       "%s: its attention is '%s', which has no clusters: there is nothing to show",
                       where, m->mech->name);
    traces_open(t, m, documents, m->max_tokens, TRACES_CHOICES | TRACES_AFFINITIES);
    return true;
}

/* ---- parts ---- */

static int sides(const Traces *t) { return t->groups_key ? 2 : 1; }

int clusters_parts(const Traces *t, int head) {
    return t->groups ? t->rounds * sides(t) * (head < 0 ? t->heads : 1) : 1;
}

ClusterPart clusters_part(const Traces *t, int layer, int head, int i) {
    const int each = t->rounds * sides(t);
    if (!t->groups) return (ClusterPart){layer, -1, -1, false};
    return (ClusterPart){layer, head < 0 ? i / each : head, i % each / sides(t), i % sides(t)};
}

static const char *name(char buf[CLUSTER_NAME], const Traces *t, const ClusterPart *p,
                        const char *between, const char *number) {
    buf[0] = '\0';
    format_add(buf, CLUSTER_NAME, "layer%s%d", number, p->layer);
    if (p->head < 0) return buf;
    format_add(buf, CLUSTER_NAME, "%shead%s%d", between, number, p->head);
    if (t->rounds > 1) format_add(buf, CLUSTER_NAME, "%sround%s%d", between, number, p->round);
    if (t->groups_key) format_add(buf, CLUSTER_NAME, "%s%s", between, p->keys ? "keys" : "queries");
    return buf;
}

const char *clusters_name(char buf[CLUSTER_NAME], const Traces *t, const ClusterPart *p) {
    return name(buf, t, p, ", ", " ");
}

const char *clusters_file(char buf[CLUSTER_NAME], const Traces *t, const ClusterPart *p) {
    return name(buf, t, p, "-", "");
}

/* ---- one document ---- */

/* Among a token's holders so far, by falling affinity; of equal ones the lower cluster first. */
static void insert(Clusters *c, int n, int have, int cluster) {
    const real *a = c->affinity ? c->affinity + (size_t)n * (size_t)c->C : NULL;
    int *h = c->holders + c->start[n], i = have;
    for (; i > 0 && c->affinity && a[h[i - 1]] < a[cluster]; i--) h[i] = h[i - 1];
    h[i] = cluster;
}

/* (C,k) from the group of each token, C and k the least that do. */
static void list_groups(Clusters *c, const int *group) {
    int most = 0;
    for (int n = 0; n < c->N; n++) most = group[n] > most ? group[n] : most;
    c->C = most + 1;
    int *count = mem_alloc((size_t)c->C, sizeof *count);
    for (int n = 0; n < c->N; n++)
        if (group[n] >= 0 && ++count[group[n]] > c->k) c->k = count[group[n]];
    const size_t slots = (size_t)c->C * (size_t)c->k;
    c->list = c->own = mem_alloc(slots, sizeof *c->own);
    for (size_t i = 0; i < slots; i++) c->own[i] = -1;
    for (int n = c->N - 1; n >= 0; n--)
        if (group[n] >= 0) c->own[(size_t)group[n] * (size_t)c->k + (size_t)--count[group[n]]] = n;
    mem_free(count);
}

void clusters_open(Clusters *c, const Traces *t, const AttnTrace *trace, const ClusterPart *part,
                   int N) {
    *c = (Clusters){.N = N, .C = t->C, .k = t->k};
    if (part->head < 0) {
        c->list = trace->clusters, c->affinity = trace->affinities;
    } else {
        const int *groups = part->keys ? trace->groups_key : trace->groups;
        list_groups(c, groups +
                           (size_t)(part->head * t->rounds + part->round) * (size_t)trace->stride);
    }
    const size_t k = (size_t)c->k, slots = (size_t)c->C * k;
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
    mem_free(c->own);
    *c = (Clusters){0};
}

void clusters_count(const Clusters *c, int from, int *none, int *several) {
    *none = *several = 0;
    for (int n = from; n < c->N; n++) {
        *none += clusters_of_token(c, n) == 0;
        *several += clusters_of_token(c, n) > 1;
    }
}
