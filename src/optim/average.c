#include "optim/average.h"

#include "core/lanes.h"

double average_decay(double decay, int64_t t) {
    const double early = (1 + (double)t) / (10 + (double)t);
    return early < decay ? early : decay;
}

typedef struct Job {
    const Params *p;
    real *average;
    const real *w;
    double decay;
} Job;

static void average_range(const Job *j, size_t from, size_t to) {
    real *restrict average = j->average;
    const real *restrict w = j->w;
    const double decay = j->decay, rest = 1 - decay;
#pragma omp simd
    for (size_t i = from; i < to; i++)
        average[i] = (real)(decay * (double)average[i] + rest * (double)w[i]);
}

static void average_chunk(void *ctx, int chunk, int thread) {
    const Job *j = ctx;
    size_t from, to;
    for (int i = 0; i < j->p->count; i++) {
        const Param *q = &j->p->list[i];
        if (!(q->flags & PARAM_DRAWN) && params_overlap(q, chunk, &from, &to))
            average_range(j, from, to);
    }
}

void average_update(const Params *p, real *average, const real *w, double decay) {
    Job job = {p, average, w, decay};
    lanes_run(params_chunks(p), average_chunk, &job);
}
