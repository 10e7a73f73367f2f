#include "model/engine.h"

#include <math.h>
#include <string.h>

#include "attention/layer.h"
#include "core/log.h"
#include "core/ranks.h"
#include "model/crew.h"
#include "model/normalize.h"
#include "ops/norm.h"
#include "ops/xent.h"

/* ---- memory ---- */

static size_t doc_bytes(const Model *m) {
    Arena a = {0};
    doc_layout(&(Doc){0}, &a, m, m->max_tokens);
    return a.used;
}

/* Documents' memory: of a whole batch where batch norm couples it, else of a sample a thread.
 * Evaluation, which nothing couples, uses a sample's worth for each thread of either. */
static void layout_documents(Engine *e, Arena *a) {
    const Model *m = e->m;
    const size_t threads = (size_t)lanes_threads(), B = (size_t)e->max_batch;
    const size_t per = (size_t)m->task.per_example, bytes = per * doc_bytes(m);
    const size_t samples = e->coupled && B > threads ? B : threads;
    char *memory = arena_take(a, samples, bytes);
    for (size_t i = 0; i < threads && a->base; i++)
        e->workers[i].memory = (Arena){memory + i * bytes, 0, bytes};
    if (!e->coupled) return;
    e->docs = arena_take(a, B * per, sizeof *e->docs);
    e->docs_memory = (Arena){memory, 0, samples * bytes};
}

static void layout_parts(Engine *e, Arena *a) {
    const Model *m = e->m;
    const size_t threads = (size_t)lanes_threads();
    const size_t job = attn_memory(m->mech, m->attn, m->max_tokens).job.used;
    e->tiles = arena_take(a, threads, sizeof *e->tiles);
    e->jobs = arena_take(a, threads, sizeof *e->jobs);
    for (size_t i = 0; i < threads; i++) {
        TileScratch tile;
        tiles_layout(&tile, a, m);
        const Arena part = arena_part(a, job);
        if (a->base) e->tiles[i] = tile, e->jobs[i] = part;
    }
}

static void layout_workers(Engine *e, Arena *a) {
    layout_parts(e, a);
    e->workers = arena_take(a, (size_t)lanes_threads(), sizeof *e->workers);
    for (int i = 0; i < lanes_threads(); i++) {
        Worker k = {.encoder = {.tiles = e->tiles, .jobs = e->jobs}};
        encoder_layout(&k.encoder, a, e->m);
        head_layout(&k.head, a, e->m);
        if (e->m->task.masked > 0) lm_layout(&k.lm, a, e->m);
        if (a->base) e->workers[i] = k;
    }
    layout_documents(e, a);
}

static void layout_batch_norm(Engine *e, Arena *a) {
    const size_t d = (size_t)e->m->conf.d, n = (size_t)e->m->nnorms;
    e->stats = arena_take(a, n, sizeof *e->stats);
    for (size_t i = 0; i < n; i++) {
        BatchStats s = {.mean = arena_reals(a, d), .rstd = arena_reals(a, d)};
        if (a->base) e->stats[i] = s;
    }
    if (!e->coupled) return;
    e->running = arena_reals(a, 2 * n * d);
    e->moments = arena_reals(a, (size_t)(e->max_batch * e->m->task.per_example) * 2 * d);
}

static void layout(Engine *e, Arena *a) {
    const Model *m = e->m;
    const size_t total = m->params.total;
    e->wt = arena_reals(a, total);
    fold_layout(&e->fold, a, m);
    layout_workers(e, a);
    deal_layout(&e->deal, a, e->max_batch, e->lanes, e->ranks);
    if (m->conf.norm == NORM_BATCH) layout_batch_norm(e, a);
    if (!e->train) return;
    lanepool_layout(&e->pool, a, e->lanes, total);
    if (e->coupled || e->fold.on) e->batch_grads = arena_reals(a, total);
}

