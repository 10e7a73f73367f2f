/* cast_step CONFIG --weights W --batch B --out O: one forward and backward pass in the open, file
 * to file, so that any other framework can be held against this one. Files are safetensors; the
 * contract is in --help. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/option.h"
#include "core/token.h"
#include "model/engine.h"
#include "model/traces.h"
#include "optim/schedule.h"
#include "train/config.h"
#include "train/stop.h"

enum { MOST_BATCH = 1 << 20 };

typedef struct Options {
    CommandLine line; /* CONFIG, key=value ... */
    const char *weights, *batch, *out, *weights_out;
    bool init;
    uint64_t seed; /* of --init */
    int steps, threads;
} Options;

static bool take_init(void *options, const char *name, const char *text, Err *err) {
    Options *o = options;
    o->init = true;
    return option_seed(name, text, &o->seed, err);
}

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"weights", OPTION_TEXT, AT(weights), "W", "weights: a tensor for every parameter, F32 or F64"},
    {"batch", OPTION_TEXT, AT(batch), "B",
     "tokens I32 [B,N] ([B,2,N] for pairs), lengths I32 [B] ([B,2]), labels I32 [B]; for "
     "train.objective=masked instead of labels mask (1: masked) and targets, I32 as tokens"},
    {"out", OPTION_TEXT, AT(out), "O",
     "logits [B,classes] (of masked tokens, in the shape of tokens, [B,N,vocab], 0 elsewhere), "
     "loss [1], grad.<parameter>, and what attention chose: clusters.<block> "
     "I32 [B,C,k] (-1: an empty slot), groups.<block> and groups_key.<block> I32 [B,h,rounds,T] "
     "(-1: in none; T: the tokens of the longest document, cls counted); of pairs [B,2,...]"},
    {"steps", OPTION_INT, AT(steps), "N",
     "apply N updates of CONFIG's optimiser on this batch first; running statistics stay", 1,
     INT_MAX},
    {"init", OPTION_OWN, 0, "SEED", "write initial weights drawn from SEED", .take = take_init},
    {"weights-out", OPTION_TEXT, AT(weights_out), "W", "where weights go after --steps or --init"},
    {"threads", OPTION_INT, AT(threads), "N", "[OMP_NUM_THREADS, else the physical cores]", 1,
     OPTION_MOST_THREADS},
    {0},
};

static const Program program = {
    "cast_step",
    "one forward and backward in the open",
    "usage: cast_step CONFIG [key=value ...] --weights W --batch B [--out O] [--steps n "
    "--weights-out W]\n"
    "                 [--threads N]\n"
    "       cast_step CONFIG [key=value ...] --init SEED --weights-out W\n\n"
    "One forward and backward pass of CONFIG's model (no dropout), or n updates on the same "
    "batch.\n",
    options,
    .needs = "CONFIG",
};

static bool parse(Options *o, int argc, char **argv, Err *err) {
    if (!option_parse(&o->line, o, &program, argc, argv, err)) return false;
    if (!o->init && (!o->weights || !o->batch))
        return err_set(err, EX_USAGE,
                       "--weights and --batch are needed, or --init; 'cast_step --help' says more");
    if (o->init && (o->weights || o->batch || o->out || o->steps > 0))
        return err_set(err, EX_USAGE,
                       "--init makes first weights alone: no --weights, --batch, --out or --steps");
    if ((o->init || o->steps > 0) && !o->weights_out)
        return err_set(err, EX_USAGE, "--weights-out is needed: where the weights go");
    if (!o->init && o->steps == 0 && !o->out)
        return err_set(err, EX_USAGE, "--out is needed: where the results go");
    return true;
}

/* ---- the batch ---- */

typedef struct Batch {
    const Config *c;
    const char *path;
    int B, per, room; /* room: the N of [B,N] */
    double answers;   /* samples, or the masked tokens of all */
    Sample *samples;
    int *masked; /* (B,per,N) tokens, with masks in them; NULL: none are masked */
    const int32_t *tokens, *lengths, *labels, *mask, *targets;
} Batch;

static bool check_length(const Batch *b, int i, int length, Err *err) {
    const int most = b->c->model.conf.max_length;
    if (length > b->room)
        return err_set(err, EX_DATAERR,
                       "%s: lengths: sequence %d has %d tokens, tokens has room for %d", b->path, i,
                       length, b->room);
    return (length >= 1 && length <= most) ||
           err_set(err, EX_DATAERR, "%s: lengths: sequence %d has %d tokens, allowed are 1 to %d",
                   b->path, i, length, most);
}

