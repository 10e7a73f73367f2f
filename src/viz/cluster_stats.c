#include "viz/cluster_stats.h"

#include <math.h>

#include "io/json_print.h"
#include "train/approximate.h"
#include "viz/viz.h"

/* ---- sums over documents ---- */

static void add_sizes(ClusterSums *s, const Clusters *c) {
    for (int i = 0; i < c->C; i++) {
        s->size += c->size[i];
        s->least = fmin(s->least, c->size[i]);
        s->most = fmax(s->most, c->size[i]);
        s->empty += c->size[i] == 0;
    }
    s->clusters += c->C;
}

static void add_tokens(ClusterSums *s, const Clusters *c) {
    for (int n = 0; n < c->N; n++) {
        const real *a = c->affinity ? c->affinity + (size_t)n * (size_t)c->C : NULL;
        double sum = 0, bits = 0;
        s->none += clusters_of_token(c, n) == 0;
        s->several += clusters_of_token(c, n) > 1;
        if (!c->affinity) continue;
        for (int i = 0; i < c->C; i++) sum += (double)a[i];
        if (!(sum > 0)) continue;
        for (int i = 0; i < c->C; i++) {
            const double p = (double)a[i] / sum;
            if (p > 0) bits -= p * log2(p);
        }
        s->entropy += bits;
        s->decided++;
    }
    s->tokens += c->N;
}

/* The mean square distance of tokens to their centroid: the mean of squares less the square of the
 * mean, of whole numbers and so exact. Token i of the text lies at (i % width, i / width), or at i
 * where width is 0. */
typedef struct Places {
    double n, x, y, square;
} Places;

static void add_place(Places *s, int i, int width) {
    const double x = width ? i % width : i, y = width ? i / width : 0;
    s->n++;
    s->x += x;
    s->y += y;
    s->square += x * x + y * y;
}

static double mean_square(const Places *s) {
    return s->square / s->n - (s->x * s->x + s->y * s->y) / (s->n * s->n);
}

static void add_compactness(ClusterSums *s, const Clusters *c, int cls, int width) {
    Places all = {0};
    for (int n = cls; n < c->N; n++) add_place(&all, n - cls, width);
    const double any = all.n > 1 ? mean_square(&all) * all.n / (all.n - 1) : 0;
    for (int i = 0; i < c->C && any > 0; i++) {
        Places own = {0};
        for (int j = 0; j < c->k; j++) {
            const int n = c->list[(size_t)i * (size_t)c->k + (size_t)j];
            if (n >= cls) add_place(&own, n - cls, width);
        }
        if (own.n < 2) continue;
        s->compactness += mean_square(&own) / (any * (own.n - 1) / own.n);
        s->spread++;
    }
}

void cluster_sums_add(ClusterSums *s, const Clusters *c, int cls, int width) {
    add_sizes(s, c);
    add_tokens(s, c);
    add_compactness(s, c, cls, width);
    s->documents++;
}

/* ---- surrogate tokens ---- */

static double cosine(const real *a, const real *b, int d) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < d; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static const Param *surrogates(const Trained *t, int layer) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.attn.surrogate", layer);
    return params_find(&t->config.model.params, name);
}

/* From where the seed had them begin; start NULL: that is not known. */
static void add_moved(LayerStats *l, const Trained *t, const real *start) {
    const Param *p = surrogates(t, l->layer);
    double sum = 0;
    l->moved = NAN;
    if (!p || !start) return;
    const int C = (int)p->shape[0], d = t->config.model.conf.d;
    for (int i = 0; i < C; i++) {
        const size_t at = p->at + (size_t)i * (size_t)d;
        sum += acos(fmax(-1, fmin(1, cosine(t->w + at, start + at, d))));
    }
    l->moved = sum / C * 180 / acos(-1);
}

static void add_cosines(LayerStats *l, const Trained *t) {
    const Model *m = &t->config.model;
    const Param *p = surrogates(t, l->layer);
    l->cosine = l->cosine_most = NAN;
    const int C = p ? (int)p->shape[0] : 0, d = m->conf.d;
    if (C < 2) return;
    double sum = 0, most = 0;
    for (int i = 0; i < C; i++)
        for (int j = 0; j < i; j++) {
            const double x = cosine(t->w + p->at + (size_t)i * (size_t)d,
                                    t->w + p->at + (size_t)j * (size_t)d, d);
            sum += x;
            if (fabs(x) > fabs(most)) most = x;
        }
    l->cosine = sum / (0.5 * C * (C - 1));
    l->cosine_most = most;
}

/* ---- the whole ---- */

