#include "train/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu.h"
#include "core/gemm.h"
#include "core/log.h"
#include "core/peak.h"
#include "core/ranks.h"
#include "core/version.h"
#include "io/json.h"
#include "model/engine.h"
#include "train/loader.h"
#include "train/update.h"
#include "train/usage.h"

enum { MOST_STEPS = 4096, PART_REPEATS = 3 };

typedef struct Bench {
    const Config *c;
    const Model *m;
    Engine engine;
    Arena memory;
    State state;
    real *grads;
    Update update;
    Loader loader; /* closed: random tokens */
    bool data;
    Sample *samples;
    int *ids, *masked; /* masked: its ids with some of them masked, in masked training */
    double *loss;
    double step[MOST_STEPS]; /* a batch and its share of an update */
    int nsteps, nbatches;
} Bench;

static void layout(Bench *b, Arena *a) {
    const size_t total = b->m->params.total, B = (size_t)b->c->train.batch;
    state_layout(&b->state, a, &b->m->params, b->c->train.ema > 0);
    b->grads = arena_reals(a, total);
    b->samples = arena_take(a, B, sizeof *b->samples);
    b->ids = arena_ints(a, B * (size_t)(b->m->task.per_example * b->m->conf.max_length));
    if (b->m->task.masked > 0)
        b->masked = arena_ints(a, B * (size_t)(b->m->task.per_example * b->m->conf.max_length));
    b->loss = arena_take(a, B, sizeof *b->loss);
    if (b->data) loader_layout(&b->loader, a);
}

static void mask(Bench *b) {
    const Model *m = b->m;
    const int L = m->conf.max_length, count = b->c->train.batch * m->task.per_example;
    for (int i = 0; i < count; i++) {
        Sample *s = &b->samples[i / m->task.per_example];
        int *ids = b->masked + (size_t)i * (size_t)L;
        memcpy(ids, b->ids + (size_t)i * (size_t)L, (size_t)L * sizeof *ids);
        lm_mask(ids, L, model_masked(m, L), rng_subkey(rng_key(2), (uint64_t)i));
        s->targets[i % m->task.per_example] = s->ids[i % m->task.per_example];
        s->ids[i % m->task.per_example] = ids;
    }
}

/* Random tokens. Which clusters they form changes little of what a step costs: a mechanism that
 * spares tokens in no cluster finds about as many as among real ones. */
static void fill(Bench *b) {
    const Model *m = b->m;
    const RngKey key = rng_subkey_name(rng_key(1), "bench");
    const int L = m->conf.max_length, per = m->task.per_example;
    const size_t count = (size_t)b->c->train.batch * (size_t)(per * L);
    for (size_t i = 0; i < count; i++) b->ids[i] = (int)rng_below(key, i, (uint32_t)m->task.vocab);
    for (int i = 0; i < b->c->train.batch; i++) {
        Sample *s = &b->samples[i];
        s->label = i % m->task.classes;
        for (int j = 0; j < per; j++) {
            s->ids[j] = b->ids + (size_t)(i * per + j) * (size_t)L;
            s->length[j] = L;
        }
    }
    if (m->task.masked > 0) mask(b);
}

static bool open_bench(Bench *b, const Config *c, bool data, Err *err) {
    *b = (Bench){.c = c, .m = &c->model, .data = data};
    if (data && !loader_open(&b->loader, c, err)) return false;
    layout(b, &b->memory);
    const size_t engine = engine_bytes(b->m, c->train.batch, c->train.lanes);
    if (!mem_fits(size_sum(b->memory.used, engine), err) ||
        !arena_open(&b->memory, b->memory.used, err))
        return false;
    layout(b, &b->memory);
    b->update = (Update){
        .conf = &c->train, .engine = &b->engine, .state = &b->state, .grads = b->grads, .lr = 1e-5};
    params_init(&b->m->params, b->state.w, (uint64_t)c->train.seed);
    if (!data) fill(b);
    if (!engine_open(&b->engine, b->m, c->train.batch, c->train.lanes, true, err)) return false;
    b->engine.smoothing = c->train.label_smoothing;
    return true;
}

/* ---- the step ---- */

static const Sample *samples_of(Bench *b, int64_t update, int micro) {
    if (!b->data) return b->samples;
    loader_train(&b->loader, update, micro);
    return b->loader.batch.samples;
}

