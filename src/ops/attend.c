#include "ops/attend.h"

#include <math.h>
#include <string.h>

#include "core/gemm.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

enum {
    ROWS = 64,
    KEYS = 256
}; /* a tile of scores: 64 KB in float, half the second cache at most */

static int min_int(int a, int b) { return a < b ? a : b; }
static int padded(int n) { return (int)attend_padded(n); }

/* Rows of a tile that spans `width` keys. */
static int tile_rows(int width) { return width <= 1024 ? ROWS : width <= 4096 ? 32 : 16; }

/* Memory of a tile that spans `width` keys or fewer: what was planned for the longest sequence must
 * do for all, and a tile of fewer keys has more rows. */
static size_t tile_reals(int width) {
    size_t reals = (size_t)width * (size_t)tile_rows(width);
    if (width > 1024 && reals < 1024 * ROWS) reals = 1024 * ROWS;
    if (width > 4096 && reals < 4096 * 32) reals = 4096 * 32;
    return reals;
}

void attend_place(AttendPack *p, Arena *a, int n, int d, int e, bool backward, bool whole_rows) {
    const size_t np = (size_t)padded(n), size = np * (size_t)d;
    const size_t tile = tile_reals(backward && whole_rows ? padded(n) : KEYS);
    *p = (AttendPack){.d = d, .e = e, .whole_rows = whole_rows};
    p->q = arena_reals(a, size);
    p->k = arena_reals(a, size);
    p->v = arena_reals(a, size);
    p->kt = arena_reals(a, size);
    p->o = arena_reals(a, size);
    p->tile = arena_reals(a, tile);
    p->stats = arena_reals(a, 4 * ROWS);
    if (!backward) return;
    p->vt = arena_reals(a, size);
    p->go = arena_reals(a, size);
    p->dq = arena_reals(a, size);
    p->dk = arena_reals(a, size);
    p->dv = arena_reals(a, size);
    p->dtile = arena_reals(a, tile);
}

static inline void scaled(real *to, const real *from, real scale, int left) {
    vec_store(to, scale * vec_load(from, left), left);
}

static void gather(const AttendPack *p, real *restrict dst, const real *restrict src,
                   const int *idx, real scale) {
    const size_t d = (size_t)p->d;
    for (int r = 0; r < p->n; r++) {
        const real *row = src + (size_t)(idx ? idx[r] : r) * d;
        EACH_VEC(i, left, p->d, scaled(dst + (size_t)r * d + i, row + i, scale, left));
    }
    memset(dst + (size_t)p->n * d, 0, (size_t)(p->np - p->n) * d * sizeof *dst);
}

static void scatter(const AttendPack *p, real *restrict dst, const real *restrict src,
                    const int *idx, real scale) {
    const size_t d = (size_t)p->d;
    for (int r = 0; r < p->n; r++) {
        real *row = dst + (size_t)(idx ? idx[r] : r) * d;
        EACH_VEC(i, left, p->d, vec_add_scaled(row + i, src + (size_t)r * d + i, scale, left));
    }
}

static real inv_tau(const AttendPack *p) { return (real)(1 / sqrt((double)p->e)); }

void attend_pack(AttendPack *p, const real *q, const real *k, const real *v, const int *idx,
                 int n) {
    p->n = n;
    p->np = padded(n);
    gather(p, p->q, q, idx, inv_tau(p));
    gather(p, p->k, k, idx, 1);
    gather(p, p->v, v, idx, 1);
    transpose(p->kt, p->np, p->k, p->d, p->np, p->d);
}

void attend_pack_backward(AttendPack *p, const real *go, const real *o, const int *idx) {
    gather(p, p->go, go, idx, 1);
    if (o) gather(p, p->o, o, idx, 1);
    transpose(p->vt, p->np, p->v, p->d, p->np, p->d);
}

void attend_no_gradients(const AttendPack *p) {
    real *const all[3] = {p->dq, p->dk, p->dv};
    for (int i = 0; i < 3; i++) memset(all[i], 0, (size_t)p->np * (size_t)p->d * sizeof(real));
}

void attend_unpack(const AttendPack *p, real *dq, real *dk, real *dv, const int *idx) {
    scatter(p, dq, p->dq, idx, inv_tau(p));
    scatter(p, dk, p->dk, idx, 1);
    scatter(p, dv, p->dv, idx, 1);
}