typedef struct Collector {
    const Trained *t;
    Traces traces;
    ClusterSums *sums; /* (rows) */
    int width;
} Collector;

static void collect(void *ctx, const Batch *b) {
    Collector *c = ctx;
    const Model *m = &c->t->config.model;
    const int per = m->task.per_example, depth = m->conf.depth;
    const int cls = m->conf.pooling == POOL_CLS;
    for (int i = 0; i < b->n * per; i++)
        for (int l = 0; l < depth; l++)
            for (int p = 0; p < clusters_parts(&c->traces, -1); p++) {
                const ClusterPart part = clusters_part(&c->traces, l, -1, p);
                const int row = part.head < 0 ? l : l * m->conf.heads + part.head;
                Clusters k;
                clusters_open(&k, &c->traces, &c->traces.trace[i * depth + l], &part,
                              b->samples[i / per].length[i % per] + cls);
                cluster_sums_add(&c->sums[row], &k, cls, c->width);
                clusters_close(&k);
            }
}

int cluster_stats_rows(const Trained *t) {
    const Model *m = &t->config.model;
    return m->conf.depth * (m->mech->groups ? m->conf.heads : 1);
}

LayerStats cluster_sums_means(const ClusterSums *s) {
    return (LayerStats){
        .documents = s->documents,
        .tokens = s->tokens,
        .clusters = s->clusters / s->documents,
        .size = s->size / s->clusters,
        .least = s->least,
        .most = s->most,
        .empty = s->empty / s->clusters,
        .none = s->none / s->tokens,
        .several = s->several / s->tokens,
        .entropy = s->entropy / s->decided,
        .compactness = sqrt(s->compactness / s->spread),
    };
}

static bool run(Collector *c, Trained *t, int limit, Err *err) {
    const Watch watch = {.batch = collect, .ctx = c, .traces = c->traces.trace, .most = limit};
    Score score;
    return trained_evaluate(&score, t, "looking at clusters", &watch, err);
}

/* Of the weights: what is known without any example. */
static void add_weights(LayerStats *stats, const Trained *t) {
    const Config *c = &t->config;
    real *start = c->train.init[0] ? NULL : mem_alloc(c->model.params.total, sizeof *start);
    if (start) params_init(&c->model.params, start, (uint64_t)c->train.seed);
    for (int i = 0; i < cluster_stats_rows(t); i++) {
        add_cosines(&stats[i], t);
        add_moved(&stats[i], t, start);
    }
    mem_free(start);
}

static bool add_kept(LayerStats *stats, Trained *t, int limit, Err *err) {
    Approximation a;
    if (!approximate(&a, t, t, limit, err)) return false;
    for (int i = 0; i < cluster_stats_rows(t); i++) {
        const int layer = stats[i].layer, head = stats[i].head;
        const Nearness block = approximation_block(&a, layer);
        stats[i].kept = nearness_kept(head < 0 ? &block : &a.near[layer * a.heads + head]);
    }
    approximation_free(&a);
    return true;
}

bool cluster_stats(LayerStats *stats, Trained *t, int limit, bool kept, Err *err) {
    const Model *m = &t->config.model;
    const int rows = cluster_stats_rows(t);
    Collector c = {.t = t, .width = viz_width(t)};
    const int documents = t->config.train.batch * m->task.per_example;
    if (!clusters_traces(&c.traces, m, documents, t->from.path, err)) return false;
    c.sums = mem_alloc((size_t)rows, sizeof *c.sums);
    for (int i = 0; i < rows; i++) c.sums[i].least = INFINITY;
    bool ok = run(&c, t, limit, err);
    for (int i = 0; i < rows && ok; i++) {
        const int heads = rows / m->conf.depth, times = clusters_parts(&c.traces, -1) / heads;
        stats[i] = cluster_sums_means(&c.sums[i]);
        stats[i].documents /= times, stats[i].tokens /= times; /* each is in every round */
        stats[i].layer = i / heads, stats[i].head = m->mech->groups ? i % heads : -1;
        stats[i].kept = NAN;
    }
    if (ok) add_weights(stats, t);
    ok = ok && (!kept || add_kept(stats, t, limit, err));
    traces_close(&c.traces);
    mem_free(c.sums);
    return ok;
}

/* ---- what it says ---- */

/* A figure in its column, or a dash for one that has no value. */
static void print_figure(FILE *f, int width, double x) {
    if (isnan(x))
        fprintf(f, "%*s", width, "-");
    else
        fprintf(f, "%*.2f", width, fabs(x) < 0.005 ? 0 : x); /* without a sign */
}

