#include "attention/layer.h"

#include <string.h>

#include "ops/linear.h"
#include "ops/vec.h"

enum { TILE = 256 };

/* Calls for each tile of held tokens. */
#define FOR_HELD(r0, n, a)                                                                         \
    for (int r0 = 0, n; (n = (a)->held - r0 < TILE ? (a)->held - r0 : TILE) > 0; r0 += n)

static real *rows(real *x, int r0, int d) { return x + (size_t)r0 * (size_t)d; }

void attn_acts_place(AttnActs *a, Arena *memory, const AttnLayer *l, int N, bool keep) {
    const size_t all = (size_t)N * (size_t)l->d, saved = l->mech->needs(l->self, N).saved;
    a->N = N;
    for (int i = 0; i < 3; i++) a->qkv[i] = keep ? arena_reals(memory, all) : NULL;
    a->r = arena_reals(memory, all);
    a->order = arena_ints(memory, (size_t)N);
    a->saved = (Arena){arena_take(memory, saved, 1), 0, saved};
}

void attn_scratch_place(AttnScratch *t, Arena *memory, const AttnLayer *l, int N, bool keep) {
    const size_t all = (size_t)N * (size_t)l->d;
    const AttnNeeds needs = l->mech->needs(l->self, N);
    const size_t most = needs.forward > needs.backward ? needs.forward : needs.backward;
    real **const rows[6] = {&t->x, &t->dx, &t->dr, &t->dq, &t->dk, &t->dv};
    for (int i = 0; i < 6; i++) *rows[i] = arena_reals(memory, all);
    for (int i = 0; i < 3; i++) t->qkv[i] = keep ? NULL : arena_reals(memory, all);
    t->mech = (Arena){arena_take(memory, most, 1), 0, most};
}

/* Where the query, key or value (0, 1, 2) is. */
static real *projected(const AttnActs *a, const AttnScratch *t, int i) {
    return a->qkv[i] ? a->qkv[i] : t->qkv[i];
}

AttnCall attn_layer_call(const AttnLayer *l, const AttnActs *a, const AttnScratch *t,
                         const real *x) {
    AttnCall c = {.N = a->N,
                  .held = a->held,
                  .X = x,
                  .Q = projected(a, t, 0),
                  .K = projected(a, t, 1),
                  .V = projected(a, t, 2),
                  .R = a->r,
                  .q = l->q,
                  .k = l->k,
                  .o = l->o,
                  .saved = a->saved,
                  .scratch = t->mech,
                  .key = a->key,
                  .tap = a->tap};
    memcpy(c.w, l->own, sizeof c.w);
    return c;
}

void attn_layer_gradients(const AttnLayer *l, const AttnScratch *t, AttnCall *c) {
    c->dR = t->dr, c->dX = t->dx, c->dQ = t->dq, c->dK = t->dk, c->dV = t->dv;
    memcpy(c->dw, l->down, sizeof c->dw);
}

/* x in the mechanism's order. */
static const real *ordered(const AttnActs *a, const AttnScratch *t, const real *x, int d) {
    for (int i = 0; i < a->N; i++)
        vec_copy(rows(t->x, i, d), x + (size_t)a->order[i] * (size_t)d, d);
    return t->x;
}

void attn_layer_choose(const AttnLayer *l, AttnActs *a, const AttnScratch *t, AttnCall *c) {
    AttnCall call = *c;
    a->held = l->mech->choose ? l->mech->choose(l->self, &call, a->order) : 0;
    if (a->held == 0) {
        a->held = a->N;
        for (int i = 0; i < a->N; i++) a->order[i] = i;
    }
    c->held = a->held;
    c->X = ordered(a, t, c->X, l->d);
}

/* q, key and v from x in the mechanism's order. */
static void project(const AttnLayer *l, const AttnActs *a, const AttnScratch *t, const real *x) {
    const int d = l->d;
    const AttnLinear *const at[3] = {&l->q, &l->k, &l->v};
    FOR_HELD (r0, n, a)
        for (int i = 0; i < 3; i++)
            linear_forward(rows(projected(a, t, i), r0, d), d, x + (size_t)r0 * (size_t)d, d,
                           at[i]->wt, at[i]->b, NULL, n, d, d);
}

void attn_layer_forward(const AttnLayer *l, AttnActs *a, const AttnScratch *t, const real *x) {
    AttnCall c = attn_layer_call(l, a, t, x);
    attn_layer_choose(l, a, t, &c);
    project(l, a, t, c.X);
    l->mech->forward(l->self, &c);
}

int attn_rows(const AttnActs *a, int r0, int most) {
    const int left = (r0 < a->held ? a->held : a->N) - r0;
    return left < most ? left : most;
}

void attn_layer_output(const AttnLayer *l, const AttnActs *a, real *y, int r0, int n) {
    const int d = l->d;
    const real *r = rows(a->r, r0, d);
    if (r0 < a->held) {
        linear_forward(y, d, r, d, l->o.wt, l->o.b, NULL, n, d, d);
        return;
    }
    for (int j = 0; j < n; j++)
#pragma omp simd
        for (int i = 0; i < d; i++) y[j * d + i] = r[j * d + i] + l->o.b[i];
}

void attn_layer_output_backward(const AttnLayer *l, const AttnActs *a, const AttnScratch *t,
                                const real *dy, int r0, int n) {
    const int d = l->d;
    real *dr = rows(t->dr, r0, d);
    if (r0 < a->held) {
        linear_backward_weight(l->o.dw, l->o.db, dy, d, rows(a->r, r0, d), d, n, d, d);
        linear_backward_input(dr, d, dy, d, l->o.w, false, n, d, d);
        return;
    }
    memcpy(dr, dy, (size_t)(n * d) * sizeof *dr);
    linear_backward_bias(l->o.db, dy, d, n, d);
}

void attn_layer_backward(const AttnLayer *l, const AttnActs *a, const AttnScratch *t,
                         const real *x) {
    const int d = l->d;
    const AttnLinear *const at[3] = {&l->q, &l->k, &l->v};
    real *const grads[3] = {t->dq, t->dk, t->dv};
    AttnCall c = attn_layer_call(l, a, t, ordered(a, t, x, d));
    attn_layer_gradients(l, t, &c);
    if (!a->qkv[0]) project(l, a, t, c.X);
    memset(t->dx, 0, (size_t)a->N * (size_t)d * sizeof *t->dx);
    for (int i = 0; i < 3; i++) memset(grads[i], 0, (size_t)a->held * (size_t)d * sizeof *t->dq);
    l->mech->backward(l->self, &c);
    FOR_HELD (r0, n, a)
        for (int i = 0; i < 3; i++) {
            const real *dy = rows(grads[i], r0, d), *in = c.X + (size_t)r0 * (size_t)d;
            linear_backward_weight(at[i]->dw, at[i]->db, dy, d, in, d, n, d, d);
            linear_backward_input(rows(t->dx, r0, d), d, dy, d, at[i]->w, true, n, d, d);
        }
}
