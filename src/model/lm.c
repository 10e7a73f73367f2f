#include "model/lm.h"

#include <string.h>

#include "core/token.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/xent.h"

enum { LM_ROWS = 128 };

void lm_layout(LmScratch *t, Arena *a, const Model *m) {
    const size_t d = (size_t)m->conf.d;
    t->token = arena_ints(a, LM_ROWS);
    t->target = arena_ints(a, LM_ROWS);
    t->x = arena_reals(a, LM_ROWS * d);
    t->dx = arena_reals(a, LM_ROWS * d);
    t->logits = arena_reals(a, LM_ROWS * (size_t)m->task.vocab);
}

/* Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S). */
void lm_mask(int *ids, int n, int masked, RngKey key) {
    for (int i = 0; i < n; i++) {
        if ((int)rng_below(key, (uint64_t)i, (uint32_t)(n - i)) >= masked) continue;
        ids[i] = TOKEN_MASKED;
        masked--;
    }
}

/* The next masked tokens from *at on, which moves behind them; how many. */
static int gather(LmScratch *t, const Pass *p, const Doc *doc, const int *targets, const real *x,
                  int *at) {
    const int d = p->m->conf.d, cls = p->m->conf.pooling == POOL_CLS;
    int n = 0;
    for (; *at < doc->N - cls && n < LM_ROWS; ++*at) {
        if (doc->ids[*at] != TOKEN_MASKED) continue;
        vec_copy(t->x + n * d, x + (size_t)(*at + cls) * (size_t)d, d);
        t->token[n] = *at, t->target[n] = targets[*at];
        n++;
    }
    return n;
}

static void forward(const Pass *p, LmScratch *t, int n, real *logits) {
    const Model *m = p->m;
    const int d = m->conf.d, V = m->task.vocab;
    linear_forward(t->logits, V, t->x, d, p->wt + m->lm.w, p->w + m->lm.b, NULL, n, d, V);
    for (int i = 0; i < n && logits; i++)
        vec_copy(logits + (size_t)t->token[i] * (size_t)V, t->logits + i * V, V);
}

/* t->logits is their gradient by now. */
static void backward(const Pass *p, const Doc *doc, LmScratch *t, int n, real *dw) {
    const Model *m = p->m;
    const int d = m->conf.d, V = m->task.vocab, cls = m->conf.pooling == POOL_CLS;
    linear_backward_weight(dw + m->lm.w, dw + m->lm.b, t->logits, V, t->x, d, n, d, V);
    linear_backward_input(t->dx, d, t->logits, V, p->w + m->lm.w, false, n, d, V);
    for (int i = 0; i < n; i++)
        vec_copy(doc->grad + (size_t)(t->token[i] + cls) * (size_t)d, t->dx + i * d, d);
}

LmOutcome lm_step(const Pass *p, Doc *doc, const int *targets, const real *x, LmScratch *t,
                  double scale, double smoothing, real *dw, real *logits) {
    LmOutcome sum = {0};
    if (dw) memset(doc->grad, 0, (size_t)doc->N * (size_t)p->m->conf.d * sizeof *doc->grad);
    for (int at = 0, n; (n = gather(t, p, doc, targets, x, &at)) > 0;) {
        forward(p, t, n, logits);
        sum.loss +=
            xent_rows(t->logits, t->target, scale, smoothing, n, p->m->task.vocab, &sum.correct);
        if (dw) backward(p, doc, t, n, dw);
    }
    return sum;
}
