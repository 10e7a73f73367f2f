#include "ops/attend.h"

#include <math.h>
#include <string.h>

#include "core/gemm.h"
#include "ops/linear.h"
#include "ops/vec.h"
#include "ops/vmath.h"

/* A tile of scores: 32 KB in float, of which the first cache holds most. */
enum { ROWS = ATTEND_TILE, KEYS = 256 };
_Static_assert(ATTEND_ROWS % ROWS == 0, "a job begins with a tile");

static int min_int(int a, int b) { return a < b ? a : b; }
static int max_int(int a, int b) { return a > b ? a : b; }
static int padded(int n) { return (int)attend_padded(n); }

/* Rows of a tile that spans `width` keys. */
enum { WIDE = 4096 };
static int tile_rows(int width) { return width <= WIDE ? ROWS : ROWS / 2; }

/* Memory of a tile that spans `width` keys or fewer: what was planned for the longest sequence must
 * do for all, and a tile of fewer keys has more rows. */
static size_t tile_reals(int width) {
    const size_t reals = (size_t)attend_stride(width) * (size_t)tile_rows(width),
                 wide = (size_t)attend_stride(WIDE) * ROWS;
    return width > WIDE && reals < wide ? wide : reals;
}

void attend_layout(AttendPack *p, Arena *a, int n, int m, int d, int e, bool backward) {
    const size_t queries = attend_padded(n) * (size_t)d, keys = attend_padded(m) * (size_t)d,
                 transposed = (size_t)attend_stride(m) * (size_t)d;
    *p = (AttendPack){.d = d, .e = e, .ld = d, .band = ATTEND_ALL};
    p->q = arena_reals(a, queries);
    p->k = arena_reals(a, keys);
    p->v = arena_reals(a, keys);
    p->kt = arena_reals(a, transposed);
    if (!backward) return;
    p->vt = arena_reals(a, transposed);
    p->go = arena_reals(a, queries);
    p->dq = arena_reals(a, queries);
    p->dk = arena_reals(a, keys);
    p->dv = arena_reals(a, keys);
}

void attend_layout_tiles(AttendTiles *t, Arena *a, int m, bool backward, bool whole_rows) {
    const size_t tile = tile_reals(backward && whole_rows ? padded(m) : KEYS);
    *t = (AttendTiles){.whole_rows = whole_rows};
    t->tile = arena_reals(a, tile);
    t->stats = arena_reals(a, 4 * ROWS);
    if (backward) t->dtile = arena_reals(a, tile);
}

static inline void scaled(real *to, const real *from, real scale, int left) {
    vec_store(to, scale * vec_load(from, left), left);
}

static void gather(const AttendPack *p, real *restrict dst, const real *restrict src,
                   const int *rows, real scale, int n) {
    const size_t d = (size_t)p->d, end = attend_padded(n);
    for (int r = 0; r < n; r++) {
        const real *row = src + (size_t)(rows ? rows[r] : r) * (size_t)p->ld;
        EACH_VEC(i, left, p->d, scaled(dst + (size_t)r * d + i, row + i, scale, left));
    }
    memset(dst + (size_t)n * d, 0, (end - (size_t)n) * d * sizeof *dst);
}

static void scatter(const AttendPack *p, real *restrict dst, const real *restrict src,
                    const int *rows, real scale, int n) {
    const size_t d = (size_t)p->d;
    for (int r = 0; r < n && dst; r++) {
        real *row = dst + (size_t)(rows ? rows[r] : r) * (size_t)p->ld;
        vec_add_scaled(row, src + (size_t)r * d, scale, p->d);
    }
}

static real inv_tau(const AttendPack *p) { return (real)(1 / sqrt((double)p->e)); }

void attend_pack_queries(AttendPack *p, const real *q, const int *queries, int n) {
    p->n = n;
    p->np = padded(n);
    p->queries = queries;
    gather(p, p->q, q, queries, inv_tau(p), n);
    rope_turn(&p->rope, p->q, queries, n, p->d / p->e, p->e);
}

void attend_pack_keys(AttendPack *p, const real *k, const real *v, const int *keys, int m) {
    p->m = m;
    p->mp = padded(m);
    p->ldt = attend_stride(m);
    p->keys = keys;
    gather(p, p->k, k, keys, 1, m);
    rope_turn(&p->rope, p->k, keys, m, p->d / p->e, p->e);
    gather(p, p->v, v, keys, 1, m);
    transpose(p->kt, p->ldt, p->k, p->d, p->mp, p->d);
}

void attend_pack_backward(AttendPack *p, const real *go) {
    gather(p, p->go, go, p->queries, 1, p->n);
    transpose(p->vt, p->ldt, p->v, p->d, p->mp, p->d);
}