static void describe(Engine *e, const Model *m, int max_batch, int lanes, bool train) {
    *e = (Engine){.m = m, .max_batch = max_batch, .train = train, .ranks = ranks_count()};
    e->lanes = lanes < max_batch ? lanes : max_batch;
    e->coupled = train && m->conf.norm == NORM_BATCH;
}

size_t engine_bytes(const Model *m, int max_batch, int lanes) {
    Engine e;
    describe(&e, m, max_batch, lanes, true);
    layout(&e, &e.memory);
    return e.memory.used;
}

/* Whether others do what this engine does. */
static bool leads(const Engine *e) { return e->ranks > 1 && ranks_me() == 0; }

bool engine_open(Engine *e, const Model *m, int max_batch, int lanes, bool train, Err *err) {
    describe(e, m, max_batch, lanes, train);
    layout(e, &e->memory);
    if (!arena_open(&e->memory, e->memory.used, err)) return false;
    layout(e, &e->memory);
    if (e->ranks > 1) e->pool.cuts = e->deal.cuts;
    if (!leads(e) || crew_hire(e->m, e->max_batch, e->lanes, e->train, err)) return true;
    arena_close(&e->memory);
    return false;
}

void engine_close(Engine *e) {
    if (leads(e) && e->memory.base) crew_release();
    arena_close(&e->memory);
    *e = (Engine){0};
}

void engine_weights(Engine *e, const real *w) {
    if (leads(e)) crew_weights(e->m, w);
    e->w = w;
    params_transpose(&e->m->params, e->wt, w);
    if (e->fold.on) fold_tables(&e->fold, e->m, w, e->wt);
}

/* ---- samples ---- */

typedef struct Run {
    Engine *e;
    Pass pass;
    const Sample *samples;
    const Outcome *out;
    AttnTrace *traces;
    RngKey key;
    double scale, smoothing;
    int lanes;
    int ranks;   /* that evaluate: 1, or the engine's */
    int segment; /* of a coupled run */
} Run;

static void layout_docs(const Run *r, int sample, Doc *docs, Arena *memory) {
    const Model *m = r->pass.m;
    for (int i = 0; i < m->task.per_example; i++) {
        const Sample *s = &r->samples[sample];
        doc_layout(&docs[i], memory, m, model_tokens(m, s->length[i]));
        const size_t at = (size_t)sample * (size_t)m->task.per_example + (size_t)i;
        docs[i].ids = s->ids[i];
        docs[i].key = rng_subkey(rng_subkey(r->key, (uint64_t)s->number), (uint64_t)i);
        docs[i].trace = r->traces ? r->traces + at * (size_t)m->conf.depth : NULL;
        docs[i].meter = NULL;
    }
}

static void classify(const Run *r, int sample, const Doc *docs, HeadScratch *head, bool train) {
    const int K = r->pass.m->task.classes, label = r->samples[sample].label;
    head_forward(&r->pass, docs, head);
    memset(head->dlogits, 0, (size_t)K * sizeof(real));
    real *dlogits = train ? head->dlogits : NULL;
    const double loss = xent(dlogits, head->logits, label, r->scale, r->smoothing, K);
    if (r->out->loss) r->out->loss[sample] = loss;
    const int predicted = xent_argmax(head->logits, K);
    if (r->out->predicted) r->out->predicted[sample] = predicted;
    if (r->out->correct) r->out->correct[sample] = predicted == label;
    if (r->out->logits)
        memcpy(r->out->logits + (size_t)sample * (size_t)K, head->logits, (size_t)K * sizeof(real));
}

static void guess(const Run *r, int sample, int which, Doc *doc, Worker *k, real *dw) {
    const Outcome *out = r->out;
    const Model *m = r->pass.m;
    const size_t document = (size_t)sample * (size_t)m->task.per_example + (size_t)which;
    const size_t row = document * (size_t)out->room;
    real *logits = out->logits ? out->logits + row * (size_t)m->task.vocab : NULL;
    const LmOutcome sum = lm_step(&r->pass, doc, r->samples[sample].targets[which], k->encoder.x,
                                  &k->lm, r->scale, r->smoothing, dw, logits);
    if (out->loss) out->loss[sample] = (which ? out->loss[sample] : 0) + sum.loss;
    if (out->correct) out->correct[sample] = (which ? out->correct[sample] : 0) + sum.correct;
}

