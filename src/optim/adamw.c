#include "optim/adamw.h"

#include <math.h>

#include "core/lanes.h"

void adamw_layout(Adamw *o, Arena *a, const Params *params) {
    o->params = params;
    o->m = arena_reals(a, params->total);
    o->v = arena_reals(a, params->total);
    o->per_chunk = arena_take(a, (size_t)params_chunks(params), sizeof *o->per_chunk);
}

typedef struct Job {
    const Adamw *o;
    const AdamwConf *conf;
    real *w;
    const real *grads;
    double lr, factor, bias1, bias2;
} Job;

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
        if ((p->list[i].flags & PARAM_TRAINED) && params_overlap(&p->list[i], chunk, &from, &to))
            sum += sum_squares(j->grads, from, to);
    j->o->per_chunk[chunk] = sum;
}

double adamw_grad_norm(const Adamw *o, const real *grads) {
    Job job = {.o = o, .grads = grads};
    double sum = 0;
    lanes_run(params_chunks(o->params), norm_chunk, &job);
    for (int i = 0; i < params_chunks(o->params); i++) sum += o->per_chunk[i];
    return sqrt(sum);
}

double clip_factor(double norm, double clip) {
    if (clip <= 0) return 1;
    double f = clip / (norm + 1e-6);
    return f < 1 ? f : 1;
}

/* A value of a parameter with its moments. */
typedef struct Value {
    real w, m, v;
} Value;

typedef struct Rule {
    real b1, b2, c1, c2, eps, step, root, keep, factor;
} Rule;

static Rule rule(const Job *j, const Param *q) {
    const double decay = q->flags & PARAM_DECAYED ? j->lr * j->conf->weight_decay : 0;
    return (Rule){
        .b1 = (real)j->conf->beta1,
        .b2 = (real)j->conf->beta2,
        .c1 = (real)(1 - j->conf->beta1),
        .c2 = (real)(1 - j->conf->beta2),
        .eps = (real)j->conf->eps,
        .step = (real)(j->lr / j->bias1),
        .root = (real)(1 / sqrt(j->bias2)),
        .keep = (real)(1 - decay),
        .factor = (real)j->factor,
    };
}

static inline Value updated(const Rule *r, Value x, real grad) {
    const real g = grad * r->factor;
    x.m = r->b1 * x.m + r->c1 * g;
    x.v = r->b2 * x.v + r->c2 * g * g;
    x.w = r->keep * x.w - r->step * x.m / (REAL_SQRT(x.v) * r->root + r->eps);
    return x;
}

static void update_range(const Job *j, const Param *q, size_t from, size_t to) {
    real *restrict w = j->w, *restrict m = j->o->m, *restrict v = j->o->v;
    const real *restrict grads = j->grads;
    const Rule r = rule(j, q);
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        const Value x = updated(&r, (Value){w[i], m[i], v[i]}, grads[i]);
        w[i] = x.w;
        m[i] = x.m;
        v[i] = x.v;
    }
}

/* x - x is 0, but not of what is infinite or no number. */
static bool range_stays_finite(const Job *j, const Param *q, size_t from, size_t to) {
    const real *w = j->w, *m = j->o->m, *v = j->o->v, *grads = j->grads;
    const Rule r = rule(j, q);
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = from; i < to; i++) {
        const Value x = updated(&r, (Value){w[i], m[i], v[i]}, grads[i]);
        sum += (x.w - x.w) + (x.m - x.m) + (x.v - x.v);
    }
    return sum == 0;
}

static void update_chunk(void *ctx, int chunk, int thread) {
    const Job *j = ctx;
    const Params *p = j->o->params;
    size_t from, to;
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        if ((q->flags & PARAM_TRAINED) && params_overlap(q, chunk, &from, &to))
            update_range(j, q, from, to);
    }
}

/* Leaves in per_chunk the first parameter in the chunk that would not stay finite, or their count.
 */
static void check_chunk(void *ctx, int chunk, int thread) {
    const Job *j = ctx;
    const Params *p = j->o->params;
    size_t from, to;
    int i = 0;
    for (; i < p->count; i++) {
        const Param *q = &p->list[i];
        if ((q->flags & PARAM_TRAINED) && params_overlap(q, chunk, &from, &to) &&
            !range_stays_finite(j, q, from, to))
            break;
    }
    j->o->per_chunk[chunk] = i;
}

static Job job_of(const Adamw *o, const AdamwConf *conf, real *w, const real *grads, double lr,
                  double factor, int64_t step) {
    const double bias1 = 1 - pow(conf->beta1, (double)step);
    const double bias2 = 1 - pow(conf->beta2, (double)step);
    return (Job){o, conf, w, grads, lr, factor, bias1, bias2};
}

const Param *adamw_overflow(const Adamw *o, const AdamwConf *conf, const real *w, const real *grads,
                            double lr, double factor, int64_t step) {
    Job job = job_of(o, conf, (real *)(uintptr_t)w, grads, lr, factor, step);
    const Params *p = o->params;
    int first = p->count;
    lanes_run(params_chunks(p), check_chunk, &job);
    for (int i = 0; i < params_chunks(p); i++)
        if (o->per_chunk[i] < first) first = (int)o->per_chunk[i];
    return first < p->count ? &p->list[first] : NULL;
}

void adamw_update(const Adamw *o, const AdamwConf *conf, real *w, const real *grads, double lr,
                  double factor, int64_t step) {
    Job job = job_of(o, conf, w, grads, lr, factor, step);
    lanes_run(params_chunks(o->params), update_chunk, &job);
}