void attend_no_gradients(const AttendPack *p) {
    memset(p->dq, 0, (size_t)p->np * (size_t)p->d * sizeof *p->dq);
    memset(p->dk, 0, (size_t)p->mp * (size_t)p->d * sizeof *p->dk);
    memset(p->dv, 0, (size_t)p->mp * (size_t)p->d * sizeof *p->dv);
}

void attend_turn_back(const AttendPack *p, bool keys) {
    const int h = p->d / p->e;
    rope_turn_back(&p->rope, p->dq, p->queries, p->n, h, p->e);
    rope_turn_back(&p->rope, p->dk, p->keys, p->m, h, p->e);
    if (keys) rope_turn_back(&p->rope, p->k, p->keys, p->m, h, p->e);
}

void attend_unpack(const AttendPack *p, real *dq, real *dk, real *dv) {
    scatter(p, dq, p->dq, p->queries, inv_tau(p), p->n);
    scatter(p, dk, p->dk, p->keys, 1, p->m);
    scatter(p, dv, p->dv, p->keys, 1, p->m);
}

/* Row r of a head's columns. */
static real *at(const AttendPack *p, real *x, int r, int head) {
    return x + (size_t)r * (size_t)p->d + (size_t)(head * p->e);
}
static const real *transposed(const AttendPack *p, const real *x, int key, int head) {
    return x + (size_t)(head * p->e) * (size_t)p->ldt + (size_t)key;
}

/* A tile: rows r0.., keys j0..; `rows` and `keys` are real, rp and kp include the padding. Its rows
 * see keys from `first` to `end` - 1 between them. */
typedef struct Tile {
    int r0, rows, rp;
    int first, end;
    int j0, keys, kp;
    int most, ld; /* keys of a tile, and between its rows */
} Tile;

static Tile tile_of(int most) { return (Tile){.most = most, .ld = attend_stride(most)}; }

static int key_from(const AttendPack *p, int i) { return attend_from(p->band, i); }
static int key_to(const AttendPack *p, int i) { return attend_to(p->band, i, p->m); }

/* The queries of a tile are of one block, so that they see the same keys. Rows behind them may be
 * the next tile's, and padding only where there are no more. */
static void tile_rows_at(Tile *t, const AttendPack *p, int r0, int most, int end) {
    const int block = attend_block(p->band);
    t->r0 = r0;
    t->rows = min_int(most, end - r0);
    if (block > 1) t->rows = min_int(t->rows, block - r0 % block);
    t->rp = r0 + t->rows < p->n ? t->rows : min_int(p->np - r0, most);
    t->first = key_from(p, r0) / 16 * 16;
    t->end = key_to(p, r0 + t->rows - 1);
}

static void tile_keys_at(Tile *t, int j0) {
    t->j0 = j0;
    t->keys = min_int(t->most, t->end - j0);
    t->kp = padded(t->keys);
}

/* Calls for each tile of the keys that the rows see. */
#define EACH_KEYS(t)                                                                               \
    for (int j0 = (t)->first; j0 < (t)->end && (tile_keys_at(t, j0), true); j0 += (t)->most)

/* Whether some row of the tile does not see some key that its products read. */
static bool is_cut(const AttendPack *p, const Tile *t) {
    if (p->band.not_self && t->r0 < t->j0 + t->keys && t->j0 < t->r0 + t->rows) return true;
    return key_from(p, t->r0 + t->rows - 1) > t->j0 ||
           key_to(p, t->r0) < min_int(t->j0 + t->kp, p->m);
}

/* The columns of the tile that its row r sees: two runs from..to-1, of which one or both may be
 * empty, the second behind the first. */
typedef struct Seen {
    int from[2], to[2];
} Seen;
static Seen seen(const AttendPack *p, const Tile *t, int r) {
    const int i = t->r0 + r, self = p->band.not_self ? i - t->j0 : -1;
    const int from = min_int(max_int(key_from(p, i) - t->j0, 0), t->kp);
    const int to = max_int(min_int(key_to(p, i) - t->j0, t->keys), from);
    if (self >= from && self < to) return (Seen){{from, self + 1}, {self, to}};
    return (Seen){{from, to}, {to, to}};
}

/* What a row does not see becomes `value`. */
static void cut_row(real *row, const Tile *t, Seen s, real value) {
    for (int j = 0; j < s.from[0]; j++) row[j] = value;
    for (int j = s.to[0]; j < s.from[1]; j++) row[j] = value;
    for (int j = s.to[1]; j < t->kp; j++) row[j] = value;
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
    const bool shifted = needs_shift(s, t), later = t->j0 > t->first;
    bool changed = false;
    for (int r = 0; r < t->rows; r++, s += t->ld) {
        real top = 0, shrink = 0;
        if (shifted) {
            pad_row(s, t, s[0]);
            top = vmath_max(s, t->kp);
        }
        if (later && run->m[r] > top) top = run->m[r];
        if (later) shrink = run->m[r] - top;
        run->factor[r] = shrink != 0 ? REAL_EXP(shrink) : 1;
        changed |= shrink != 0;
        run->m[r] = top;
        pad_row(s, t, top - NOTHING);
    }
    return changed;
}