/* The last segment forward and the loss; with dw from there back to where the segment ends. */
static void turn(const Run *r, int sample, Doc *docs, Worker *k, real *dw) {
    const Model *m = r->pass.m;
    for (int i = 0; i < m->task.per_example; i++) {
        segment_forward(&r->pass, &docs[i], &k->encoder, m->nsegments - 1);
        if (m->task.masked > 0) guess(r, sample, i, &docs[i], k, dw);
    }
    if (m->task.masked > 0) return;
    classify(r, sample, docs, &k->head, dw != NULL);
    if (dw) head_backward(&r->pass, docs, &k->head, dw);
}

/* All segments of a sample forward, and backward unless dw is NULL. */
static void whole_sample(const Run *r, int sample, Worker *k, real *dw) {
    const Model *m = r->pass.m;
    k->memory.used = 0;
    layout_docs(r, sample, k->docs, &k->memory);
    for (int i = 0; i < m->task.per_example; i++)
        for (int s = 0; s < m->nsegments - 1; s++)
            segment_forward(&r->pass, &k->docs[i], &k->encoder, s);
    turn(r, sample, k->docs, k, dw);
    for (int i = 0; i < m->task.per_example && dw; i++)
        for (int s = m->nsegments - 1; s >= 0; s--)
            segment_backward(&r->pass, &k->docs[i], &k->encoder, s, dw);
}

/* ---- lanes ---- */

#define FOR_LANE(i, e, lane)                                                                       \
    for (int i = (e)->deal.lane_start[lane]; i < (e)->deal.lane_start[(lane) + 1]; i++)

static void train_lane(void *ctx, int lane, int thread, real *dw) {
    const Run *r = ctx;
    FOR_LANE(i, r->e, lane) whole_sample(r, r->e->deal.order[i], &r->e->workers[thread], dw);
}

static void sum_lanes(Run *r, LaneSumJob *job, real *sums, size_t from, size_t to) {
    lanes_sum(&r->e->pool, r->lanes, job, r, sums, from, to);
    r->e->seconds += r->e->pool.seconds;
}

/* Where nothing is summed a sample is a lane, the longest first, so that threads end closer
 * together. Ranks take them in turn. */
static void evaluate_sample(void *ctx, int lane, int thread) {
    const Run *r = ctx;
    const int at = r->ranks > 1 ? lane * r->ranks + ranks_me() : lane;
    whole_sample(r, r->e->deal.longest_first[at], &r->e->workers[thread], NULL);
}

/* ---- batch norm: segment by segment ---- */

static Doc *coupled_docs(const Run *r, int sample) {
    return r->e->docs + (size_t)sample * (size_t)r->pass.m->task.per_example;
}

/* Mean and squares (2,d) of a document's rows. */
static real *moments_of(const Engine *e, const Doc *doc) {
    return e->moments + (size_t)(doc - e->docs) * 2 * (size_t)e->m->conf.d;
}

/* One segment forward, and the moments of the rows that it leaves. */
static void forward_sample(void *ctx, int lane, int thread) {
    const Run *r = ctx;
    const int d = r->pass.m->conf.d;
    const int sample = r->e->deal.longest_first[lane];
    if (r->e->ranks > 1 && r->e->deal.rank_of[sample] != ranks_me()) return;
    for (int j = 0; j < r->pass.m->task.per_example; j++) {
        Doc *doc = &coupled_docs(r, sample)[j];
        real *mean = moments_of(r->e, doc);
        segment_forward(&r->pass, doc, &r->e->workers[thread].encoder, r->segment);
        batchnorm_moments(mean, mean + d, segment_output(r->pass.m, doc, r->segment), doc->N, d);
    }
}