/* What batches of data have, on average, where they differ. */
static void add_batch(BenchResult *r, Bench *b) {
    if (!b->data) return;
    b->nbatches++;
    r->tokens_per_s += b->loader.batch.tokens;
    r->sample_flops += 3 * b->loader.batch.flops / b->loader.batch.n;
}

/* That the mean rank waits until the slowest has done its part of the batch. */
static double seconds_apart(const Deal *d) {
    double most = 0, sum = 0;
    for (int r = 0; r < d->ranks; r++) most = fmax(most, d->seconds[r]), sum += d->seconds[r];
    return d->ranks > 1 ? most - sum / d->ranks : 0;
}

/* As training has it, but for what it counts, which is for `r`; NULL: for nobody. */
static void update(Bench *b, int64_t number, BenchResult *r) {
    const TrainConf *t = &b->c->train;
    const double scale = 1.0 / ((double)t->batch * t->accumulate);
    Update *u = &b->update;
    const Outcome out = {.loss = b->loss};
    u->number = number;
    memset(b->grads, 0, b->m->params.total * sizeof *b->grads);
    engine_begin_update(&b->engine);
    for (int micro = 0; micro < t->accumulate; micro++) {
        engine_step(&b->engine, samples_of(b, number, micro), t->batch, scale,
                    rng_key((uint64_t)number), b->grads, &out, NULL);
        if (!r) continue;
        add_batch(r, b);
        r->apart_seconds += seconds_apart(&b->engine.deal);
    }
    u->norm = adamw_grad_norm(&b->state.adamw, b->grads);
    update_is_finite(u);
    update_commit(u);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The time of a step, the median of equal ones, the mean of others; and of all, what r is to know
 * of the mean one. */
static double time_steps(Bench *b, double seconds, BenchResult *r) {
    const int batches = b->c->train.accumulate; /* of an update */
    LanesMeter lanes = {0};
    engine_weights(&b->engine, b->state.w);
    update(b, 1, NULL);
    lanes_measure(&lanes);
    const double start = clock_seconds(), moved = ranks_meter().bytes;
    for (b->nsteps = 0; b->nsteps < MOST_STEPS;) {
        double t = clock_seconds();
        update(b, b->nsteps + 2, r);
        b->step[b->nsteps++] = (clock_seconds() - t) / batches;
        if (b->nsteps >= 3 && clock_seconds() - start > seconds) break;
    }
    lanes_measure(NULL);
    const double all = clock_seconds() - start, steps = (double)b->nsteps * batches;
    r->step_seconds = all / steps;
    r->serial_seconds = (all - lanes.runs) / steps;
    r->busy_seconds = lanes.busy / steps;
    r->apart_seconds /= steps;
    r->moved_bytes = (ranks_meter().bytes - moved) / steps;
    if (b->data) return all / steps;
    qsort(b->step, (size_t)b->nsteps, sizeof *b->step, by_value);
    return b->step[b->nsteps / 2];
}

/* What ranks tell each other for a step of documents of few tokens, which compute next to nothing:
 * the same sums and weights. Equal parts, as of ranks whose pace is not known: by it, rank 0 would
 * have all of such a step, since a sum takes longer to come, and none would be moved. */
static void time_exchange(Bench *b, BenchResult *r) {
    enum { STEPS = 20, SHORTER = 1024 };
    const int batches = b->c->train.accumulate;
    const size_t bytes = (size_t)b->c->train.batch * sizeof(Sample);
    Sample *short_ones = mem_alloc(1, bytes);
    memcpy(short_ones, samples_of(b, 1, 0), bytes);
    for (int i = 0; i < b->c->train.batch; i++)
        for (int j = 0; j < b->m->task.per_example; j++)
            short_ones[i].length[j] = 1 + short_ones[i].length[j] / SHORTER;
    memset(b->engine.deal.pace, 0, (size_t)b->engine.ranks * sizeof *b->engine.deal.pace);
    const double moved = ranks_meter().bytes;
    for (int s = 1; s <= STEPS; s++) {
        const double before = ranks_meter().seconds;
        engine_begin_update(&b->engine);
        for (int micro = 0; micro < batches; micro++) {
            b->engine.deal.learns = false; /* such short ones say nothing of paces */
            engine_step(&b->engine, short_ones, b->c->train.batch, 1, rng_key(1), b->grads,
                        &(Outcome){.loss = b->loss}, NULL);
        }
        engine_weights(&b->engine, b->state.w);
        b->step[s - 1] = (ranks_meter().seconds - before) / batches;
    }
    r->exchange_bytes = (ranks_meter().bytes - moved) / STEPS / batches;
    mem_free(short_ones);
    qsort(b->step, STEPS, sizeof *b->step, by_value);
    r->exchange_seconds = b->step[STEPS / 2];
}

/* ---- parts: one document on every thread at once, as in a step ---- */

typedef struct LaneParts {
    double seconds[PART_POOLING + 1];
    AttnMeter mechanism;
} LaneParts;

typedef struct Parts {
    Bench *b;
    Pass pass;
    LaneParts *lane; /* (lanes) */
} Parts;

static void time_document(const Parts *p, Worker *k, real *dw, LaneParts *sum) {
    const Model *m = p->pass.m;
    Doc *doc = &k->docs[0];
    doc->meter = &sum->mechanism;
    for (int s = 0; s < m->nsegments; s++) {
        double t = clock_seconds();
        segment_forward(&p->pass, doc, &k->encoder, s);
        sum->seconds[segment_part(m, s)] += clock_seconds() - t;
    }
    for (int s = m->nsegments - 1; s >= 0; s--) {
        double t = clock_seconds();
        segment_backward(&p->pass, doc, &k->encoder, s, dw);
        sum->seconds[segment_part(m, s)] += clock_seconds() - t;
    }
}

static void parts_lane(void *ctx, int lane, int thread, real *dw) {
    const Parts *p = ctx;
    const Model *m = p->pass.m;
    LaneParts *sum = &p->lane[lane];
    Worker *k = &p->b->engine.workers[thread];
    for (int repeat = 0; repeat <= PART_REPEATS; repeat++) {
        k->memory.used = 0;
        doc_layout(&k->docs[0], &k->memory, m, m->max_tokens);
        k->docs[0].ids = p->b->samples[lane % p->b->c->train.batch].ids[0];
        k->docs[0].trace = NULL;
        if (repeat == 1) *sum = (LaneParts){0}; /* the first one warms up */
        time_document(p, k, dw, sum);
    }
}

static void part(BenchResult *r, const char *name, double seconds, double flops) {
    r->parts[r->nparts++] = (BenchPart){name, seconds, flops};
}

/* A sample's share of what lanes measured, on one thread. */
static LaneParts mean_parts(const Parts *p, int lanes) {
    LaneParts sum = {0};
    const double weight = (double)p->pass.m->task.per_example / lanes / PART_REPEATS;
    for (int i = 0; i < lanes; i++) {
        for (int j = 0; j <= PART_POOLING; j++) sum.seconds[j] += weight * p->lane[i].seconds[j];
        sum.mechanism.seconds += weight * p->lane[i].mechanism.seconds;
        sum.mechanism.avoided += weight * p->lane[i].mechanism.avoided;
    }
    return sum;
}

/* Of the embedding's projection of so many tokens, forward and backward. */
static double embedding_flops(const Model *m, double tokens) {
    return m->conf.d_emb == m->conf.d ? 0 : 6 * tokens * m->conf.d_emb * m->conf.d;
}

static void list_parts(BenchResult *r, const Model *m, const LaneParts *sum, bool folded) {
    const double N = m->max_tokens, d = m->conf.d, blocks = m->task.per_example * m->conf.depth,
                 *s = sum->seconds, mechanism = sum->mechanism.seconds;
    const double used =
        s[PART_EMBEDDING] + s[PART_ATTENTION] + s[PART_FEED_FORWARD] + s[PART_POOLING];
    const double embedding = embedding_flops(m, m->task.per_example * N);
    r->avoided_share = sum->mechanism.avoided / r->sample_flops;
    part(r, "embedding", s[PART_EMBEDDING], folded ? 0 : embedding);
    part(r, "attention: mechanism", mechanism, 3 * blocks * m->mech->flops(m->attn, (int)N));
    part(r, "attention: q k v o, norm", s[PART_ATTENTION] - mechanism,
         6 * blocks * N * d * (d * model_projections(m) + m->conf.conv) - sum->mechanism.avoided);
    part(r, "feed-forward, norm", s[PART_FEED_FORWARD], 12 * blocks * N * d * m->conf.d_ff);
    part(r, "pooling, last norm", s[PART_POOLING], 0);
    part(r, "head, optimiser, sums, the rest", fmax(0, r->sample_seconds - used), 0);
}

static void time_parts(BenchResult *r, Bench *b) {
    const Model *m = b->m;
    const Engine *e = &b->engine;
    const int threads = lanes_threads(), lanes = threads < e->lanes ? threads : e->lanes;
    Parts p = {.b = b, .lane = mem_alloc((size_t)lanes, sizeof *p.lane)};
    p.pass = (Pass){m, e->w, e->wt, e->stats, &e->fold, true};
    lanes_sum(&b->engine.pool, lanes, parts_lane, &p, b->grads, 0, m->params.total);
    const LaneParts sum = mean_parts(&p, lanes);
    mem_free(p.lane);
    list_parts(r, m, &sum, e->fold.on);
}

static void rate(BenchResult *r, const Bench *b, double step) {
    const Model *m = b->m;
    const int per = m->task.per_example;
    const double flops = 3 * (per * model_flops(m, m->conf.max_length) + model_head_flops(m)),
                 tokens = (double)per * m->max_tokens;
    r->sample_flops = b->data ? r->sample_flops / b->nbatches : flops;
    r->samples_per_s = r->batch / step;
    r->updates_per_s = 1 / (step * b->c->train.accumulate);
    r->tokens_per_s = b->data ? r->tokens_per_s / b->nbatches / step : r->samples_per_s * tokens;
    if (b->data) r->tokens = (int)(r->tokens_per_s / r->samples_per_s / per);
    if (b->engine.fold.on)
        r->folded_share = embedding_flops(m, r->tokens_per_s / r->samples_per_s) / r->sample_flops;
    r->gflops = r->samples_per_s * r->sample_flops * 1e-9;
    r->sample_seconds = r->threads * r->ranks * step / r->batch;
}

bool bench_run(BenchResult *r, const Config *c, double seconds, bool data, Err *err) {
    Bench *b = mem_alloc(1, sizeof *b);
    bool ok = open_bench(b, c, data, err);
    if (ok) {
        const Model *m = &c->model;
        const int threads = lanes_threads();
        *r = (BenchResult){.task = c->task->name,
                           .mechanism = m->mech->name,
                           .tokens = m->max_tokens,
                           .batch = c->train.batch,
                           .threads = threads,
                           .ranks = ranks_count(),
                           .per_example = m->task.per_example,
                           .most_tokens = m->max_tokens,
                           .parameters = m->params.total,
                           .summed = m->params.total - b->engine.fold.from};
        const double before = peak_gflops(threads), step = time_steps(b, seconds, r),
                     after = peak_gflops(threads);
        r->peak_ranks = ranks_times(threads);
        r->peak_gflops = r->peak_ranks * (before > after ? before : after);
        rate(r, b, step);
        r->peak_rss_mb = usage_peak() * 1e-6;
        if (r->ranks > 1) time_exchange(b, r);
        if (r->ranks == 1 && !data) time_parts(r, b);
    }
    engine_close(&b->engine);
    arena_close(&b->memory);
    loader_close(&b->loader);
    mem_free(b);
    return ok;
}

cJSON *bench_machine(int threads) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "threads", threads);
    cJSON_AddStringToObject(o, "kernels", gemm_describe());
    cJSON_AddStringToObject(o, "numbers", REAL_NAME);
    cJSON_AddNumberToObject(o, "peak_gflops", peak_gflops(threads));
    cJSON_AddNumberToObject(o, "gemm_gflops", peak_gemm_gflops(threads));
    cJSON_AddNumberToObject(o, "memory_gb_per_s", peak_bandwidth(threads));
    return o;
}

