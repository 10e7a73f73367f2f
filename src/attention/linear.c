/* Linear attention (Katharopoulos, Vyas, Pappas, Fleuret 2020, arXiv:2006.16236). Head by head,
 * with phi = elu + 1 of each element:
 *   R_i = phi(Q_i) M / (<phi(Q_i), z> + 1e-6),  M = sum_j phi(K_j) V_j^T [e,e],  z = sum_j phi(K_j)
 * Q and K are not scaled. Time O(N e d), memory O(N d).
 * Saved for backward: R [N,d], M [h,e,e], z [h,e]; where kept phi(Q), phi(K) and V. */
#include <string.h>

#include "attention/layer.h"
#include "core/gemm.h"
#include "ops/linear.h"
#include "ops/vec.h"

#define EPS REAL(1e-6)

typedef struct Linear {
    const AttnShape *s;
    AttnRows rows; /* q and k become phi of them */
    int N;
    real *M, *z;
    real *dM, *dz; /* backward */
    real *ddiv;    /* (N,h) the gradients of divisors */
} Linear;

static AttnMemory layout(Linear *o, const AttnShape *s, AttnMemory m, int N, bool backward) {
    const size_t d = (size_t)s->d, e = (size_t)s->e;
    o->s = s, o->N = N;
    attn_layout_rows(&o->rows, &attn_linear, s, &m, N, backward);
    o->M = arena_reals(&m.saved, d * e);
    o->z = arena_reals(&m.saved, d);
    if (!backward) return m;
    o->dM = arena_reals(&m.scratch, d * e);
    o->dz = arena_reals(&m.scratch, d);
    o->ddiv = arena_reals(&m.scratch, (size_t)N * (size_t)s->h);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    return layout(&(Linear){0}, self, (AttnMemory){0}, N, backward);
}

/* ---- phi ---- */

/* x + 1 for x > 0, else exp(x): through expm1 it would lose half its digits. */
static inline void phi(real *x, int left) {
    const Vec v = vec_load(x, left);
    vec_store(x, vec_where_greater(v, (Vec){0}, v + 1, vec_exp(v)), left);
}

/* phi' is 1 for x > 0, where phi > 1, else phi. */
static inline void phi_backward(real *dx, const real *y, int left) {
    const Vec v = vec_load(y, left);
    vec_store(dx, vec_load(dx, left) * vec_min(vec_all(1), v), left);
}

static real *row(const Linear *o, real *x, int n) { return x + (size_t)n * (size_t)o->s->d; }

static void phi_tile(const void *ctx, int tile, Arena scratch) {
    const Linear *o = ctx;
    const int n0 = tile * ATTN_TILE, n = attn_tile_rows(o->N, tile) * o->s->d;
    for (int i = ATTN_Q; i <= ATTN_K; i++) {
        real *x = row(o, o->rows.qkv[i], n0);
        EACH_VEC(j, left, n, phi(x + j, left));
    }
}

static void project(const Linear *o, const AttnCall *c) {
    attn_project(c, &o->rows, c->X, c->N);
    attn_turn(c, &o->rows, o->s, c->N);
    attn_each(c, attn_tiles(c->N), phi_tile, NULL, o);
}

/* On which side of 0 each element is: phi's second derivative jumps there, which differences of
 * gradients must not straddle. */
static void tell_sides(const Linear *o, AttnTrace *trace) {
    const size_t n = (size_t)o->N * (size_t)o->s->d;
    for (size_t i = ATTN_Q; i <= ATTN_K; i++)
        for (size_t j = 0; j < n; j++)
            attn_trace_choice(trace, o->rows.qkv[i][j] > 1, (int)(i * n + j));
}

/* ---- forward ---- */

/* A head's M and z, over all tokens in order. */
static void sums_head(const void *ctx, int head, Arena scratch) {
    const Linear *o = ctx;
    const int d = o->s->d, e = o->s->e, at = head * e;
    memset(o->z + at, 0, (size_t)e * sizeof *o->z);
    for (int i = 0; i < attn_tiles(o->N); i++) {
        const int n0 = i * ATTN_TILE, n = attn_tile_rows(o->N, i);
        const real *k = row(o, o->rows.qkv[ATTN_K], n0) + at;
        gemm_tn(o->M + at * e, e, k, d, row(o, o->rows.qkv[ATTN_V], n0) + at, d, e, e, n, i > 0);
        linear_backward_bias(o->z + at, k, d, n, e);
    }
}

static real divisor(const Linear *o, int n, int at) {
    return vec_dot(row(o, o->rows.qkv[ATTN_Q], n) + at, o->z + at, o->s->e) + EPS;
}

static void forward_tile(const void *ctx, int tile, Arena scratch) {
    const Linear *o = ctx;
    const int d = o->s->d, e = o->s->e, n0 = tile * ATTN_TILE, n = attn_tile_rows(o->N, tile);
    for (int at = 0; at < d; at += e) {
        gemm_nn(row(o, o->rows.r, n0) + at, d, row(o, o->rows.qkv[ATTN_Q], n0) + at, d,
                o->M + at * e, e, n, e, e, false);
        for (int i = n0; i < n0 + n; i++) {
            real *r = row(o, o->rows.r, i) + at;
            const real by = 1 / divisor(o, i, at);
            for (int j = 0; j < e; j++) r[j] *= by;
        }
    }
}