/* The last segment forward, the head, and the last segment backward unless dw is NULL. */
static void turn_lane(void *ctx, int lane, int thread, real *dw) {
    const Run *r = ctx;
    const int last = r->pass.m->nsegments - 1, per = r->pass.m->task.per_example;
    Worker *k = &r->e->workers[thread];
    FOR_LANE(i, r->e, lane) {
        const int sample = r->e->deal.order[i];
        Doc *docs = coupled_docs(r, sample);
        turn(r, sample, docs, k, dw);
        for (int j = 0; j < per && dw; j++)
            segment_backward(&r->pass, &docs[j], &k->encoder, last, dw);
    }
}

static void backward_lane(void *ctx, int lane, int thread, real *dw) {
    const Run *r = ctx;
    FOR_LANE(i, r->e, lane)
    for (int j = 0; j < r->pass.m->task.per_example; j++)
        segment_backward(&r->pass, &coupled_docs(r, r->e->deal.order[i])[j],
                         &r->e->workers[thread].encoder, r->segment, dw);
}

/* A lane of a step whose gradients nobody wants. */
static void forward_lane(void *ctx, int lane, int thread) {
    const Run *r = ctx;
    (r->e->coupled ? turn_lane : train_lane)(ctx, lane, thread, NULL);
}

/* Of feature j: the mean of all documents' rows; returns the sum of squares around it. */
static double gather_moments(const Engine *e, int docs, int j, double population, real *mean) {
    const int d = e->m->conf.d;
    double sum = 0, squares = 0;
    for (int i = 0; i < docs; i++) sum += e->docs[i].N * (double)moments_of(e, &e->docs[i])[j];
    *mean = (real)(sum / population);
    for (int i = 0; i < docs; i++) {
        const real *of = moments_of(e, &e->docs[i]);
        const double off = (double)of[j] - (double)*mean;
        squares += (double)of[d + j] + e->docs[i].N * off * off;
    }
    return squares;
}

/* running = 0.9 running + 0.1 new, the variance unbiased; a population of one has none. */
static void update_running(const Engine *e, int norm, int j, double mean, double squares,
                           double population) {
    real *rm = e->running + (size_t)(norm * 2 * e->m->conf.d + j), *rv = rm + e->m->conf.d;
    *rm += (real)(BATCH_MOMENTUM * (mean - (double)*rm));
    if (population > 1) *rv += (real)(BATCH_MOMENTUM * (squares / (population - 1) - (double)*rv));
}

static void normalise_batch(Run *r, int B, double population) {
    Engine *e = r->e;
    BatchStats *s = &e->stats[r->segment];
    const NormAt *at = &e->m->norms[r->segment];
    s->population = population;
    s->dg = e->batch_grads + at->g;
    s->db = e->batch_grads + at->b;
    const double start = clock_seconds();
    lanes_run_sharing(B, forward_sample, r);
    e->seconds += clock_seconds() - start;
    if (e->ranks > 1)
        crew_moments(&e->deal, B, e->moments,
                     2 * (size_t)e->m->conf.d * (size_t)e->m->task.per_example);
    for (int j = 0; j < e->m->conf.d; j++) {
        const int docs = B * e->m->task.per_example;
        const double squares = gather_moments(e, docs, j, population, &s->mean[j]);
        /* a token alone is its own mean, whatever rstd; 0 keeps rounding out of its gradient */
        s->rstd[j] = population > 1 ? (real)(1 / sqrt(squares / population + BATCH_EPS)) : 0;
        update_running(e, r->segment, j, (double)s->mean[j], squares, population);
    }
}

/* What the segment before reads of the sums over the batch. */
static void tell_norm(const Engine *e, int segment, real *sums) {
    if (e->ranks < 2 || segment == 0) return;
    const NormAt *at = &e->m->norms[segment - 1];
    ranks_broadcast(sums + at->g, (size_t)e->m->conf.d * sizeof *sums);
    ranks_broadcast(sums + at->b, (size_t)e->m->conf.d * sizeof *sums);
}

