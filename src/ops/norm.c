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

/* ---- batch norm ---- */

/* Down a strip of columns, as wide as a vector; two sums, because one would wait for each addition.
 */
static inline Vec strip_mean(const real *x, int rows, size_t d, int left) {
    Vec even = {0}, odd = {0};
    for (int r = 0; r + 1 < rows; r += 2, x += 2 * d) {
        even += vec_load(x, left);
        odd += vec_load(x + d, left);
    }
    if (rows % 2) even += vec_load(x, left);
    return (even + odd) * (1 / (real)rows);
}

static inline Vec strip_squares(const real *x, Vec mean, int rows, size_t d, int left) {
    Vec even = {0}, odd = {0};
    for (int r = 0; r + 1 < rows; r += 2, x += 2 * d) {
        const Vec a = vec_load(x, left) - mean, b = vec_load(x + d, left) - mean;
        even += a * a;
        odd += b * b;
    }
    const Vec last = rows % 2 ? vec_load(x, left) - mean : (Vec){0};
    return even + odd + last * last;
}

static inline void strip_moments(real *mean, real *squares, const real *x, int rows, size_t d,
                                 int left) {
    const Vec m = strip_mean(x, rows, d, left);
    vec_store(mean, m, left);
    vec_store(squares, strip_squares(x, m, rows, d, left), left);
}

void batchnorm_moments(real *mean, real *squares, const real *x, int rows, int d) {
    EACH_VEC(d, strip_moments(mean + i, squares + i, x + i, rows, (size_t)d, left));
}

static inline Vec distance(const real *x, const real *mean, const real *rstd, int left) {
    return (vec_load(x, left) - vec_load(mean, left)) * vec_load(rstd, left);
}

void batchnorm_apply(real *y, const real *x, const real *mean, const real *rstd, const real *g,
                     const real *b, int rows, int d) {
    for (int r = 0; r < rows; r++, x += d, y += d)
        EACH_VEC(d, {
            const Vec xhat = distance(x + i, mean + i, rstd + i, left);
            vec_store(y + i, vec_load(g + i, left) * xhat + vec_load(b + i, left), left);
        });
}

void batchnorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x,
                        const real *mean, const real *rstd, const real *g, int rows, int d) {
    for (int r = 0; r < rows; r++, x += d, dy += d, dx += d)
        EACH_VEC(d, {
            const Vec v = vec_load(dy + i, left);
            const Vec xhat = distance(x + i, mean + i, rstd + i, left);
            const Vec scale = vec_load(g + i, left) * vec_load(rstd + i, left);
            vec_store(dx + i, vec_load(dx + i, left) + scale * v, left);
            vec_store(dg + i, vec_load(dg + i, left) + v * xhat, left);
            vec_store(db + i, vec_load(db + i, left) + v, left);
        });
}

void batchnorm_finish(real *dx, const real *x, const real *mean, const real *rstd, const real *g,
                      const real *dg, const real *db, double population, int rows, int d) {
    const real share = (real)(1 / population);
    for (int r = 0; r < rows; r++, x += d, dx += d)
        EACH_VEC(d, {
            const Vec xhat = distance(x + i, mean + i, rstd + i, left);
            const Vec shared = vec_load(db + i, left) + xhat * vec_load(dg + i, left);
            const Vec scale = share * vec_load(g + i, left) * vec_load(rstd + i, left);
            vec_store(dx + i, vec_load(dx + i, left) - scale * shared, left);
        });
}
