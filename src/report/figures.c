#include "report/figures.h"

#include <math.h>

#include "core/log.h"
#include "core/mem.h"
#include "train/config.h"

Spread spread_of(const double *x, int n) {
    Spread s = {NAN, NAN, NAN, NAN, 0};
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(x[i])) continue;
        if (s.n == 0 || x[i] < s.least) s.least = x[i];
        if (s.n == 0 || x[i] > s.most) s.most = x[i];
        sum += x[i];
        s.n++;
    }
    if (s.n > 0) s.mean = sum / s.n;
    for (int i = 0; i < n; i++)
        if (!isnan(x[i])) squares += (x[i] - s.mean) * (x[i] - s.mean);
    if (s.n > 1) s.sd = sqrt(squares / (s.n - 1));
    return s;
}

static double accuracy(const RunLine *l) { return l ? 100 * l->value[RUN_ACCURACY] : NAN; }

static double test_accuracy(const Run *r, int which) {
    return r->tested[which] && run_done(r) ? accuracy(&r->test[which]) : NAN;
}

static double bits(const Run *r) {
    const RunLine *l = run_done(r) && r->tested[RUN_BEST] ? &r->test[RUN_BEST] : run_best(r);
    return l ? l->value[RUN_BITS] : NAN;
}

static double last_memory(const Run *r) {
    return r->train.n ? r->train.line[r->train.n - 1].value[RUN_RSS_MB] : NAN;
}

static double made(const Run *r, int key) {
    const RunLine l = run_made(r);
    return l.step ? l.value[key] : NAN;
}

/* What of a run each Spread is made of. */
enum { BEST, LAST, VALIDATION, SO_FAR, BITS, SAMPLES, MEMORY, EPOCHS, HOURS, FIGURES };

/* `done_alone`: where any run of the group is done, others do not count among its bits. */
static double figure(const Run *r, int which, bool done_alone) {
    switch (which) {
    case BEST: return test_accuracy(r, RUN_BEST);
    case LAST: return test_accuracy(r, RUN_LAST);
    case VALIDATION: return run_done(r) ? accuracy(run_best(r)) : NAN;
    case SO_FAR: return run_done(r) ? NAN : accuracy(run_best(r));
    case BITS: return done_alone && !run_done(r) ? NAN : bits(r);
    case SAMPLES: return run_samples_per_s(r);
    case MEMORY: return last_memory(r);
    case EPOCHS: return made(r, RUN_EPOCH);
    default: return made(r, RUN_SECONDS) / 3600;
    }
}

static void measure_model(Result *r, const Run *run) {
    Config c;
    Err err;
    char path[FILE_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/config.json", run->dir);
    if (config_load(&c, path, NULL, 0, &err)) {
        const Model *m = &c.model;
        r->parameters = (double)params_values(&m->params, PARAM_TRAINED);
        r->gflop =
            3e-9 * (m->task.per_example * model_flops(m, m->conf.max_length) + model_head_flops(m));
    } else {
        log_warn("%s; so its parameters and GFLOP are not known", err.text);
    }
    config_free(&c);
}

void group_result(Result *r, const Group *g, bool model) {
    *r = (Result){.runs = g->n, .parameters = NAN, .gflop = NAN, .test_examples = NAN};
    Spread *const out[FIGURES] = {&r->best,      &r->last,   &r->validation,
                                  &r->so_far,    &r->bits,   &r->samples_per_s,
                                  &r->memory_mb, &r->epochs, &r->hours};
    double *x = mem_alloc((size_t)g->n + 1, sizeof *x);
    for (int i = 0; i < g->n; i++) r->finished += run_done(g->run[i]);
    for (int which = 0; which < FIGURES; which++) {
        for (int i = 0; i < g->n; i++) x[i] = figure(g->run[i], which, r->finished > 0);
        *out[which] = spread_of(x, g->n);
    }
    mem_free(x);
    for (int i = 0; i < g->n; i++)
        for (int which = 0; which < RUN_TESTS; which++)
            if (g->run[i]->tested[which])
                r->test_examples = g->run[i]->test[which].value[RUN_COUNT];
    if (model) measure_model(r, g->run[0]);
}