static void step_coupled(Run *r, int B, real *sums) {
    Engine *e = r->e;
    const Model *m = e->m;
    double population = 0;
    e->docs_memory.used = 0;
    for (int i = 0; i < B; i++) {
        layout_docs(r, i, coupled_docs(r, i), &e->docs_memory);
        for (int j = 0; j < m->task.per_example; j++) population += coupled_docs(r, i)[j].N;
    }
    const int last = m->nsegments - 1;
    for (r->segment = 0; r->segment < last; r->segment++) normalise_batch(r, B, population);
    if (!sums) {
        lanes_run_sharing(r->lanes, forward_lane, r);
        return;
    }
    sum_lanes(r, turn_lane, sums, m->segment_at[last], m->segment_at[last + 1]);
    tell_norm(e, last, sums);
    for (r->segment = last - 1; r->segment >= 0; r->segment--) {
        sum_lanes(r, backward_lane, sums, r->segment ? m->segment_at[r->segment] : e->fold.from,
                  m->segment_at[r->segment + 1]);
        tell_norm(e, r->segment, sums);
    }
}

/* The sums of a batch join the gradients of the update; what the folded embedding summed goes
 * through its projection. */
static void add_batch(Engine *e, real *grads) {
    const Model *m = e->m;
    const size_t from = e->fold.on ? m->embedding_reals : 0;
    for (size_t i = from; i < m->params.total; i++) grads[i] += e->batch_grads[i];
    if (e->fold.on) fold_gradients(&e->fold, m, e->w, e->batch_grads, grads);
}

/* What samples take: the products that their documents need, which time is near to. */
static void weigh_samples(Engine *e, const Sample *samples, int B) {
    for (int i = 0; i < B; i++) {
        e->deal.work[i] = model_head_flops(e->m);
        for (int j = 0; j < e->m->task.per_example; j++)
            e->deal.work[i] += model_flops(e->m, samples[i].length[j]);
    }
}

/* What the others' samples gave, and how fast they were. */
static void end_with_ranks(Engine *e, int B, const Outcome *out) {
    crew_outcomes(&e->deal, B, out);
    crew_seconds(&e->deal, e->seconds);
    if (!leads(e)) return;
    deal_learn(&e->deal, B);
    e->deal.sum_seconds = e->pool.sum_seconds * (double)(e->m->params.total - e->fold.from);
}

/* ---- entry points ---- */

void engine_step(Engine *e, const Sample *samples, int B, double scale, RngKey key, real *grads,
                 const Outcome *out, AttnTrace *traces) {
    REQUIRE(e->train && B <= e->max_batch, "a batch of %d in an engine for %d", B, e->max_batch);
    REQUIRE(e->ranks == 1 || (grads && !traces && !out->logits),
            "ranks send gradients, no logits and no traces");
    if (leads(e))
        crew_batch(e->m, &e->deal, (Call){CREW_STEP, B, scale, e->smoothing, key}, samples);
    Run r = {.e = e, .samples = samples, .out = out, .traces = traces, .key = key, .scale = scale};
    r.smoothing = e->smoothing;
    r.pass = (Pass){e->m, e->w, e->wt, e->stats, &e->fold, true};
    weigh_samples(e, samples, B);
    r.lanes = deal_lanes(&e->deal, B);
    e->seconds = 0;
    const size_t total = e->m->params.total;
    real *sums = grads && e->batch_grads ? e->batch_grads : grads;
    if (sums != grads) memset(sums, 0, total * sizeof *sums);
    if (e->coupled)
        step_coupled(&r, B, sums);
    else if (sums)
        sum_lanes(&r, train_lane, sums, e->fold.from, total);
    else
        lanes_run_sharing(r.lanes, forward_lane, &r);
    if (e->ranks > 1) end_with_ranks(e, B, out);
    if (sums != grads && (e->ranks == 1 || leads(e))) add_batch(e, grads);
}