/* That of sequence i, `name` of the file, ids are below `end`. Where `mask` is not NULL they count
 * where it is 1 alone. */
static bool check_ids(const Batch *b, const char *name, int i, const int32_t *ids, int length,
                      int end, const int32_t *mask, Err *err) {
    for (int n = 0; n < length; n++)
        if ((!mask || mask[n]) && (ids[n] < 0 || ids[n] >= end))
            return err_set(err, EX_DATAERR, "%s: %s: sequence %d has %d at %d, allowed are 0 to %d",
                           b->path, name, i, ids[n], n, end - 1);
    return true;
}

/* Document j of sample i, which has some tokens masked. */
static bool mask_document(Batch *b, int i, int j, Err *err) {
    Sample *s = &b->samples[i];
    const int row = i * b->per + j, vocab = b->c->model.task.vocab;
    const size_t at = (size_t)row * (size_t)b->room;
    const int32_t *mask = b->mask + at;
    if (!check_ids(b, "mask", row, mask, s->length[j], 2, NULL, err) ||
        !check_ids(b, "targets", row, b->targets + at, s->length[j], vocab, mask, err))
        return false;
    for (int n = 0; n < s->length[j]; n++) {
        b->masked[at + (size_t)n] = mask[n] ? TOKEN_MASKED : s->ids[j][n];
        b->answers += mask[n];
    }
    s->ids[j] = b->masked + at;
    s->targets[j] = b->targets + at;
    return true;
}

static bool read_sample(Batch *b, int i, Err *err) {
    Sample *s = &b->samples[i];
    const ModelTask *task = &b->c->model.task;
    if (b->labels) s->label = b->labels[i];
    if (s->label < 0 || s->label >= task->classes)
        return err_set(err, EX_DATAERR, "%s: labels[%d] is %d, the task has classes 0 to %d",
                       b->path, i, s->label, task->classes - 1);
    for (int j = 0; j < b->per; j++) {
        const int row = i * b->per + j;
        s->ids[j] = b->tokens + (size_t)row * (size_t)b->room;
        s->length[j] = b->lengths[row];
        if (!check_length(b, row, s->length[j], err) ||
            !check_ids(b, "tokens", row, s->ids[j], s->length[j], task->vocab, NULL, err) ||
            (b->mask && !mask_document(b, i, j, err)))
            return false;
    }
    return true;
}

static const int32_t *find(const StFile *f, const char *name, int dims, const int64_t *shape,
                           Err *err) {
    const StTensor *t = st_want(f, name, DT_I32, dims, shape, err);
    return t ? t->data : NULL;
}

/* Masked training has mask and targets where classification has labels. */
static bool find_tensors(Batch *b, StFile *f, Err *err) {
    const bool masked = b->c->train.objective == OBJECTIVE_MASKED;
    const int dims = b->per == 2 ? 3 : 2;
    const int64_t any[3] = {-1, b->per == 2 ? 2 : -1, -1};
    const StTensor *tokens = st_want(f, "tokens", DT_I32, dims, any, err);
    if (!tokens) return false;
    const int64_t B = tokens->shape[0], N = tokens->shape[dims - 1], rows[2] = {B, 2};
    if (B < 1 || B > MOST_BATCH)
        return err_set(err, EX_DATAERR, "%s: tokens: a batch of %lld; 1 to %d were expected",
                       b->path, (long long)B, MOST_BATCH);
    b->B = (int)B;
    b->room = N < INT_MAX ? (int)N : INT_MAX;
    b->tokens = tokens->data;
    b->lengths = find(f, "lengths", dims - 1, rows, err);
    if (!b->lengths) return false;
    if (!masked) return (b->labels = find(f, "labels", 1, rows, err)) != NULL;
    return (b->mask = find(f, "mask", dims, tokens->shape, err)) &&
           (b->targets = find(f, "targets", dims, tokens->shape, err));
}

static bool read_batch(Batch *b, StFile *f, Err *err) {
    b->per = b->c->model.task.per_example;
    if (!find_tensors(b, f, err)) return false;
    const size_t B = (size_t)b->B;
    b->samples = mem_alloc(B, sizeof *b->samples);
    if (b->mask) b->masked = mem_alloc(B * (size_t)b->per * (size_t)b->room, sizeof *b->masked);
    for (int i = 0; i < b->B; i++)
        if (!read_sample(b, i, err)) return false;
    if (!b->mask) b->answers = b->B;
    return b->answers > 0 || err_set(err, EX_DATAERR, "%s: mask: no token is masked", b->path);
}

