/* cast_step CONFIG --weights W --batch B --out O: one forward and backward pass in the open, file
 * to file, so that any other framework can be held against this one. Files are safetensors; the
 * contract is in --help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/option.h"
#include "model/engine.h"
#include "model/traces.h"
#include "optim/schedule.h"
#include "train/config.h"
#include "train/stop.h"

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
     "tokens I32 [B,N] ([B,2,N] for pairs), lengths I32 [B] ([B,2]), labels I32 [B]"},
    {"out", OPTION_TEXT, AT(out), "O",
     "logits [B,classes], loss [1], grad.<parameter>, and what attention chose: clusters.<block> "
     "I32 [B,C,k] (-1: an empty slot), groups.<block> and groups_key.<block> I32 [B,h,rounds,N] "
     "(-1: in none); of pairs [B,2,...]"},
    {"steps", OPTION_INT, AT(steps), "n",
     "apply n updates of CONFIG's optimiser first, as training would", 1, INT_MAX},
    {"init", OPTION_OWN, 0, "SEED", "write initial weights drawn from SEED", .take = take_init},
    {"weights-out", OPTION_TEXT, AT(weights_out), "W", "where weights go after --steps or --init"},
    {"threads", OPTION_INT, AT(threads), "n", "[the physical cores]", 1, OPTION_MOST_THREADS},
    {0},
};

static const Program program = {
    "cast_step",
    "usage: cast_step CONFIG [key=value ...] --weights W --batch B [--out O] [--steps n "
    "--weights-out W]\n"
    "       cast_step CONFIG [key=value ...] --init SEED --weights-out W\n\n"
    "One forward and backward pass of CONFIG's model (no dropout), or n updates on the same "
    "batch.\n",
    options,
};

static bool parse(Options *o, int argc, char **argv, Err *err) {
    if (!option_parse(&o->line, o, &program, argc, argv, err)) return false;
    if (o->line.nwords == 0) return err_set(err, EX_USAGE, "which CONFIG? See cast_step --help");
    if (!o->init && (!o->weights || !o->batch))
        return err_set(err, EX_USAGE,
                       "--weights and --batch are needed, or --init; see cast_step --help");
    if ((o->init || o->steps > 0) && !o->weights_out)
        return err_set(err, EX_USAGE, "--weights-out is needed: where the weights go");
    if (!o->init && o->steps == 0 && !o->out)
        return err_set(err, EX_USAGE, "--out is needed: where the results go");
    return true;
}

/* ---- the batch ---- */

typedef struct Batch {
    int B, per;
    Sample *samples;
} Batch;

static bool check_ids(const Batch *b, const Config *c, const char *path, Err *err) {
    const int vocab = c->model.task.vocab, classes = c->model.task.classes;
    for (int i = 0; i < b->B; i++) {
        const Sample *s = &b->samples[i];
        if (s->label < 0 || s->label >= classes)
            return err_set(err, EX_DATAERR, "%s: labels[%d] is %d, the task has classes 0 to %d",
                           path, i, s->label, classes - 1);
        for (int j = 0; j < b->per; j++) {
            if (s->length[j] < 1 || s->length[j] > c->model.conf.max_length)
                return err_set(err, EX_DATAERR,
                               "%s: lengths: sequence %d has %d tokens, allowed are 1 to %d", path,
                               i, s->length[j], c->model.conf.max_length);
            for (int n = 0; n < s->length[j]; n++)
                if (s->ids[j][n] < 0 || s->ids[j][n] >= vocab)
                    return err_set(err, EX_DATAERR,
                                   "%s: tokens: sequence %d has id %d at %d, allowed are 0 to %d",
                                   path, i, s->ids[j][n], n, vocab - 1);
        }
    }
    return true;
}

