#include "train/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/log.h"
#include "core/peak.h"
#include "model/engine.h"

enum { MOST_STEPS = 4096, PART_REPEATS = 3 };

typedef struct Bench {
    const Config *c;
    const Model *m;
    Engine engine;
    Arena memory;
    real *w, *grads;
    Adamw adamw;
    Sample *samples;
    int *ids;
    double *loss;
    double step[MOST_STEPS];
    int nsteps;
} Bench;

static void place(Bench *b, Arena *a) {
    const size_t total = b->m->params.total, B = (size_t)b->c->train.batch;
    b->w = arena_reals(a, total);
    b->grads = arena_reals(a, total);
    adamw_place(&b->adamw, a, &b->m->params);
    b->samples = arena_take(a, B, sizeof *b->samples);
    b->ids = arena_ints(a, B * (size_t)(b->m->task.per_example * b->m->conf.max_length));
    b->loss = arena_take(a, B, sizeof *b->loss);
}

/* Random tokens. Which clusters they form changes little of what a step costs: a mechanism that
 * spares tokens in no cluster finds about as many as among real ones. */
static void fill(Bench *b) {
    const Model *m = b->m;
    const RngKey key = rng_fold_name(rng_key(1), "bench");
    const int L = m->conf.max_length, per = m->task.per_example;
    const int count = b->c->train.batch * per * L;
    for (int i = 0; i < count; i++)
        b->ids[i] = (int)rng_below(key, (uint64_t)i, (uint32_t)m->task.vocab);
    for (int i = 0; i < b->c->train.batch; i++) {
        Sample *s = &b->samples[i];
        s->label = i % m->task.classes;
        for (int j = 0; j < per; j++) {
            s->ids[j] = b->ids + (size_t)(i * per + j) * (size_t)L;
            s->length[j] = L;
        }
    }
}

/* Memory is mapped without asking whether it is there: better refused now than killed later. */
static bool fits(const Config *c, Err *err) {
    char need[32], have[32];
    const size_t bytes = engine_bytes(&c->model, c->train.batch, c->train.lanes, true);
    const size_t available = mem_available();
    if (available == 0 || bytes <= available) return true;
    return err_set(err, EX_OSERR, "needs %s of memory, %s are available",
                   format_bytes(need, sizeof need, (double)bytes),
                   format_bytes(have, sizeof have, (double)available));
}

static bool open_bench(Bench *b, const Config *c, Err *err) {
    *b = (Bench){.c = c, .m = &c->model};
    place(b, &b->memory);
    const size_t bytes = b->memory.used;
    b->memory.used = 0;
    if (!arena_open(&b->memory, bytes, err)) return false;
    place(b, &b->memory);
    params_init(&b->m->params, b->w, (uint64_t)c->train.seed);
    fill(b);
    if (!fits(c, err)) return false;
    return engine_open(&b->engine, b->m, c->train.batch, c->train.lanes, true, err);
}

static void close_bench(Bench *b) {
    engine_close(&b->engine);
    arena_close(&b->memory);
}

/* ---- the step ---- */

