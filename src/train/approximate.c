#include "train/approximate.h"

#include <math.h>

/* ---- documents, a block of one at a time on any thread ---- */

typedef struct Job {
    const real *X;
    int N, layer;
} Job;

typedef struct Comparer {
    Pass pass;
    Approximation *a;
    Arena memory;
    NearScratch *scratch; /* (threads) */
    Job *job;             /* (most) */
    Nearness *near;       /* (most,heads) */
} Comparer;

static void layout(Comparer *c, Arena *a, int most) {
    const Model *m = c->pass.m;
    const int threads = lanes_threads();
    c->scratch = arena_take(a, (size_t)threads, sizeof *c->scratch);
    c->job = arena_take(a, (size_t)most, sizeof *c->job);
    c->near = arena_take(a, (size_t)most * (size_t)m->conf.heads, sizeof *c->near);
    for (int i = 0; i < threads; i++) {
        NearScratch none;
        nearness_layout(c->scratch ? &c->scratch[i] : &none, a, m);
    }
}

/* For up to `most` jobs at a time. */
static bool open_comparer(Comparer *c, Approximation *a, const Pass *pass, int most, Err *err) {
    const ModelConf *k = &pass->m->conf;
    *a = (Approximation){.depth = k->depth, .heads = k->heads};
    *c = (Comparer){.pass = *pass, .a = a};
    layout(c, &c->memory, most);
    if (!mem_fits(c->memory.used, err) || !arena_open(&c->memory, c->memory.used, err))
        return false;
    layout(c, &c->memory, most);
    a->near = mem_alloc((size_t)(k->depth * k->heads), sizeof *a->near);
    return true;
}

static void run_job(void *ctx, int i, int thread) {
    const Comparer *c = ctx;
    const Job *j = &c->job[i];
    nearness_of(c->near + i * c->a->heads, &c->pass, &c->scratch[thread], j->layer, j->X, j->N);
}

static void run_jobs(const Comparer *c, int jobs) {
    Comparer mine = *c;
    lanes_run(jobs, run_job, &mine);
    for (int i = 0; i < jobs; i++)
        for (int h = 0; h < c->a->heads; h++)
            nearness_add(&c->a->near[c->job[i].layer * c->a->heads + h],
                         &c->near[i * c->a->heads + h]);
}

void approximation_free(Approximation *a) {
    mem_free(a->near);
    *a = (Approximation){0};
}

/* ---- of a trained model ---- */

typedef struct Collector {
    Comparer *comparer;
    const Trained *t;
    Traces traces;
} Collector;

static void collect(void *ctx, const Batch *b) {
    const Collector *k = ctx;
    const Model *m = &k->t->config.model;
    Comparer *c = k->comparer;
    const int per = m->task.per_example, depth = m->conf.depth;
    for (int i = 0; i < b->n * per; i++) {
        const int N = model_tokens(m, b->samples[i / per].length[i % per]);
        for (int l = 0; l < depth; l++)
            c->job[i * depth + l] = (Job){k->traces.trace[i * depth + l].input, N, l};
        c->a->tokens += N;
    }
    c->a->documents += b->n * per;
    run_jobs(c, b->n * per * depth);
}

static bool run_split(Collector *k, Trained *t, int limit, Err *err) {
    Score score;
    const Watch watch = {.batch = collect, .ctx = k, .traces = k->traces.trace, .most = limit};
    return trained_evaluate(&score, t, "comparing", &watch, err);
}

bool approximate(Approximation *a, Trained *t, const Trained *other, int limit, Err *err) {
    Comparer c;
    Collector k = {.comparer = &c, .t = t};
    const Model *m = &t->config.model;
    const int documents = t->config.train.batch * m->task.per_example;
    if (other->config.model.max_tokens < m->max_tokens)
        return err_set(err, EX_CONFIG,
                       "model.max_length=%d: documents are as long as in training, %d tokens",
                       other->config.model.conf.max_length, m->conf.max_length);
    const Pass pass = {.m = &other->config.model, .w = other->engine.w, .wt = other->engine.wt};
    if (!open_comparer(&c, a, &pass, documents * m->conf.depth, err)) return false;
    traces_open(&k.traces, m, documents, m->max_tokens, TRACES_INPUTS);
    const bool ok = run_split(&k, t, limit, err);
    traces_close(&k.traces);
    arena_close(&c.memory);
    if (!ok) approximation_free(a);
    return ok;
}

/* ---- on random numbers ---- */

typedef struct RandomModel {
    Arena memory;
    real *w, *wt, *X; /* X: (documents,max_tokens,d) */
} RandomModel;

static void layout_random(RandomModel *r, Arena *a, const Model *m, int documents) {
    r->w = arena_reals(a, m->params.total);
    r->wt = arena_reals(a, m->params.total);
    r->X = arena_reals(a, (size_t)documents * (size_t)m->max_tokens * (size_t)m->conf.d);
}

