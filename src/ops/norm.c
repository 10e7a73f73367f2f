#include "ops/norm.h"

#include <math.h>
#include <stddef.h>

#include "ops/vec.h"

static const real *row_of(const real *x, int r, int d) { return x + (size_t)r * (size_t)d; }

static inline void normalise(real *y, const real *x, real mean, real rstd, const real *g,
                             const real *b, int left) {
    const Vec xhat = (vec_load(x, left) - mean) * rstd;
    vec_store(y, vec_load(g, left) * xhat + vec_load(b, left), left);
}

static inline Vec squared_distance(const real *x, real mean, int left) {
    Vec v = vec_load(x, left) - mean;
    if (left < VEC) v = vec_fill(v, left, 0);
    return v * v;
}

/* Squares of finite numbers may not be finite: rows as large as that become no number, which is
 * noticed, rather than 0, which is not. */
static inline real one_over(real x) { return isinf(x) ? (real)NAN : 1 / x; }

void layernorm_forward(real *y, real *mean, real *rstd, const real *x, const real *g, const real *b,
                       real eps, int rows, int d) {
    const real share = 1 / (real)d;
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d);
        Vec sum = {0}, squares = {0};
        EACH_VEC(i, left, d, sum += vec_load(xr + i, left));
        mean[r] = vec_sum(sum) * share;
        EACH_VEC(i, left, d, squares += squared_distance(xr + i, mean[r], left));
        rstd[r] = one_over(REAL_SQRT(vec_sum(squares) * share + eps));
    }
    layernorm_again(y, mean, rstd, x, g, b, rows, d);
}

void layernorm_again(real *y, const real *mean, const real *rstd, const real *x, const real *g,
                     const real *b, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), m = mean[r], s = rstd[r];
        real *yr = y + (size_t)r * (size_t)d;
        EACH_VEC(i, left, d, normalise(yr + i, xr + i, m, s, g + i, b + i, left));
    }
}

typedef struct RowSums {
    Vec u, ux;
} RowSums;

static inline void layernorm_sums(RowSums *sums, real *dg, real *db, const real *dy, const real *x,
                                  real mean, real rstd, const real *g, int left) {
    const Vec dyv = vec_load(dy, left), xhat = (vec_load(x, left) - mean) * rstd;
    const Vec u = dyv * vec_load(g, left);
    vec_store(dg, vec_load(dg, left) + dyv * xhat, left);
    vec_store(db, vec_load(db, left) + dyv, left);
    sums->u += u;
    sums->ux += u * xhat;
}

static inline void layernorm_input(real *dx, const real *dy, const real *x, real mean, real rstd,
                                   const real *g, real mu, real mux, int left) {
    const Vec xhat = (vec_load(x, left) - mean) * rstd, u = vec_load(dy, left) * vec_load(g, left);
    vec_store(dx, vec_load(dx, left) + rstd * (u - mu - xhat * mux), left);
}

/* With xhat = (x - mean) rstd and u = dy g:  dx = rstd (u - mean(u) - xhat mean(u xhat)). dg and db
 * are added to row by row: apart and then added, as batch norm's are, it takes 30 % longer. */
void layernorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x,
                        const real *mean, const real *rstd, const real *g, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), *dyr = row_of(dy, r, d), m = mean[r], s = rstd[r];
        real *dxr = dx + (size_t)r * (size_t)d;
        RowSums sums = {{0}, {0}};
        EACH_VEC(i, left, d,
                 layernorm_sums(&sums, dg + i, db + i, dyr + i, xr + i, m, s, g + i, left));
        const real mu = vec_sum(sums.u) / (real)d, mux = vec_sum(sums.ux) / (real)d;
        EACH_VEC(i, left, d, layernorm_input(dxr + i, dyr + i, xr + i, m, s, g + i, mu, mux, left));
    }
}

void scalenorm_forward(real *y, real *inv, const real *x, real g, real eps, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d);
        real *yr = y + (size_t)r * (size_t)d;
        const real norm = REAL_SQRT(vec_dot(xr, xr, d));
        const real s = one_over(norm > eps ? norm : eps);
        EACH_VEC(i, left, d, vec_store(yr + i, g * s * vec_load(xr + i, left), left));
        inv[r] = s;
    }
}

static inline void scalenorm_input(real *dx, const real *dy, const real *x, real scale, real along,
                                   int left) {
    const Vec step = vec_load(dy, left) - vec_load(x, left) * along;
    vec_store(dx, vec_load(dx, left) + scale * step, left);
}

/* With n = |x| >= eps:  dg = <dy, x> / n,  dx = g (dy - x <dy, x> / n^2) / n. */
void scalenorm_backward(real *dx, real *dg, const real *dy, const real *x, const real *inv, real g,
                        real eps, int rows, int d) {
    double sum = 0; /* one number for all tokens: their gradients nearly cancel */
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), *dyr = row_of(dy, r, d), s = inv[r];
        real *dxr = dx + (size_t)r * (size_t)d;
        const real dot = vec_dot(dyr, xr, d);
        sum += (double)(dot * s);
        const real along = s < 1 / eps ? dot * s * s : 0; /* at 1 / eps the norm was clamped */
        EACH_VEC(i, left, d, scalenorm_input(dxr + i, dyr + i, xr + i, g * s, along, left));
    }
    *dg += (real)sum;
}

