#include "ops/norm.h"

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

void layernorm_forward(real *y, real *mean, real *rstd, const real *x, const real *g, const real *b,
                       real eps, int rows, int d) {
    const real share = 1 / (real)d;
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d);
        Vec sum = {0}, squares = {0};
        EACH_VEC(d, sum += vec_load(xr + i, left));
        mean[r] = vec_sum(sum) * share;
        EACH_VEC(d, squares += squared_distance(xr + i, mean[r], left));
        rstd[r] = 1 / REAL_SQRT(vec_sum(squares) * share + eps);
    }
    layernorm_again(y, mean, rstd, x, g, b, rows, d);
}

void layernorm_again(real *y, const real *mean, const real *rstd, const real *x, const real *g,
                     const real *b, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), m = mean[r], s = rstd[r];
        real *yr = y + (size_t)r * (size_t)d;
        EACH_VEC(d, normalise(yr + i, xr + i, m, s, g + i, b + i, left));
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

/* With xhat = (x - mean) rstd and u = dy g:  dx = rstd (u - mean(u) - xhat mean(u xhat)). */
void layernorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x,
                        const real *mean, const real *rstd, const real *g, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), *dyr = row_of(dy, r, d), m = mean[r], s = rstd[r];
        real *dxr = dx + (size_t)r * (size_t)d;
        RowSums sums = {{0}, {0}};
        EACH_VEC(d, layernorm_sums(&sums, dg + i, db + i, dyr + i, xr + i, m, s, g + i, left));
        const real mu = vec_sum(sums.u) / (real)d, mux = vec_sum(sums.ux) / (real)d;
        EACH_VEC(d, layernorm_input(dxr + i, dyr + i, xr + i, m, s, g + i, mu, mux, left));
    }
}

void scalenorm_forward(real *y, real *inv, const real *x, real g, real eps, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d);
        real *yr = y + (size_t)r * (size_t)d;
        const real norm = REAL_SQRT(vec_dot(xr, xr, d));
        const real s = 1 / (norm > eps ? norm : eps);
        EACH_VEC(d, vec_store(yr + i, g * s * vec_load(xr + i, left), left));
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
        EACH_VEC(d, scalenorm_input(dxr + i, dyr + i, xr + i, g * s, along, left));
    }
    *dg += (real)sum;
}

void batchnorm_add_sums(real *restrict sums, const real *restrict x, int rows, int d) {
    for (int r = 0; r < rows; r++)
#pragma omp simd
        for (int j = 0; j < d; j++) sums[j] += x[(size_t)r * (size_t)d + (size_t)j];
}

void batchnorm_add_squares(real *restrict squares, const real *restrict x,
                           const real *restrict mean, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d);
#pragma omp simd
        for (int j = 0; j < d; j++) squares[j] += (xr[j] - mean[j]) * (xr[j] - mean[j]);
    }
}

void batchnorm_apply(real *y, const real *x, const real *restrict mean, const real *restrict rstd,
                     const real *restrict g, const real *restrict b, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d);
        real *yr = y + (size_t)r * (size_t)d;
#pragma omp simd
        for (int j = 0; j < d; j++) yr[j] = g[j] * ((xr[j] - mean[j]) * rstd[j]) + b[j];
    }
}

void batchnorm_backward_params(real *restrict dg, real *restrict db, const real *restrict dy,
                               const real *restrict x, const real *restrict mean,
                               const real *restrict rstd, int rows, int d) {
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), *dyr = row_of(dy, r, d);
#pragma omp simd
        for (int j = 0; j < d; j++) {
            dg[j] += dyr[j] * ((xr[j] - mean[j]) * rstd[j]);
            db[j] += dyr[j];
        }
    }
}

void batchnorm_backward_input(real *dx, const real *dy, const real *restrict x,
                              const real *restrict mean, const real *restrict rstd,
                              const real *restrict g, const real *restrict dg,
                              const real *restrict db, double population, bool add, int rows,
                              int d) {
    const real share = (real)(1 / population);
    for (int r = 0; r < rows; r++) {
        const real *xr = row_of(x, r, d), *dyr = row_of(dy, r, d);
        real *dxr = dx + (size_t)r * (size_t)d;
#pragma omp simd
        for (int j = 0; j < d; j++) {
            const real xhat = (xr[j] - mean[j]) * rstd[j];
            const real step = g[j] * rstd[j] * (dyr[j] - share * (db[j] + xhat * dg[j]));
            dxr[j] = add ? dxr[j] + step : step;
        }
    }
}