cJSON *bench_json(const BenchResult *r, const Config *c) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "task", r->task);
    cJSON_AddStringToObject(o, "mechanism", r->mechanism);
    cJSON_AddNumberToObject(o, "tokens", r->tokens);
    cJSON_AddNumberToObject(o, "most_tokens", r->most_tokens);
    cJSON_AddNumberToObject(o, "parameters", (double)r->parameters);
    cJSON_AddNumberToObject(o, "summed", (double)r->summed);
    cJSON_AddNumberToObject(o, "batch", r->batch);
    cJSON_AddNumberToObject(o, "threads", r->threads);
    cJSON_AddNumberToObject(o, "ranks", r->ranks);
    cJSON_AddNumberToObject(o, "per_example", r->per_example);
    cJSON_AddNumberToObject(o, "step_seconds", r->step_seconds);
    cJSON_AddNumberToObject(o, "samples_per_s", r->samples_per_s);
    cJSON_AddNumberToObject(o, "tokens_per_s", r->tokens_per_s);
    cJSON_AddNumberToObject(o, "updates_per_s", r->updates_per_s);
    cJSON_AddNumberToObject(o, "gflops", r->gflops);
    cJSON_AddNumberToObject(o, "peak_gflops", r->peak_gflops);
    cJSON_AddNumberToObject(o, "peak_ranks", r->peak_ranks);
    cJSON_AddNumberToObject(o, "peak_share", r->gflops / r->peak_gflops);
    cJSON_AddNumberToObject(o, "folded_share", r->folded_share);
    if (r->nparts) cJSON_AddNumberToObject(o, "avoided_share", r->avoided_share);
    cJSON_AddNumberToObject(o, "peak_rss_mb", r->peak_rss_mb);
    cJSON_AddNumberToObject(o, "serial_seconds", r->serial_seconds);
    cJSON_AddNumberToObject(o, "busy_seconds", r->busy_seconds);
    cJSON_AddNumberToObject(o, "apart_seconds", r->apart_seconds);
    cJSON_AddNumberToObject(o, "moved_bytes", r->moved_bytes);
    cJSON_AddNumberToObject(o, "exchange_seconds", r->exchange_seconds);
    cJSON_AddNumberToObject(o, "exchange_bytes", r->exchange_bytes);
    cJSON *parts = cJSON_AddObjectToObject(o, "parts_seconds");
    for (int i = 0; i < r->nparts; i++)
        cJSON_AddNumberToObject(parts, r->parts[i].name, r->parts[i].seconds);
    cJSON_AddStringToObject(o, "version", CAST_VERSION);
    cJSON_AddStringToObject(o, "cpu", cpu_describe());
    cJSON_AddItemToObject(o, "config", cJSON_Duplicate(c->resolved, true));
    return o;
}