/* Row r of a head's columns. */
static real *at(const AttendPack *p, real *x, int r, int head) {
    return x + (size_t)r * (size_t)p->d + (size_t)(head * p->e);
}
static const real *transposed(const AttendPack *p, const real *x, int key, int head) {
    return x + (size_t)(head * p->e) * (size_t)p->np + (size_t)key;
}

/* A tile: rows r0.., keys j0..; `rows` and `keys` are real, rp and kp include the padding. */
typedef struct Tile {
    int r0, rows, rp;
    int j0, keys, kp, ld;
} Tile;

static void tile_rows_at(Tile *t, int r0, int most, int n) {
    t->r0 = r0;
    t->rows = min_int(most, n - r0);
    t->rp = padded(t->rows);
}

static void tile_keys_at(Tile *t, int j0, int n) {
    t->j0 = j0;
    t->keys = min_int(t->ld, n - j0);
    t->kp = padded(t->keys);
}

/* Padding, so that loops run over whole vectors. Rows beyond the last are zero rows of q and go,
 * and keys beyond the last zero rows of k and v. A sum over keys must have their scores so low that
 * they count for nothing; in backward, where the sum is known, they are multiplied by zeros, and
 * their probability is 1, because denormal numbers are slow. */
enum { NOTHING = 80 };

static void pad_row(real *row, const Tile *t, real value) {
    for (int j = t->keys; j < t->kp; j++) row[j] = value;
}

/* Below this, exp needs no shift: e^40 times any number of keys is far from overflow. */
enum { SAFE = 40 };

static VmathTile padded_tile(const Tile *t) { return (VmathTile){t->rows, t->kp, t->ld}; }

static bool needs_shift(const real *s, const Tile *t) {
    return !(vmath_tile_peak(s, padded_tile(t)) <= SAFE);
}

/* Of each row: the shift and the sum so far; of the tile at hand: its sum, and the factor that the
 * sum and the output so far are multiplied by. */
typedef struct Running {
    real *m, *l, *sum, *factor;
} Running;

/* Takes the shift up to the tile's scores, and gives it padding that adds nothing. Returns whether
 * any factor is not 1. */
static bool shift_rows(real *s, const Tile *t, const Running *run) {
    const bool shifted = needs_shift(s, t);
    bool changed = false;
    for (int r = 0; r < t->rows; r++, s += t->ld) {
        real top = 0, shrink = 0;
        if (shifted) {
            pad_row(s, t, s[0]);
            top = vmath_max(s, t->kp);
        }
        if (t->j0 > 0 && run->m[r] > top) top = run->m[r];
        if (t->j0 > 0) shrink = run->m[r] - top;
        run->factor[r] = shrink != 0 ? REAL_EXP(shrink) : 1;
        changed |= shrink != 0;
        run->m[r] = top;
        pad_row(s, t, top - NOTHING);
    }
    return changed;
}

/* One tile of keys joins the running shift, sum and output o of each row. */
static void online_softmax(real *s, const Tile *t, const Running *run, real *o, int d, int e) {
    const bool changed = shift_rows(s, t, run);
    vmath_exp_rows(s, run->sum, run->m, padded_tile(t));
    for (int r = 0; r < t->rows; r++)
        run->l[r] = t->j0 > 0 ? run->l[r] * run->factor[r] + run->sum[r] : run->sum[r];
    for (int r = 0; r < t->rows && changed; r++)
#pragma omp simd
        for (int j = 0; j < e; j++) o[(size_t)r * (size_t)d + (size_t)j] *= run->factor[r];
}

static void finish_rows(real *o, real *lse, const real *m, const real *l, int rows, int d, int e) {
    for (int r = 0; r < rows; r++) {
        lse[r] = m[r] + (real)log((double)l[r]);
        real scale = 1 / l[r];
#pragma omp simd
        for (int j = 0; j < e; j++) o[(size_t)r * (size_t)d + (size_t)j] *= scale;
    }
}

static void laplace_tile(real *s, const Tile *t) {
    for (int r = 0; r < t->rows; r++) {
        real *row = s + (size_t)r * (size_t)t->ld;
        vmath_laplace(row, row, t->kp);
        pad_row(row, t, 0);
    }
}