static void free_batch(Batch *b) {
    mem_free(b->samples);
    mem_free(b->masked);
}

/* ---- one pass ---- */

typedef struct Step {
    const Config *c;
    Engine engine;
    Arena memory;
    real *w, *grads;
    Adamw adamw;
    Batch batch;
    double *loss;
    real *logits;
    Traces traces;
} Step;

static size_t logits_of_sample(const Step *s) {
    const ModelTask *t = &s->c->model.task;
    if (!s->batch.mask) return (size_t)t->classes;
    return (size_t)s->batch.per * (size_t)s->batch.room * (size_t)t->vocab;
}

static void layout(Step *s, Arena *a) {
    const size_t total = s->c->model.params.total, B = (size_t)s->batch.B;
    s->w = arena_reals(a, total);
    s->grads = arena_reals(a, total);
    adamw_layout(&s->adamw, a, &s->c->model.params);
    s->loss = arena_take(a, B, sizeof *s->loss);
    s->logits = arena_reals(a, B * logits_of_sample(s));
}

/* Of the longest document. */
static int most_tokens(const Step *s) {
    int most = 0;
    for (int i = 0; i < s->batch.B * s->batch.per; i++) {
        const int n = s->batch.samples[i / s->batch.per].length[i % s->batch.per];
        most = n > most ? n : most;
    }
    return model_tokens(&s->c->model, most);
}

static double pass(Step *s) {
    const int B = s->batch.B;
    double loss = 0;
    memset(s->grads, 0, s->c->model.params.total * sizeof *s->grads);
    engine_weights(&s->engine, s->w);
    engine_begin_update(&s->engine);
    const Outcome out = {.loss = s->loss, .logits = s->logits, .room = s->batch.room};
    engine_step(&s->engine, s->batch.samples, B, 1.0 / s->batch.answers, rng_key(0), s->grads, &out,
                s->traces.trace);
    for (int i = 0; i < B; i++) loss += s->loss[i];
    return loss / s->batch.answers;
}

/* One whose loss and gradients are numbers; `number`: of the pass. */
static bool finite_pass(Step *s, int64_t number, double *loss, double *norm, Err *err) {
    *loss = pass(s);
    *norm = adamw_grad_norm(&s->adamw, s->grads);
    return (isfinite(*loss) && isfinite(*norm)) ||
           err_set(err, EX_SOFTWARE,
                   "pass %lld: loss %g, norm of the gradients %g: not finite; nothing is written",
                   (long long)number, fabs(*loss), fabs(*norm));
}

static bool updates(Step *s, int n, Err *err) {
    const TrainConf *t = &s->c->train;
    for (int64_t i = 1; i <= n; i++) {
        double loss, norm;
        if (!finite_pass(s, i, &loss, &norm, err)) return false;
        const double lr =
            t->lr * schedule_factor(t->schedule, i, t->warmup, t->steps ? t->steps : n);
        const double factor = clip_factor(norm, t->clip);
        const Param *bad = adamw_overflow(&s->adamw, &t->adamw, s->w, s->grads, lr, factor, i);
        if (bad)
            return err_set(err, EX_SOFTWARE,
                           "update %lld: '%s' or AdamW's moments of it would not be finite; "
                           "nothing is written",
                           (long long)i, bad->name);
        adamw_update(&s->adamw, &t->adamw, s->w, s->grads, lr, factor, i);
    }
    return true;
}

static StTensor logits_tensor(const Step *s) {
    const Batch *b = &s->batch;
    const ModelTask *t = &s->c->model.task;
    if (!b->mask) return st_real_tensor("logits", s->logits, 2, (int64_t[]){b->B, t->classes});
    if (b->per == 1)
        return st_real_tensor("logits", s->logits, 3, (int64_t[]){b->B, b->room, t->vocab});
    return st_real_tensor("logits", s->logits, 4, (int64_t[]){b->B, b->per, b->room, t->vocab});
}

static bool write_results(Step *s, int64_t number, const char *path, Err *err) {
    double mean, norm;
    if (!finite_pass(s, number, &mean, &norm, err)) return false;
    const Model *m = &s->c->model;
    const size_t most = (size_t)(m->params.count + 3 * m->conf.depth + 2);
    StTensor *t = mem_alloc(most, sizeof *t);
    char(*names)[96] = mem_alloc(most, sizeof *names);
    real loss = (real)mean;
    int n = params_tensors(&m->params, s->grads, "grad.", PARAM_TRAINED, t, names);
    t[n++] = logits_tensor(s);
    t[n++] = st_real_tensor("loss", &loss, 1, (int64_t[]){1});
    n += traces_tensors(&s->traces, m, t + n, names + n);
    bool ok = st_write(path, KIND_TENSORS, t, n, NULL, 0, err);
    mem_free(t);
    mem_free(names);
    return ok;
}