static void print_layer(FILE *f, const LayerStats *s) {
    char name[16];
    snprintf(name, sizeof name, s->head < 0 ? "%d" : "%d.%d", s->layer, s->head);
    fprintf(f, "%5s %7.1f %6.0f %6.0f %5.1f%%   %5.1f%%   %5.1f%%  ", name, s->size, s->least,
            s->most, 100 * s->empty, 100 * s->none, 100 * s->several);
    print_figure(f, 9, s->entropy);
    print_figure(f, 11, s->cosine);
    print_figure(f, 9, s->cosine_most);
    print_figure(f, 7, s->moved);
    print_figure(f, 13, s->compactness);
    if (!isnan(s->kept)) print_figure(f, 9, 100 * s->kept);
    fputc('\n', f);
}

/* What the columns are; of those without a figure there is nothing to tell. */
static void print_legend(FILE *f, const LayerStats *s, double bits, bool plane) {
    fputc('\n', f);
    if (!isnan(s->entropy))
        fprintf(f,
                "entropy      how undecided a token's affinities are: 0 all for one cluster, %.2f "
                "all alike\n",
                bits);
    fprintf(f,
            "compactness  root of the mean square distance of a cluster's tokens from their "
            "centre, %s, over that\n             of random sets of as many: 1 spread like chance, "
            "0 all in one place\n",
            plane ? "in the plane" : "along the text");
    if (!isnan(s->moved))
        fputs("moved        mean angle of a surrogate token from where it began, in degrees\n", f);
    if (!isnan(s->kept))
        fputs("kept         the weight that exact attention has on the tokens that a token sees by "
              "themselves\n",
              f);
    if (s->head >= 0)
        fputs("layer        and head: each has groups of its own; their figures are means over "
              "rounds, and over\n             queries and keys where these are grouped apart\n",
              f);
}

void cluster_stats_print(FILE *f, const LayerStats *stats, const Trained *t) {
    const double bits = log2(stats->clusters);
    char entropy[32] = "        -";
    if (!isnan(stats->entropy)) snprintf(entropy, sizeof entropy, "%4.2f bits", bits);
    trained_print(f, t);
    fprintf(f, "looked at %.0f documents, %.0f tokens; %.0f clusters each\n\n", stats->documents,
            stats->tokens, stats->clusters);
    fprintf(f,
            "       tokens of a cluster       tokens in clusters      entropy %s    cosine of "
            "surrogates\n"
            "layer    mean  least   most  empty     none  several  %s       mean  "
            "largest  moved  compactness%s\n",
            isnan(stats->entropy) ? "  " : "of", entropy, isnan(stats->kept) ? "" : "  kept, %");
    for (int i = 0; i < cluster_stats_rows(t); i++) print_layer(f, &stats[i]);
    print_legend(f, stats, bits, viz_width(t));
}

static cJSON *layer_json(const LayerStats *s) {
    cJSON *o = cJSON_CreateObject();
    if (s->head >= 0) cJSON_AddNumberToObject(o, "layer", s->layer);
    if (s->head >= 0) cJSON_AddNumberToObject(o, "head", s->head);
    cJSON_AddNumberToObject(o, "documents", s->documents);
    cJSON_AddNumberToObject(o, "tokens", s->tokens);
    cJSON_AddNumberToObject(o, "clusters", s->clusters);
    cJSON_AddNumberToObject(o, "size", s->size);
    cJSON_AddNumberToObject(o, "least", s->least);
    cJSON_AddNumberToObject(o, "most", s->most);
    cJSON_AddNumberToObject(o, "empty", s->empty);
    cJSON_AddNumberToObject(o, "none", s->none);
    cJSON_AddNumberToObject(o, "several", s->several);
    cJSON_AddNumberToObject(o, "entropy_bits", s->entropy);
    cJSON_AddNumberToObject(o, "cosine", s->cosine);
    cJSON_AddNumberToObject(o, "cosine_largest", s->cosine_most);
    cJSON_AddNumberToObject(o, "moved_degrees", s->moved);
    cJSON_AddNumberToObject(o, "compactness", s->compactness);
    cJSON_AddNumberToObject(o, "kept", s->kept);
    return o;
}

void cluster_stats_print_json(FILE *f, const LayerStats *stats, const Trained *t) {
    cJSON *root = trained_json(t);
    cJSON *layers = cJSON_AddArrayToObject(root, "layers");
    for (int i = 0; i < cluster_stats_rows(t); i++)
        cJSON_AddItemToArray(layers, layer_json(&stats[i]));
    json_print(f, root);
    cJSON_Delete(root);
}