/* ---- of several threads or ranks ---- */

static double step_seconds(const cJSON *r) {
    return json_number(r, "batch") / json_number(r, "samples_per_s");
}

/* The share of all threads' time in which they wait in lanes for others; of several ranks, in which
 * these wait for the slowest: how long each thread of another rank works is not told. */
static double waiting_share(const cJSON *r) {
    const double step = json_number(r, "step_seconds"), threads = json_number(r, "threads");
    if (json_number(r, "ranks") > 1) return json_number(r, "apart_seconds") / step;
    return 1 - json_number(r, "serial_seconds") / step -
           json_number(r, "busy_seconds") / (threads * step);
}

/* Of all threads' time, what those of the first row, `alone`, would have taken for as many FLOPs is
 * used: rows see batches of their own, of other lengths. The rest: they wait in lanes for others,
 * they wait outside of lanes, where one works, ranks tell each other what they have, or their work
 * takes longer, since they share caches, memory and clocks. */
void bench_losses(cJSON *r, const cJSON *alone) {
    const double ranks = json_number(r, "ranks"), serial = json_number(alone, "serial_seconds"),
                 n = ranks * json_number(r, "threads") / json_number(alone, "threads"),
                 step = step_seconds(r),
                 faster = json_number(r, "gflops") / json_number(alone, "gflops"),
                 used = faster / n, outside = (n - 1) * serial / (n * step),
                 exchange = json_number(r, "exchange_seconds") / step;
    const double waiting = r == alone ? 0 : waiting_share(r);
    cJSON_AddNumberToObject(r, "base_threads", json_number(alone, "threads"));
    cJSON_AddNumberToObject(r, "faster", faster);
    cJSON_AddNumberToObject(r, "efficiency", used);
    cJSON_AddNumberToObject(r, "lost_waiting", waiting);
    cJSON_AddNumberToObject(r, "lost_serial", outside);
    cJSON_AddNumberToObject(r, "lost_exchange", exchange);
    cJSON_AddNumberToObject(r, "lost_slower", 1 - used - waiting - outside - exchange);
}