/* Of X in N(0,1), queries, keys and values in N(0,1). */
static void draw_random(RandomModel *r, const Config *c, int documents) {
    const Model *m = &c->model;
    const size_t d = (size_t)m->conf.d, n = (size_t)documents * (size_t)m->max_tokens * d;
    const RngKey key = rng_subkey_name(rng_key((uint64_t)c->train.seed), "approximate");
    params_init(&m->params, r->w, (uint64_t)c->train.seed);
    for (int l = 0; l < m->conf.depth; l++)
        for (int i = 0; i < ATTN_O; i++) {
            const RngKey own = rng_subkey(key, (uint64_t)(l * ATTN_O + i + 1));
            real *w = r->w + m->blocks[l].attn[i].w;
            if (!(m->mech->projections & ATTN_HAS(i))) continue;
            rng_fill_normal(w, (int64_t)(d * d), own, 0, 1 / sqrt((double)d));
        }
    rng_fill_normal(r->X, (int64_t)n, key, 0, 1);
    params_transpose(&m->params, r->wt, r->w);
}

static void run_random(Comparer *c, const RandomModel *r, int documents) {
    const Model *m = c->pass.m;
    const size_t each = (size_t)m->max_tokens * (size_t)m->conf.d;
    for (int i = 0; i < documents; i++)
        for (int l = 0; l < m->conf.depth; l++)
            c->job[i * m->conf.depth + l] = (Job){r->X + (size_t)i * each, m->max_tokens, l};
    c->a->documents = documents, c->a->tokens = (double)documents * m->max_tokens;
    run_jobs(c, documents * m->conf.depth);
}

bool approximate_random(Approximation *a, const Config *conf, int documents, Err *err) {
    Comparer c;
    RandomModel r = {0};
    const Model *m = &conf->model;
    layout_random(&r, &r.memory, m, documents);
    if (!mem_fits(r.memory.used, err) || !arena_open(&r.memory, r.memory.used, err)) return false;
    layout_random(&r, &r.memory, m, documents);
    draw_random(&r, conf, documents);
    const Pass pass = {.m = m, .w = r.w, .wt = r.wt};
    const bool ok = open_comparer(&c, a, &pass, documents * m->conf.depth, err);
    if (ok) run_random(&c, &r, documents);
    arena_close(&c.memory);
    arena_close(&r.memory);
    return ok;
}

/* ---- what it says ---- */

static Nearness sum_of(const Nearness *x, int n) {
    Nearness sum = {0};
    for (int i = 0; i < n; i++) nearness_add(&sum, &x[i]);
    return sum;
}

Nearness approximation_block(const Approximation *a, int layer) {
    return sum_of(a->near + layer * a->heads, a->heads);
}

static Nearness approximation_all(const Approximation *a) {
    return sum_of(a->near, a->depth * a->heads);
}

static void print_row(FILE *f, const char *name, const Nearness *x) {
    fprintf(f, "%9s %8.2f %%", name, 100 * nearness_error(x));
    if (isnan(x->kept))
        fprintf(f, " %10s\n", "-");
    else
        fprintf(f, " %8.2f %%\n", 100 * nearness_kept(x));
}

void approximation_print(FILE *f, const Approximation *a) {
    char name[32];
    const Nearness all = approximation_all(a);
    fprintf(f,
            "%d documents, %.0f tokens; %.2f %% of exact attention's FLOPs between the "
            "projections\n\n%9s %10s %10s\n",
            a->documents, a->tokens, 100 * nearness_flops(&all), "", "error", "kept");
    for (int l = 0; l < a->depth; l++)
        for (int h = 0; h < a->heads; h++) {
            snprintf(name, sizeof name, "%d.%d", l, h);
            print_row(f, name, &a->near[l * a->heads + h]);
        }
    print_row(f, "all", &all);
    fputs("\nerror  norm of the difference to exact attention's output over that output's norm, "
          "before the projection o,\n       by layer.head; inputs are the same\n"
          "kept   exact attention's weight on the keys that a query sees by themselves, mean over "
          "queries\n",
          f);
}

static void add_pair(cJSON *o, const Nearness *x) {
    cJSON_AddNumberToObject(o, "error", nearness_error(x));
    cJSON_AddNumberToObject(o, "kept", nearness_kept(x));
}

void approximation_json(cJSON *o, const Approximation *a) {
    const Nearness all = approximation_all(a);
    cJSON_AddNumberToObject(o, "documents", a->documents);
    cJSON_AddNumberToObject(o, "tokens", a->tokens / a->documents);
    cJSON_AddNumberToObject(o, "flops_share", nearness_flops(&all));
    add_pair(o, &all);
    cJSON *list = cJSON_AddArrayToObject(o, "heads");
    for (int i = 0; i < a->depth * a->heads; i++) {
        cJSON *head = cJSON_CreateObject();
        cJSON_AddNumberToObject(head, "layer", i / a->heads);
        cJSON_AddNumberToObject(head, "head", i % a->heads);
        add_pair(head, &a->near[i]);
        cJSON_AddItemToArray(list, head);
    }
}