static void update(Bench *b, int64_t s) {
    const TrainConf *t = &b->c->train;
    const Outcome out = {.loss = b->loss};
    memset(b->grads, 0, b->m->params.total * sizeof *b->grads);
    engine_begin_update(&b->engine);
    engine_step(&b->engine, b->samples, t->batch, 1.0 / t->batch, rng_key((uint64_t)s), b->grads,
                &out, NULL);
    double norm = adamw_grad_norm(&b->adamw, b->grads);
    adamw_update(&b->adamw, &t->adamw, b->w, b->grads, 1e-5, clip_factor(norm, t->clip), s);
    engine_commit(&b->engine, b->w);
    engine_weights(&b->engine, b->w);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time of a step. */
static double time_steps(Bench *b, double seconds) {
    engine_weights(&b->engine, b->w);
    update(b, 1);
    double start = clock_seconds();
    for (b->nsteps = 0; b->nsteps < MOST_STEPS;) {
        double t = clock_seconds();
        update(b, b->nsteps + 2);
        b->step[b->nsteps++] = clock_seconds() - t;
        if (b->nsteps >= 3 && clock_seconds() - start > seconds) break;
    }
    qsort(b->step, (size_t)b->nsteps, sizeof *b->step, by_value);
    return b->step[b->nsteps / 2];
}

/* ---- parts: one document on every thread at once, as in a step ---- */

enum { EMBEDDING, ATTENTION, MECHANISM, FEED_FORWARD, POOLING, PARTS };

typedef struct LaneParts {
    double seconds[PARTS];
    double spared; /* operations of the mechanism and its projections */
} LaneParts;

typedef struct Parts {
    Bench *b;
    Pass pass;
    LaneParts *lane; /* (lanes) */
} Parts;

static int part_of(const Model *m, int segment) {
    const int j = m->conf.pre_norm ? segment - 1 : segment;
    if (segment == m->nsegments - 1) return POOLING;
    return j < 0 ? EMBEDDING : j % 2 ? FEED_FORWARD : ATTENTION;
}

/* The mechanism alone, on the input that the forward pass has just left. */
static void time_mechanism(const Parts *p, Worker *k, int segment, real *dw, LaneParts *sum) {
    const Model *m = p->pass.m;
    const AttnScratch *t = &k->encoder.attn;
    const int block = (m->conf.pre_norm ? segment - 1 : segment) / 2;
    const AttnLayer l = encoder_attention(&p->pass, block, dw);
    AttnActs *a = &k->docs[0].blocks[block].attn;
    AttnCall c = attn_layer_call(&l, a, t, segment == 0 ? k->docs[0].stream[0] : k->encoder.x);
    double start = clock_seconds();
    attn_layer_choose(&l, a, t, &c);
    AttnCall back = c;
    m->mech->forward(m->attn, &c);
    attn_layer_gradients(&l, t, &back);
    m->mech->backward(m->attn, &back);
    sum->seconds[MECHANISM] += clock_seconds() - start;
    if (m->mech->spared) sum->spared += m->mech->spared(m->attn, a->N, a->held);
}

static void time_document(const Parts *p, Worker *k, real *dw, LaneParts *sum) {
    const Model *m = p->pass.m;
    Doc *doc = &k->docs[0];
    for (int s = 0; s < m->nsegments; s++) {
        double t = clock_seconds();
        segment_forward(&p->pass, doc, &k->encoder, s);
        sum->seconds[part_of(m, s)] += clock_seconds() - t;
        if (part_of(m, s) == ATTENTION) time_mechanism(p, k, s, dw, sum);
    }
    for (int s = m->nsegments - 1; s >= 0; s--) {
        double t = clock_seconds();
        segment_backward(&p->pass, doc, &k->encoder, s, dw);
        sum->seconds[part_of(m, s)] += clock_seconds() - t;
    }
}

static void parts_lane(void *ctx, int lane, int thread, real *dw) {
    const Parts *p = ctx;
    const Model *m = p->pass.m;
    LaneParts *sum = &p->lane[lane];
    Worker *k = &p->b->engine.workers[thread];
    for (int repeat = 0; repeat <= PART_REPEATS; repeat++) {
        k->memory.used = 0;
        doc_place(&k->docs[0], &k->memory, m, m->max_tokens);
        k->docs[0].ids = p->b->samples[lane % p->b->c->train.batch].ids[0];
        k->docs[0].tap = NULL;
        if (repeat == 1) *sum = (LaneParts){0}; /* the first one warms up */
        time_document(p, k, dw, sum);
    }
}

static void part(BenchResult *r, const char *name, double seconds, double flops) {
    r->parts[r->nparts++] = (BenchPart){name, seconds, flops};
}

static void time_parts(BenchResult *r, Bench *b) {
    const Model *m = b->m;
    const int threads = lanes_threads(),
              lanes = threads < b->engine.lanes ? threads : b->engine.lanes;
    Parts p = {.b = b, .lane = mem_alloc((size_t)lanes, sizeof *p.lane)};
    double sum[PARTS] = {0}, used = 0, spared = 0, N = m->max_tokens, d = m->conf.d,
           L = m->conf.depth, per = m->task.per_example;
    p.pass =
        (Pass){m, b->engine.w, b->engine.wt, b->engine.stats, &b->engine.fold, m->conf.dropout};
    lanes_sum(&b->engine.pool, lanes, parts_lane, &p, b->grads, 0, m->params.total);
    for (int i = 0; i < lanes; i++) {
        const double weight = per / lanes / PART_REPEATS;
        for (int j = 0; j < PARTS; j++) sum[j] += weight * p.lane[i].seconds[j];
        spared += weight * p.lane[i].spared;
    }
    mem_free(p.lane);
    sum[ATTENTION] -= sum[MECHANISM];
    for (int j = 0; j < PARTS; j++) used += sum[j];
    const double projection = m->conf.d_emb == m->conf.d ? 0 : 6 * per * N * m->conf.d_emb * d;
    if (b->engine.fold.on) r->folded_share = projection / r->sample_flops;
    r->spared_share = spared / r->sample_flops;
    part(r, "embedding", sum[EMBEDDING], b->engine.fold.on ? 0 : projection);
    part(r, "attention: mechanism", sum[MECHANISM], 3 * per * L * m->mech->flops(m->attn, (int)N));
    part(r, "attention: q k v o, norm", sum[ATTENTION], 24 * per * L * N * d * d);
    part(r, "feed-forward, norm", sum[FEED_FORWARD], 12 * per * L * N * d * m->conf.d_ff);
    part(r, "pooling, last norm", sum[POOLING], 0);
    part(r, "optimiser, sums, the rest", r->sample_seconds - used, 0);
}

bool bench_run(BenchResult *r, const Config *c, double seconds, Err *err) {
    Bench *b = mem_alloc(1, sizeof *b);
    bool ok = open_bench(b, c, err);
    if (ok) {
        const Model *m = &c->model;
        const int threads = lanes_threads(), per = m->task.per_example;
        double before = peak_gflops(threads), step = time_steps(b, seconds),
               after = peak_gflops(threads);
        *r = (BenchResult){.task = c->task->name,
                           .mechanism = m->mech->name,
                           .tokens = m->max_tokens,
                           .batch = c->train.batch,
                           .threads = threads};
        r->sample_flops = 3 * (per * model_flops(m, m->conf.max_length) + model_head_flops(m));
        r->samples_per_s = r->batch / step;
        r->tokens_per_s = r->samples_per_s * per * m->max_tokens;
        r->gflops = r->samples_per_s * r->sample_flops * 1e-9;
        r->peak_gflops = before > after ? before : after;
        r->sample_seconds = threads * step / r->batch;
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        r->peak_rss_mb = (double)usage.ru_maxrss / 1024;
        time_parts(r, b);
    }
    close_bench(b);
    mem_free(b);
    return ok;
}