static void running_stats(Engine *e) {
    const int d = e->m->conf.d;
    for (int i = 0; i < e->m->nnorms; i++) {
        const NormAt *at = &e->m->norms[i];
        memcpy(e->stats[i].mean, e->w + at->mean, (size_t)d * sizeof(real));
        for (int j = 0; j < d; j++)
            e->stats[i].rstd[j] = (real)(1 / sqrt((double)e->w[at->var + (size_t)j] + BATCH_EPS));
    }
}

static Run evaluation(Engine *e, const Sample *samples, const Outcome *out, AttnTrace *traces) {
    Run r = {.e = e, .samples = samples, .out = out, .traces = traces};
    r.pass = (Pass){e->m, e->w, e->wt, e->stats, &e->fold, false};
    if (e->m->conf.norm == NORM_BATCH) running_stats(e);
    return r;
}

void engine_evaluate(Engine *e, const Sample *samples, int B, const Outcome *out,
                     AttnTrace *traces) {
    REQUIRE(B <= e->max_batch, "a batch of %d in an engine for %d", B, e->max_batch);
    Run r = evaluation(e, samples, out, traces);
    r.ranks = traces || out->logits ? 1 : e->ranks;
    if (r.ranks > 1 && leads(e))
        crew_batch(e->m, &e->deal, (Call){.order = CREW_EVALUATE, .B = B}, samples);
    weigh_samples(e, samples, B);
    deal_sort(&e->deal, B);
    for (int i = 0; i < B; i++) e->deal.rank_of[e->deal.longest_first[i]] = i % r.ranks;
    const int me = r.ranks > 1 ? ranks_me() : 0;
    lanes_run_sharing((B - me + r.ranks - 1) / r.ranks, evaluate_sample, &r);
    if (r.ranks > 1) crew_outcomes(&e->deal, B, out);
}

typedef struct Walk {
    const Run *r;
    EngineLook *look;
    void *ctx;
} Walk;

static void walk_sample(void *ctx, int lane, int thread) {
    const Walk *w = ctx;
    const Pass *p = &w->r->pass;
    const int per = p->m->task.per_example;
    Worker *k = &w->r->e->workers[thread];
    k->memory.used = 0;
    layout_docs(w->r, 0, k->docs, &k->memory);
    for (int i = 0; i < per; i++) {
        for (int s = 0; s < p->m->nsegments; s++) segment_forward(p, &k->docs[i], &k->encoder, s);
        w->look(w->ctx, p, k, i);
    }
    if (p->m->task.masked > 0) return;
    head_forward(p, k->docs, &k->head);
    w->look(w->ctx, p, k, per);
}

void engine_walk(Engine *e, const Sample *s, EngineLook *look, void *ctx) {
    const Run r = evaluation(e, s, NULL, NULL);
    Walk w = {&r, look, ctx};
    lanes_run_sharing(1, walk_sample, &w);
}

void engine_begin_update(Engine *e) {
    if (!e->coupled) return;
    const size_t d = (size_t)e->m->conf.d;
    for (int i = 0; i < e->m->nnorms; i++) {
        memcpy(e->running + (size_t)i * 2 * d, e->w + e->m->norms[i].mean, d * sizeof(real));
        memcpy(e->running + ((size_t)i * 2 + 1) * d, e->w + e->m->norms[i].var, d * sizeof(real));
    }
}

void engine_commit(Engine *e, real *w) {
    if (!e->coupled) return;
    const size_t d = (size_t)e->m->conf.d;
    for (int i = 0; i < e->m->nnorms; i++) {
        memcpy(w + e->m->norms[i].mean, e->running + (size_t)i * 2 * d, d * sizeof(real));
        memcpy(w + e->m->norms[i].var, e->running + ((size_t)i * 2 + 1) * d, d * sizeof(real));
    }
}
