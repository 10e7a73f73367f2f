#include "optim/adamw.h"

#include <math.h>

#include "core/lanes.h"

enum { CHUNK = 16384 };

static int chunks(const Params *p) { return (int)((p->total + CHUNK - 1) / CHUNK); }

void adamw_layout(Adamw *o, Arena *a, const Params *params) {
    o->params = params;
    o->m = arena_reals(a, params->total);
    o->v = arena_reals(a, params->total);
    o->chunk_sum = arena_take(a, (size_t)chunks(params), sizeof *o->chunk_sum);
}

typedef struct Job {
    const Adamw *o;
    const AdamwConf *conf;
    real *w;
    const real *grads;
    double lr, factor, bias1, bias2;
} Job;

/* The part of parameter q that lies in the chunk; false if none does. */
static bool overlap(const Param *q, int chunk, size_t *from, size_t *to) {
    const size_t a = (size_t)chunk * CHUNK, b = a + CHUNK;
    *from = q->at > a ? q->at : a;
    *to = q->at + q->n < b ? q->at + q->n : b;
    return *from < *to;
}

static double sum_squares(const real *g, size_t from, size_t to) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = from; i < to; i++) sum += (double)g[i] * (double)g[i];
    return sum;
}

static void norm_chunk(void *ctx, int chunk, int thread) {
    const Job *j = ctx;
    const Params *p = j->o->params;
    double sum = 0;
    size_t from, to;
    for (int i = 0; i < p->count; i++)
        if ((p->list[i].flags & PARAM_TRAINED) && overlap(&p->list[i], chunk, &from, &to))
            sum += sum_squares(j->grads, from, to);
    j->o->chunk_sum[chunk] = sum;
}

double adamw_grad_norm(const Adamw *o, const real *grads) {
    Job job = {.o = o, .grads = grads};
    double sum = 0;
    lanes_run(chunks(o->params), norm_chunk, &job);
    for (int i = 0; i < chunks(o->params); i++) sum += o->chunk_sum[i];
    return sqrt(sum);
}

double clip_factor(double norm, double clip) {
    if (clip <= 0) return 1;
    double f = clip / (norm + 1e-6);
    return f < 1 ? f : 1;
}

static void update_range(const Job *j, double decay, size_t from, size_t to) {
    real *restrict w = j->w, *restrict m = j->o->m, *restrict v = j->o->v;
    const real *restrict grads = j->grads;
    const real b1 = (real)j->conf->beta1, b2 = (real)j->conf->beta2, eps = (real)j->conf->eps;
    const real c1 = (real)(1 - j->conf->beta1), c2 = (real)(1 - j->conf->beta2);
    const real step = (real)(j->lr / j->bias1), root = (real)(1 / sqrt(j->bias2));
    const real keep = (real)(1 - decay), factor = (real)j->factor;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        real g = grads[i] * factor;
        m[i] = b1 * m[i] + c1 * g;
        v[i] = b2 * v[i] + c2 * g * g;
        w[i] = keep * w[i] - step * m[i] / (REAL_SQRT(v[i]) * root + eps);
    }
}

static void update_chunk(void *ctx, int chunk, int thread) {
    const Job *j = ctx;
    const Params *p = j->o->params;
    size_t from, to;
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        if (!(q->flags & PARAM_TRAINED) || !overlap(q, chunk, &from, &to)) continue;
        update_range(j, q->flags & PARAM_DECAYED ? j->lr * j->conf->weight_decay : 0, from, to);
    }
}

void adamw_update(const Adamw *o, const AdamwConf *conf, real *w, const real *grads, double lr,
                  double factor, int64_t step) {
    const double bias1 = 1 - pow(conf->beta1, (double)step);
    const double bias2 = 1 - pow(conf->beta2, (double)step);
    Job job = {o, conf, w, grads, lr, factor, bias1, bias2};
    lanes_run(chunks(o->params), update_chunk, &job);
}