static void forward(const void *self, const AttnCall *c) {
    Linear o;
    layout(&o, self, c->memory, c->N, false);
    project(&o, c);
    if (c->trace) tell_sides(&o, c->trace);
    attn_each(c, o.s->h, sums_head, NULL, &o);
    attn_each(c, attn_tiles(c->N), forward_tile, NULL, &o);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

/* ---- backward ---- */

/* With R = u / s, u = phi(Q) M and s = <phi(Q), z> + eps: du = dR / s, in place of dR, and
 * ds = -<dR, R> / s; dphi(Q) = du M^T + ds z. */
static void queries_tile(const void *ctx, int tile, Arena scratch) {
    const Linear *o = ctx;
    const int d = o->s->d, e = o->s->e, n0 = tile * ATTN_TILE, n = attn_tile_rows(o->N, tile);
    for (int at = 0; at < d; at += e) {
        real *ds = o->ddiv + at / e;
        for (int i = n0; i < n0 + n; i++) {
            real *du = row(o, o->rows.dr, i) + at, by = 1 / divisor(o, i, at);
            ds[(size_t)i * (size_t)o->s->h] = -by * vec_dot(du, row(o, o->rows.r, i) + at, e);
            for (int j = 0; j < e; j++) du[j] *= by;
        }
        real *dq = row(o, o->rows.dqkv[ATTN_Q], n0) + at;
        gemm_nn(dq, d, ds + (size_t)n0 * (size_t)o->s->h, o->s->h, o->z + at, e, n, e, 1, false);
        gemm_nt(dq, d, row(o, o->rows.dr, n0) + at, d, o->M + at * e, e, n, e, e, true);
    }
    real *dq = row(o, o->rows.dqkv[ATTN_Q], n0);
    const real *q = row(o, o->rows.qkv[ATTN_Q], n0);
    EACH_VEC(j, left, n * d, phi_backward(dq + j, q + j, left));
}

/* dM = phi(Q)^T du, dz = phi(Q)^T ds. */
static void sums_backward_head(const void *ctx, int head, Arena scratch) {
    const Linear *o = ctx;
    const int d = o->s->d, e = o->s->e, h = o->s->h, at = head * e;
    for (int i = 0; i < attn_tiles(o->N); i++) {
        const int n0 = i * ATTN_TILE, n = attn_tile_rows(o->N, i);
        const real *q = row(o, o->rows.qkv[ATTN_Q], n0) + at;
        gemm_tn(o->dM + at * e, e, q, d, row(o, o->rows.dr, n0) + at, d, e, e, n, i > 0);
        const real *ds = o->ddiv + (size_t)n0 * (size_t)h + head;
        gemm_tn(o->dz + at, 1, q, d, ds, h, e, 1, n, i > 0);
    }
}

/* dphi(K) = V dM^T + dz, dV = phi(K) dM. */
static void keys_tile(const void *ctx, int tile, Arena scratch) {
    const Linear *o = ctx;
    const int d = o->s->d, e = o->s->e, n0 = tile * ATTN_TILE, n = attn_tile_rows(o->N, tile);
    real *dk = row(o, o->rows.dqkv[ATTN_K], n0), *dv = row(o, o->rows.dqkv[ATTN_V], n0);
    const real *k = row(o, o->rows.qkv[ATTN_K], n0), *v = row(o, o->rows.qkv[ATTN_V], n0);
    for (int i = 0; i < n; i++) vec_copy(dk + i * d, o->dz, d);
    for (int at = 0; at < d; at += e) {
        gemm_nt(dk + at, d, v + at, d, o->dM + at * e, e, n, e, e, true);
        gemm_nn(dv + at, d, k + at, d, o->dM + at * e, e, n, e, e, false);
    }
    EACH_VEC(j, left, n * d, phi_backward(dk + j, k + j, left));
}

static void backward(const void *self, const AttnCall *c) {
    Linear o;
    layout(&o, self, c->memory, c->N, true);
    if (!o.s->keep) project(&o, c);
    attn_output_backward(c, &o.rows, c->dY, c->N);
    attn_each(c, attn_tiles(c->N), queries_tile, NULL, &o);
    attn_each(c, o.s->h, sums_backward_head, NULL, &o);
    attn_each(c, attn_tiles(c->N), keys_tile, NULL, &o);
    attn_close_rows(c, &o.rows, o.s);
}

/* M and phi(Q) M; z and the divisors. */
static double flops(const void *self, int N) {
    const AttnShape *s = self;
    return 2 * 2.0 * N * s->d * (s->e + 1);
}

const AttnMech attn_linear = {
    .name = "linear",
    .title = "feature maps elu + 1 in place of softmax",
    .time = "O(N e)",
    .memory = "O(N)",
    .reference = "arXiv:2006.16236",
    .projections = ATTN_QKVO,
    .self_size = sizeof(AttnShape),
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