/* ---- batch norm ---- */

static inline void moments_strip(real *mean, real *squares, const real *x, int rows, size_t d,
                                 const int vectors, const int left) {
    const real share = 1 / (real)rows;
    VecStrip m = vec_strip_sum(x, (VecStrip){{{0}}}, false, rows, d, vectors, left);
    for (int j = 0; j < vectors; j++) m.of[j] *= share;
    vec_strip_store(mean, m, vectors, left);
    vec_strip_store(squares, vec_strip_sum(x, m, true, rows, d, vectors, left), vectors, left);
}

void batchnorm_moments(real *mean, real *squares, const real *x, int rows, int d) {
    EACH_STRIP(i, vectors, left, d,
               moments_strip(mean + i, squares + i, x + i, rows, (size_t)d, vectors, left));
}

typedef struct BatchStrip {
    VecStrip mean, rstd, g;
} BatchStrip;

static inline BatchStrip batch_strip(const real *mean, const real *rstd, const real *g,
                                     const int vectors, const int left) {
    return (BatchStrip){vec_strip(mean, vectors, left), vec_strip(rstd, vectors, left),
                        vec_strip(g, vectors, left)};
}

/* xhat, one vector of it */
static inline Vec normal(BatchStrip s, int j, const real *x, int left) {
    return (vec_load(x + j * VEC, left) - s.mean.of[j]) * s.rstd.of[j];
}

static inline void apply_strip(real *y, const real *x, BatchStrip s, const real *b, size_t end,
                               size_t d, const int vectors, const int left) {
    const VecStrip bias = vec_strip(b, vectors, left);
    for (size_t at = 0; at < end; at += d)
        for (int j = 0; j < vectors; j++)
            vec_store(y + at + j * VEC, s.g.of[j] * normal(s, j, x + at, left) + bias.of[j], left);
}

void batchnorm_apply(real *y, const real *x, const real *mean, const real *rstd, const real *g,
                     const real *b, int rows, int d) {
    const size_t end = (size_t)rows * (size_t)d;
    EACH_STRIP(i, vectors, left, d,
               apply_strip(y + i, x + i, batch_strip(mean + i, rstd + i, g + i, vectors, left),
                           b + i, end, (size_t)d, vectors, left));
}

/* What rows add to dg and db is summed apart: of many calls' rows a running sum would be off by
 * more. */
static inline void backward_strip(real *dx, real *dg, real *db, const real *dy, const real *x,
                                  BatchStrip s, size_t end, size_t d, const int vectors,
                                  const int left) {
    VecStrip dgs = {{{0}}}, dbs = {{{0}}};
    for (size_t at = 0; at < end; at += d)
        for (int j = 0; j < vectors; j++) {
            const Vec v = vec_load(dy + at + j * VEC, left),
                      before = vec_load(dx + at + j * VEC, left);
            dgs.of[j] += v * normal(s, j, x + at, left);
            dbs.of[j] += v;
            vec_store(dx + at + j * VEC, before + s.g.of[j] * s.rstd.of[j] * v, left);
        }
    vec_strip_add(dg, dgs, vectors, left);
    vec_strip_add(db, dbs, vectors, left);
}

void batchnorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x,
                        const real *mean, const real *rstd, const real *g, int rows, int d) {
    const size_t end = (size_t)rows * (size_t)d;
    EACH_STRIP(i, vectors, left, d,
               backward_strip(dx + i, dg + i, db + i, dy + i, x + i,
                              batch_strip(mean + i, rstd + i, g + i, vectors, left), end, (size_t)d,
                              vectors, left));
}

static inline void finish_strip(real *dx, const real *x, BatchStrip s, const real *dg,
                                const real *db, real share, size_t end, size_t d, const int vectors,
                                const int left) {
    const VecStrip dgs = vec_strip(dg, vectors, left), dbs = vec_strip(db, vectors, left);
    for (size_t at = 0; at < end; at += d)
        for (int j = 0; j < vectors; j++) {
            const Vec shared = dbs.of[j] + normal(s, j, x + at, left) * dgs.of[j];
            const Vec scale = share * s.g.of[j] * s.rstd.of[j];
            vec_store(dx + at + j * VEC, vec_load(dx + at + j * VEC, left) - scale * shared, left);
        }
}

void batchnorm_finish(real *dx, const real *x, const real *mean, const real *rstd, const real *g,
                      const real *dg, const real *db, double population, int rows, int d) {
    const real share = (real)(1 / population);
    const size_t end = (size_t)rows * (size_t)d;
    EACH_STRIP(i, vectors, left, d,
               finish_strip(dx + i, x + i, batch_strip(mean + i, rstd + i, g + i, vectors, left),
                            dg + i, db + i, share, end, (size_t)d, vectors, left));
}