void attend_forward(const AttendPack *p, int head, real *lse, AttnFn f) {
    const int n = p->n, d = p->d, e = p->e;
    real *const stats = p->stats;
    const Running run = {stats, stats + ROWS, stats + 2 * ROWS, stats + 3 * ROWS};
    Tile t = {.ld = min_int(KEYS, p->np)};
    for (int r0 = 0; r0 < n; r0 += ROWS) {
        tile_rows_at(&t, r0, ROWS, n);
        real *o = at(p, p->o, r0, head);
        for (int j0 = 0; j0 < n; j0 += t.ld) {
            tile_keys_at(&t, j0, n);
            gemm_nn(p->tile, t.ld, at(p, p->q, r0, head), d, transposed(p, p->kt, j0, head), p->np,
                    t.rp, t.kp, e, false);
            if (f == ATTN_SOFTMAX)
                online_softmax(p->tile, &t, &run, o, d, e);
            else
                laplace_tile(p->tile, &t);
            gemm_nn(o, d, p->tile, t.ld, at(p, p->v, j0, head), d, t.rp, e, t.kp, j0 > 0);
        }
        if (f == ATTN_SOFTMAX) finish_rows(o, lse + r0, run.m, run.l, t.rows, d, e);
    }
}

static void laplace_backward(real *s, real *dp, const Tile *t, real *D, bool d_known,
                             const real *a) {
    for (int r = 0; r < t->rows; r++, s += t->ld, dp += t->ld) {
        const real dot = vmath_laplace_row(s, dp, a ? a[r] : 1, t->kp);
        if (!d_known) D[r] = dot;
    }
}

/* With P = f(S), dP = go v^T and D = <go, o> = sum_j P dP, row by row:
 *   softmax: dS = a P (dP - D)    Laplace: dS = a L'(S) dP
 * The tile's S becomes a P, its dP becomes dS. */
static void tile_backward(real *s, real *dp, const Tile *t, real *D, bool d_known, const real *a,
                          const real *lse, AttnFn f) {
    if (a) a += t->r0;
    if (f == ATTN_LAPLACE) {
        laplace_backward(s, dp, t, D, d_known, a);
        return;
    }
    lse += t->r0;
    for (int r = 0; r < t->rows; r++) pad_row(s + (size_t)r * (size_t)t->ld, t, lse[r]);
    if (d_known)
        vmath_softmax_grad(s, dp, D, lse, a, padded_tile(t));
    else
        vmath_softmax_rows(s, dp, D, lse, a, padded_tile(t));
}

static void row_dots(real *D, const real *x, const real *y, int rows, int d, int e) {
    for (int r = 0; r < rows; r++) {
        const size_t row = (size_t)r * (size_t)d;
        real dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int j = 0; j < e; j++) dot += x[row + (size_t)j] * y[row + (size_t)j];
        D[r] = dot;
    }
}

/* dQ = dS K, dK = dS^T Q, dV = (a P)^T go. */
static void tile_products(const AttendPack *p, const Tile *t, int head) {
    const int d = p->d, e = p->e, r0 = t->r0, j0 = t->j0;
    gemm_tn(at(p, p->dv, j0, head), d, p->tile, t->ld, at(p, p->go, r0, head), d, t->kp, e, t->rp,
            r0 > 0);
    gemm_nn(at(p, p->dq, r0, head), d, p->dtile, t->ld, at(p, p->k, j0, head), d, t->rp, e, t->kp,
            j0 > 0);
    gemm_tn(at(p, p->dk, j0, head), d, p->dtile, t->ld, at(p, p->q, r0, head), d, t->kp, e, t->rp,
            r0 > 0);
}

void attend_backward(const AttendPack *p, int head, real *da, const real *a, const real *lse,
                     AttnFn f) {
    const int n = p->n, np = p->np, d = p->d, e = p->e;
    Tile t = {.ld = p->whole_rows ? np : KEYS};
    const int most = tile_rows(t.ld);
    real *D = p->stats;
    for (int r0 = 0; r0 < n; r0 += most) {
        tile_rows_at(&t, r0, most, n);
        const real *q = at(p, p->q, r0, head), *go = at(p, p->go, r0, head);
        if (!p->whole_rows) row_dots(D, go, at(p, p->o, r0, head), t.rows, d, e);
        for (int j0 = 0; j0 < n; j0 += t.ld) {
            tile_keys_at(&t, j0, n);
            gemm_nn(p->tile, t.ld, q, d, transposed(p, p->kt, j0, head), np, t.rp, t.kp, e, false);
            gemm_nn(p->dtile, t.ld, go, d, transposed(p, p->vt, j0, head), np, t.rp, t.kp, e,
                    false);
            tile_backward(p->tile, p->dtile, &t, D, !p->whole_rows, a, lse, f);
            tile_products(p, &t, head);
        }
        if (da) memcpy(da + r0, D, (size_t)t.rows * sizeof *da);
    }
}