/* The same of a tile with cuts, exponentials and their sums included: of what is seen alone. */
enum { LOWEST = -(1 << 30) }; /* what a row that sees nothing of a tile adds to its shift */

static real largest_seen(const real *s, Seen see) {
    real top = LOWEST;
    for (int i = 0; i < 2; i++) {
        const int n = see.to[i] - see.from[i];
        const real most = n > 0 ? vmath_max(s + see.from[i], n) : LOWEST;
        top = most > top ? most : top;
    }
    return top;
}

static bool shift_cut_rows(real *s, const AttendPack *p, const Tile *t, const Running *run) {
    const bool later = t->j0 > t->first;
    for (int r = 0; r < t->rows; r++, s += t->ld) {
        const Seen see = seen(p, t, r);
        real top = largest_seen(s, see);
        if (later && run->m[r] > top) top = run->m[r];
        run->factor[r] = later ? REAL_EXP(run->m[r] - top) : 1;
        run->m[r] = top;
        run->sum[r] = 0;
        for (int i = 0; i < 2; i++)
            run->sum[r] +=
                vmath_exp_sum(s + see.from[i], s + see.from[i], top, see.to[i] - see.from[i]);
        cut_row(s, t, see, 0);
    }
    return later;
}

/* One tile of keys joins the running shift, sum and output o of each row. */
static void online_softmax(real *s, const AttendPack *p, const Tile *t, const Running *run,
                           real *o) {
    bool changed;
    if (is_cut(p, t)) {
        changed = shift_cut_rows(s, p, t, run);
    } else {
        changed = shift_rows(s, t, run);
        vmath_exp_rows(s, run->sum, run->m, padded_tile(t));
    }
    for (int r = 0; r < t->rows; r++)
        run->l[r] = t->j0 > t->first ? run->l[r] * run->factor[r] + run->sum[r] : run->sum[r];
    for (int r = 0; r < t->rows && changed; r++)
#pragma omp simd
        for (int j = 0; j < p->e; j++) o[(size_t)r * (size_t)p->d + (size_t)j] *= run->factor[r];
}

/* A row that saw nothing has the sum 0, and output 0. */
static void finish_rows(real *o, real *lse, const real *m, const real *l, int rows, int d, int e) {
    for (int r = 0; r < rows; r++) {
        lse[r] = l[r] == 0 ? 0 : m[r] + (real)log((double)l[r]);
        real scale = l[r] == 0 ? 0 : 1 / l[r];
#pragma omp simd
        for (int j = 0; j < e; j++) o[(size_t)r * (size_t)d + (size_t)j] *= scale;
    }
}

static void laplace_tile(real *s, const AttendPack *p, const Tile *t) {
    for (int r = 0; r < t->rows; r++) {
        real *row = s + (size_t)r * (size_t)t->ld;
        vmath_laplace(row, row, t->kp);
        cut_row(row, t, seen(p, t, r), 0);
    }
}

/* A head's columns of rows r0 to r0 + rows - 1. */
static void clear(const AttendPack *p, real *x, int r0, int rows, int head) {
    for (int r = r0; r < r0 + rows; r++) memset(at(p, x, r, head), 0, (size_t)p->e * sizeof *x);
}

/* The scores of a tile: padded rows of q on padded keys. */
static void scores(const AttendPack *p, const Tile *t, int head, real *s) {
    gemm_nn(s, t->ld, at(p, p->q, t->r0, head), p->d, transposed(p, p->kt, t->j0, head), p->ldt,
            t->rp, t->kp, p->e, false);
    if (!p->bias) return;
    const real *bias = p->bias + (size_t)head * (size_t)p->mp + t->j0;
    for (int r = 0; r < t->rows; r++, s += t->ld) vec_add(s, s, bias, t->kp);
}