static bool read_batch(Batch *b, const Config *c, const char *path, StFile *f, Err *err) {
    b->per = c->model.task.per_example;
    const int dims = b->per == 2 ? 3 : 2;
    const int64_t any[3] = {-1, b->per == 2 ? 2 : -1, -1};
    const StTensor *tokens = st_want(f, "tokens", DT_I32, dims, any, err);
    if (!tokens) return false;
    const int64_t rows[2] = {tokens->shape[0], 2};
    const StTensor *lengths = st_want(f, "lengths", DT_I32, dims - 1, rows, err);
    const StTensor *labels = lengths ? st_want(f, "labels", DT_I32, 1, rows, err) : NULL;
    if (!labels) return false;
    if (rows[0] < 1 || rows[0] > 1 << 20)
        return err_set(err, EX_DATAERR, "%s: tokens: an empty batch", path);
    const int64_t N = tokens->shape[dims - 1];
    b->B = (int)rows[0];
    b->samples = mem_alloc((size_t)b->B, sizeof *b->samples);
    for (int i = 0; i < b->B; i++) {
        Sample *s = &b->samples[i];
        s->label = ((const int32_t *)labels->data)[i];
        for (int j = 0; j < b->per; j++) {
            const int64_t row = (int64_t)i * b->per + j;
            s->ids[j] = (const int32_t *)tokens->data + row * N;
            s->length[j] = ((const int32_t *)lengths->data)[row];
            if (s->length[j] > N)
                return err_set(err, EX_DATAERR,
                               "%s: lengths: sequence %d has %d tokens, tokens has room for %lld",
                               path, i, s->length[j], (long long)N);
        }
    }
    return check_ids(b, c, path, err);
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

static void layout(Step *s, Arena *a) {
    const size_t total = s->c->model.params.total, B = (size_t)s->batch.B;
    s->w = arena_reals(a, total);
    s->grads = arena_reals(a, total);
    adamw_layout(&s->adamw, a, &s->c->model.params);
    s->loss = arena_take(a, B, sizeof *s->loss);
    s->logits = arena_reals(a, B * (size_t)s->c->model.task.classes);
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
    const Outcome out = {.loss = s->loss, .logits = s->logits};
    engine_step(&s->engine, s->batch.samples, B, 1.0 / B, rng_key(0), s->grads, &out,
                s->traces.trace);
    for (int i = 0; i < B; i++) loss += s->loss[i];
    return loss / B;
}

static void updates(Step *s, int n) {
    const TrainConf *t = &s->c->train;
    for (int64_t i = 1; i <= n; i++) {
        pass(s);
        const double norm = adamw_grad_norm(&s->adamw, s->grads);
        const double lr =
            t->lr * schedule_factor(t->schedule, i, t->warmup, t->steps ? t->steps : n);
        adamw_update(&s->adamw, &t->adamw, s->w, s->grads, lr, clip_factor(norm, t->clip), i);
    }
}

static bool write_results(Step *s, const char *path, Err *err) {
    const Model *m = &s->c->model;
    const size_t most = (size_t)(m->params.count + 3 * m->conf.depth + 2);
    StTensor *t = mem_alloc(most, sizeof *t);
    char(*names)[96] = mem_alloc(most, sizeof *names);
    real loss = (real)pass(s);
    int n = params_tensors(&m->params, s->grads, "grad.", PARAM_TRAINED, t, names);
    t[n++] = st_real_tensor("logits", s->logits, 2, (int64_t[]){s->batch.B, m->task.classes});
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
    bool ok = params_read(&m->params, w, &f, err);
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

/* Told before anything is computed. */
static bool may_write(const Options *o, Err *err) {
    if (o->out && o->weights && (file_same(o->out, o->weights) || file_same(o->out, o->batch)))
        return err_set(err, EX_USAGE, "--out: %s is one of the inputs", o->out);
    if (o->weights_out && o->batch && file_same(o->weights_out, o->batch))
        return err_set(err, EX_USAGE, "--weights-out: %s is the batch itself", o->weights_out);
    return (!o->out || kind_may_replace(o->out, KIND_TENSORS, err)) &&
           (!o->weights_out || kind_may_replace(o->weights_out, KIND_TENSORS, err));
}

static bool run(const Config *c, const Options *o, Err *err) {
    Step s = {.c = c};
    StFile f = {0};
    bool ok = st_open(&f, o->batch, err) && read_batch(&s.batch, c, o->batch, &f, err);
    if (ok) {
        layout(&s, &s.memory);
        ok = arena_open(&s.memory, s.memory.used, err);
    }
    if (ok) {
        layout(&s, &s.memory);
        traces_open(&s.traces, &c->model, s.batch.B * s.batch.per, most_tokens(&s), false);
        ok = read_weights(&c->model, s.w, o->weights, err) &&
             engine_open(&s.engine, &c->model, s.batch.B, c->train.lanes, true, err);
    }
    if (ok) updates(&s, o->steps);
    if (ok && o->out) ok = write_results(&s, o->out, err);
    if (ok && o->weights_out) ok = write_weights(&c->model, s.w, o->weights_out, err);
    engine_close(&s.engine);
    arena_close(&s.memory);
    mem_free(s.batch.samples);
    traces_close(&s.traces);
    st_close(&f);
    return ok;
}

int main(int argc, char **argv) {
    Err err = {0};
    Options o = {0};
    Config c = {0};
    stop_ignore_write_signals();
    bool ok = parse(&o, argc, argv, &err) && may_write(&o, &err);
    lanes_open(o.threads);
    ok = ok && lanes_start(&err);
    if (ok) {
        gemm_open();
        ok = config_load(&c, o.line.words[0], o.line.words + 1, o.line.nwords - 1, &err);
        if (ok) c.model.conf.dropout = 0;
    }
    ok = ok && (o.init ? init_weights : run)(&c, &o, &err) && err_check_stdout(&err);
    config_free(&c);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