static bool write_weights(const Model *m, const real *w, const char *path, Err *err) {
    StTensor *t = mem_alloc((size_t)m->params.count, sizeof *t);
    char(*names)[96] = mem_alloc((size_t)m->params.count, sizeof *names);
    int n = params_tensors(&m->params, w, "", 0, t, names);
    bool ok = st_write(path, KIND_TENSORS, t, n, NULL, 0, err);
    mem_free(t);
    mem_free(names);
    return ok;
}

static bool read_weights(const Model *m, real *w, const char *path, Err *err) {
    StFile f;
    if (!st_open(&f, path, err)) return false;
    const bool ok = st_check_crc(&f, err) && params_read(&m->params, w, &f, err);
    st_close(&f);
    return ok;
}

static bool init_weights(const Config *c, const Options *o, Err *err) {
    real *w = mem_alloc(c->model.params.total, sizeof *w);
    params_init(&c->model.params, w, o->seed);
    bool ok = write_weights(&c->model, w, o->weights_out, err);
    mem_free(w);
    return ok;
}

static bool can_begin(const char *path, Err *err) {
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_TENSORS, err)) return false;
    atomic_abandon(&a);
    return true;
}

/* Told before anything is computed. */
static bool may_write(const Options *o, Err *err) {
    if (o->out && o->weights && (file_same(o->out, o->weights) || file_same(o->out, o->batch)))
        return err_set(err, EX_USAGE, "--out: %s is one of the inputs", o->out);
    if (o->weights_out && o->batch && file_same(o->weights_out, o->batch))
        return err_set(err, EX_USAGE, "--weights-out: %s is the batch itself", o->weights_out);
    if (o->out && o->weights_out &&
        (!strcmp(o->out, o->weights_out) || file_same(o->out, o->weights_out)))
        return err_set(err, EX_USAGE, "--out and --weights-out are both %s", o->out);
    return (!o->out || can_begin(o->out, err)) &&
           (!o->weights_out || can_begin(o->weights_out, err));
}

static bool run(const Config *c, const Options *o, Err *err) {
    Step s = {.c = c, .batch = {.c = c, .path = o->batch}};
    StFile f = {0};
    bool ok = st_open(&f, o->batch, err) && read_batch(&s.batch, &f, err);
    if (ok) {
        layout(&s, &s.memory);
        ok = arena_open(&s.memory, s.memory.used, err);
    }
    if (ok) {
        layout(&s, &s.memory);
        traces_open(&s.traces, &c->model, s.batch.B * s.batch.per, most_tokens(&s), TRACES_CHOICES);
        ok = read_weights(&c->model, s.w, o->weights, err) &&
             engine_open(&s.engine, &c->model, s.batch.B, c->train.lanes, true, err);
    }
    s.engine.smoothing = c->train.label_smoothing;
    ok = ok && updates(&s, o->steps, err);
    if (ok && o->out) ok = write_results(&s, (int64_t)o->steps + 1, o->out, err);
    if (ok && o->weights_out) ok = write_weights(&c->model, s.w, o->weights_out, err);
    engine_close(&s.engine);
    arena_close(&s.memory);
    free_batch(&s.batch);
    traces_close(&s.traces);
    st_close(&f);
    return ok;
}

static void leave_dropout_out(ModelConf *c) {
    c->dropout = 0;
    for (int i = 0; i < DROPOUT_PLACES; i++) c->dropout_at[i] = 0;
}

int main(int argc, char **argv) {
    Err err = {0};
    Options o = {0};
    Config c = {0};
    stop_at_start();
    bool ok = parse(&o, argc, argv, &err) && may_write(&o, &err);
    lanes_open(o.threads);
    ok = ok && lanes_start(&err);
    if (ok) {
        gemm_open();
        ok = config_load(&c, o.line.words[0], o.line.words + 1, o.line.nwords - 1, &err);
        if (ok) leave_dropout_out(&c.model.conf);
    }
    ok = ok && (o.init ? init_weights : run)(&c, &o, &err) && err_check_stdout(&err);
    config_free(&c);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