void attend_forward(const AttendPack *p, const AttendTiles *tiles, int head, int r0, int n,
                    real *lse, AttnFn f) {
    const int d = p->d, e = p->e, end = r0 + n;
    real *const stats = tiles->stats, *s = tiles->tile;
    const Running run = {stats, stats + ROWS, stats + 2 * ROWS, stats + 3 * ROWS};
    Tile t = tile_of(min_int(KEYS, p->mp));
    for (; r0 < end; r0 += t.rows) {
        tile_rows_at(&t, p, r0, ROWS, end);
        real *o = at(p, p->o, r0, head);
        if (t.first >= t.end) {
            clear(p, p->o, r0, t.rows, head);
            if (f == ATTN_SOFTMAX) memset(lse + r0, 0, (size_t)t.rows * sizeof *lse);
            continue;
        }
        EACH_KEYS(&t) {
            scores(p, &t, head, s);
            if (f == ATTN_SOFTMAX)
                online_softmax(s, p, &t, &run, o);
            else
                laplace_tile(s, p, &t);
            gemm_nn(o, d, s, t.ld, at(p, p->v, j0, head), d, t.rp, e, t.kp, j0 > t.first);
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

/* What is not seen becomes `score` and a gradient of 0: before the tile's backward pass a score
 * that is harmless, after it 0. */
static void cut_tile(const AttendPack *p, real *s, real *dp, const Tile *t, const real *score) {
    for (int r = 0; r < t->rows; r++, s += t->ld, dp += t->ld) {
        const Seen see = seen(p, t, r);
        cut_row(s, t, see, score ? score[t->r0 + r] : 0);
        cut_row(dp, t, see, 0);
    }
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

/* dQ = dS K, dK = dS^T Q, dV = (a P)^T go. Of the first keys of some rows, and the first rows of
 * some keys: nothing was written there before. */
static void tile_products(const AttendPack *p, const AttendTiles *x, const Tile *t, int head,
                          bool first_keys, bool first_rows) {
    const int d = p->d, e = p->e, r0 = t->r0, j0 = t->j0;
    gemm_tn(at(p, p->dv, j0, head), d, x->tile, t->ld, at(p, p->go, r0, head), d, t->kp, e, t->rp,
            !first_rows);
    gemm_nn(at(p, p->dq, r0, head), d, x->dtile, t->ld, at(p, p->k, j0, head), d, t->rp, e, t->kp,
            !first_keys);
    gemm_tn(at(p, p->dk, j0, head), d, x->dtile, t->ld, at(p, p->q, r0, head), d, t->kp, e, t->rp,
            !first_rows);
}

/* Sums of columns of dS. */
static void bias_backward(const AttendPack *p, const AttendTiles *x, const Tile *t, int head) {
    real *dbias = p->dbias + (size_t)head * (size_t)p->mp + t->j0;
    for (int r = 0; r < t->rows; r++)
        vec_add(dbias, dbias, x->dtile + (size_t)r * (size_t)t->ld, t->keys);
}

/* Whether every query sees every key, and there are some: then tiles reach all of dq, dk, dv. */
static bool sees_all(const AttendPack *p) {
    return p->n > 0 && p->m > 0 && !p->band.not_self && key_from(p, p->n - 1) == 0 &&
           key_to(p, 0) == p->m;
}

void attend_backward(const AttendPack *p, const AttendTiles *x, int head, real *da, const real *a,
                     const real *lse, AttnFn f) {
    const int n = p->n, mp = p->mp, d = p->d, e = p->e;
    Tile t = tile_of(x->whole_rows ? mp : KEYS);
    const int most = tile_rows(t.most);
    const bool all = sees_all(p);
    real *D = x->stats;
    if (!all) clear(p, p->dq, 0, p->np, head), clear(p, p->dk, 0, mp, head);
    if (!all) clear(p, p->dv, 0, mp, head);
    if (p->bias) memset(p->dbias + (size_t)head * (size_t)mp, 0, (size_t)mp * sizeof *p->dbias);
    for (int r0 = 0; r0 < n; r0 += t.rows) {
        tile_rows_at(&t, p, r0, most, n);
        const real *go = at(p, p->go, r0, head);
        if (x->whole_rows)
            memset(D, 0, (size_t)t.rows * sizeof *D);
        else
            row_dots(D, go, at(p, p->o, r0, head), t.rows, d, e);
        for (int r = 0; r < t.rows && p->dlse; r++) D[r] -= p->dlse[head * n + r0 + r];
        EACH_KEYS(&t) {
            scores(p, &t, head, x->tile);
            gemm_nn(x->dtile, t.ld, go, d, transposed(p, p->vt, j0, head), p->ldt, t.rp, t.kp, e,
                    false);
            const bool cut = is_cut(p, &t);
            if (cut) cut_tile(p, x->tile, x->dtile, &t, f == ATTN_SOFTMAX ? lse : NULL);
            tile_backward(x->tile, x->dtile, &t, D, !x->whole_rows, a, lse, f);
            if (cut) cut_tile(p, x->tile, x->dtile, &t, NULL);
            if (p->bias) bias_backward(p, x, &t, head);
            tile_products(p, x, &t, head, all && j0 == t.first, all && r0 == 0);
        }
        if (da) memcpy(da + r0, D, (size_t)t.rows * sizeof *da);
    }
}
