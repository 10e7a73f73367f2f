/* The vector loops against libm in long double. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/real.h"
#include "ops/attnfn.h"
#include "ops/vmath.h"

#ifdef REAL_DOUBLE
#define EPS DBL_EPSILON
#define HUGE DBL_MAX
#define TINY DBL_MIN
#else
#define EPS FLT_EPSILON
#define HUGE FLT_MAX
#define TINY FLT_MIN
#endif
#define ULPS 4 /* of the functions in ops/vec.h */
#define EXP_ULPS 2
#define EXP_TOP (sizeof(real) == 8 ? 709.0 : 88.0)

static const long double pi = 3.14159265358979323846264338327950288L;

static long double ref_cdf(long double x) { return erfcl(-x / sqrtl(2)) / 2; }
static long double ref_pdf(long double x) { return expl(-x * x / 2) / sqrtl(2 * pi); }
/* The argument of the Laplace function's erfc: (mu - x) / (sigma sqrt 2). */
static long double ref_z(long double x) { return (sqrtl(0.5L) - x) * sqrtl(2 * pi); }
static long double ref_laplace(long double x) { return erfcl(ref_z(x)) / 2; }
static long double ref_slope(long double x) { return sqrtl(2) * expl(-ref_z(x) * ref_z(x)); }

enum { GRID = 200001 };

/* Evenly from a to b, so that all lengths of vectors and remainders come up. */
static real *grid(double a, double b) {
    real *x = malloc(GRID * sizeof *x);
    if (!x) abort();
    for (int i = 0; i < GRID; i++) x[i] = (real)(a + (b - a) * i / (GRID - 1));
    return x;
}

static void near(const char *what, real x, real y, long double expected, long double bar) {
    if (!(fabsl((long double)y - expected) <= bar + (long double)TINY))
        fail_msg("%s(%.9g) is %.9g, not %.9Lg", what, (double)x, (double)y, expected);
}

static void exps(real *y, const real *x, int n) { vmath_exp_sum(y, x, 0, n); }

static void exponential(void **state) {
    (void)state;
    real *x = grid(-EXP_TOP, EXP_TOP), *y = malloc(GRID * sizeof *y);
    if (!y) abort();
    exps(y, x, GRID);
    for (int i = 0; i < GRID; i++) {
        const long double e = expl((long double)x[i]);
        near("exp", x[i], y[i], e, EXP_ULPS * (long double)EPS * e);
    }
    /* In place, and all short lengths. */
    for (int n = 1; n < 70; n++) {
        memcpy(y, x + 1000, (size_t)(n + 1) * sizeof *y);
        exps(y, y, n);
        assert_true(y[n] == x[1000 + n]);
        for (int i = 0; i < n; i++) {
            const long double e = expl((long double)x[1000 + i]);
            near("exp", x[1000 + i], y[i], e, EXP_ULPS * (long double)EPS * e);
        }
    }
    free(x), free(y);
}

/* Never 0, so that nothing becomes denormal or is divided by it; NaN for NaN. */
static void exponential_ends(void **state) {
    (void)state;
    const real x[4] = {-(real)EXP_TOP - 1, -1000, -HUGE, (real)NAN};
    real y[4];
    exps(y, x, 4);
    assert_true(y[0] >= TINY && y[0] < 4 * (real)expl(-(long double)EXP_TOP));
    assert_true(y[1] == y[0] && y[2] == y[0]);
    assert_true(isnan(y[3]));
}

static void sums_and_maxima(void **state) {
    (void)state;
    real *x = grid(-20, 3), *y = malloc(GRID * sizeof *y);
    if (!y) abort();
    for (int n = 1; n < 300; n++) {
        const real *from = x + 613 * n;
        const real top = vmath_max(from, n), sum = vmath_exp_sum(y, from, top, n);
        long double expected = 0;
        assert_true(top == from[n - 1]);
        for (int i = 0; i < n; i++) {
            const long double e = expl((long double)from[i] - (long double)top);
            near("exp(x - max)", from[i], y[i], e, (EXP_ULPS + 1) * (long double)EPS * e);
            expected += e;
        }
        near("sum", 0, sum, expected, (EXP_ULPS + n) * (long double)EPS * expected);
    }
    for (int n = 1; n < 40; n++) /* the largest anywhere, negative ones too */
        for (int at = 0; at < n; at++) {
            for (int i = 0; i < n; i++) y[i] = (real)(-5 - i);
            y[at] = -1;
            assert_true(vmath_max(y, n) == -1);
        }
    free(x), free(y);
}

/* y may be x: y as without, and the same gradient. */
static void gelu_in_place(const real *x, const real *y) {
    real *in_place = malloc(GRID * sizeof *in_place), *apart = malloc(GRID * sizeof *apart);
    real *d[2] = {calloc(GRID, sizeof(real)), calloc(GRID, sizeof(real))};
    if (!in_place || !apart || !d[0] || !d[1]) abort();
    memcpy(in_place, x, GRID * sizeof *x);
    vmath_gelu(in_place, in_place, GRID);
    assert_memory_equal(in_place, y, GRID * sizeof *y);
    for (int i = 0; i < GRID; i++) d[0][i] = d[1][i] = 1;
    memcpy(in_place, x, GRID * sizeof *x);
    vmath_gelu_grad(d[0], in_place, in_place, GRID);
    vmath_gelu_grad(d[1], apart, x, GRID);
    assert_memory_equal(in_place, apart, GRID * sizeof *y);
    assert_memory_equal(d[0], d[1], GRID * sizeof *y);
    free(in_place), free(apart), free(d[0]), free(d[1]);
}

/* 1 + erf loses the tail's digits, so the bar is absolute in Phi. */
static void gelu(void **state) {
    (void)state;
    real *x = grid(-12, 12), *y = malloc(GRID * sizeof *y), *dy = malloc(GRID * sizeof *dy);
    if (!y || !dy) abort();
    vmath_gelu(y, x, GRID);
    for (int i = 0; i < GRID; i++) {
        const long double v = (long double)x[i];
        near("gelu", x[i], y[i], v * ref_cdf(v), ULPS * (long double)EPS * fabsl(v));
        dy[i] = (real)(1 + i % 3);
    }
    vmath_gelu_grad(dy, y, x, GRID);
    for (int i = 0; i < GRID; i++) {
        const long double v = (long double)x[i], slope = ref_cdf(v) + v * ref_pdf(v);
        const long double size = 1 + fabsl(v), g = 1 + i % 3;
        near("gelu", x[i], y[i], v * ref_cdf(v), ULPS * (long double)EPS * fabsl(v));
        near("gelu'", x[i], dy[i], g * slope, g * ULPS * (long double)EPS * size);
    }
    gelu_in_place(x, y);
    free(x), free(y), free(dy);
}

/* erfc and exp(-z^2) multiply the rounding of z by 2 z^2. */
static long double laplace_bar(long double x) {
    const long double z = ref_z(x);
    return (2 * ULPS + 4 * z * z) * (long double)EPS;
}

static void laplace(void **state) {
    (void)state;
    real *x = grid(-3, 5), *y = malloc(GRID * sizeof *y), *dx = malloc(GRID * sizeof *dx);
    if (!y || !dx) abort();
    vmath_laplace(y, x, GRID);
    for (int i = 0; i < GRID; i++) {
        const long double v = (long double)x[i], l = ref_laplace(v);
        near("laplace", x[i], y[i], l, laplace_bar(v) * l);
        dx[i] = 7, y[i] = (real)(1 + i % 3);
    }
    vmath_laplace_grad(dx, y, x, GRID);
    for (int i = 0; i < GRID; i++) {
        const long double v = (long double)x[i], s = (1 + i % 3) * ref_slope(v);
        near("laplace'", x[i], dx[i], 7 + s, laplace_bar(v) * s + 8 * (long double)EPS);
    }
    free(x), free(y), free(dx);
}

/* Where 1 + erf would be 1 in float, scores must still tell tokens apart. */
static void laplace_does_not_saturate_early(void **state) {
    (void)state;
    real x[2] = {REAL(-1.2), REAL(-1.1)}, y[2];
    vmath_laplace(y, x, 2);
    assert_true(y[0] > 0 && y[0] < y[1] * REAL(0.5));
}

static void softplus(void **state) {
    (void)state;
    real *x = grid(-30, 30), *sig = malloc(3 * GRID * sizeof *sig), *up = sig + GRID,
         *down = up + GRID;
    if (!sig) abort();
    vmath_softplus1(sig, up, down, x, 1, GRID);
    for (int i = 0; i < GRID; i++) {
        const long double v = (long double)x[i], e = expl(-fabsl(v));
        const long double plus = 1 + (v > 0 ? v : 0) + log1pl(e);
        const long double minus = 1 + (v > 0 ? 0 : -v) + log1pl(e), s = 1 / (1 + expl(-v));
        near("sigmoid", x[i], sig[i], s, ULPS * (long double)EPS * s);
        near("softplus1", x[i], up[i], plus, EXP_ULPS * (long double)EPS * plus);
        near("softplus1(-x)", x[i], down[i], minus, EXP_ULPS * (long double)EPS * minus);
    }
    x[0] = (real)NAN;
    vmath_softplus1(sig, up, down, x, 1, 1);
    assert_true(isnan(up[0]) && isnan(down[0]) && isnan(sig[0]));
    free(sig);
    free(x);
}

static void laplace_rows(void **state) {
    (void)state;
    enum { N = 67 };
    for (int n = 1; n <= N; n++) {
        real s[N], p[N], d[N], dp[N];
        long double dot = 0;
        const long double bar = 40 * n * (long double)EPS;
        for (int i = 0; i < n; i++) {
            p[i] = s[i] = (real)(0.03 * ((i * 37) % 67) - 1);
            d[i] = dp[i] = (real)(0.05 * ((i * 29) % 67) - 1.5);
            dot += ref_laplace((long double)s[i]) * (long double)dp[i];
        }
        near("laplace dot", 0, vmath_laplace_row(p, d, 3, n), dot, bar);
        for (int i = 0; i < n; i++) {
            const long double v = (long double)s[i];
            near("laplace a p", s[i], p[i], 3 * ref_laplace(v), bar);
            near("laplace ds", s[i], d[i], 3 * ref_slope(v) * (long double)dp[i], bar);
        }
    }
}

/* Scores, gradients of probabilities, and what belongs to rows. What is beyond a row's last column,
 * and beyond the last row, is nobody's. */
enum { TILE_ROWS = 67, TILE_REALS = (TILE_ROWS + 1) * 1043, UNTOUCHED = 77 };
typedef struct RowsTile {
    VmathTile t;
    real s[TILE_REALS], dp[TILE_REALS];
    real lse[TILE_ROWS + 1], a[TILE_ROWS + 1], D[TILE_ROWS + 1];
} RowsTile;
static const VmathTile tiles[] = {
    {1, 16, 16}, {3, 16, 19}, {67, 64, 64}, {67, 48, 51}, {5, 1040, 1043}};
enum { TILES = sizeof tiles / sizeof *tiles };

static bool in_tile(VmathTile t, int i) { return i / t.ld < t.rows && i % t.ld < t.cols; }

static void fill_tile(RowsTile *x, VmathTile t) {
    x->t = t;
    for (int i = 0; i < TILE_REALS; i++) {
        x->s[i] = in_tile(t, i) ? (real)(0.03 * ((i * 37) % 67) - 1) : UNTOUCHED;
        x->dp[i] = in_tile(t, i) ? (real)(0.05 * ((i * 29) % 71) - 1.5) : UNTOUCHED;
    }
    for (int r = 0; r <= TILE_ROWS; r++) {
        x->lse[r] = (real)(2 + 0.1 * (r % 5));
        x->a[r] = (real)(3 - 0.2 * (r % 7));
        x->D[r] = r < t.rows ? (real)(0.25 + 0.01 * r) : UNTOUCHED;
    }
}

static void check_untouched(const RowsTile *x) {
    for (int i = 0; i < TILE_REALS; i++)
        if (!in_tile(x->t, i)) assert_true(x->s[i] == UNTOUCHED && x->dp[i] == UNTOUCHED);
    for (int r = x->t.rows; r <= TILE_ROWS; r++) assert_true(x->D[r] == UNTOUCHED);
}

/* Row r against `before`: s is a p, and dp a p (dp - D), with D to within `bar`. */
static void check_row(const RowsTile *x, const RowsTile *before, int r, long double weight,
                      long double D, long double bar) {
    const long double eps = (EXP_ULPS + 4) * (long double)EPS;
    for (int i = r * x->t.ld; i < r * x->t.ld + x->t.cols; i++) {
        const long double dp = (long double)before->dp[i];
        const long double p =
            weight * expl((long double)before->s[i] - (long double)before->lse[r]);
        near("a p", before->s[i], x->s[i], p, eps * p);
        near("ds", before->s[i], x->dp[i], p * (dp - D), p * (eps * (fabsl(dp) + fabsl(D)) + bar));
    }
}

/* D that a row's p and dp have, and a bar for it. */
static long double row_dot(const RowsTile *x, int r, long double *bar) {
    long double D = 0, size = 0;
    for (int i = r * x->t.ld; i < r * x->t.ld + x->t.cols; i++) {
        const long double p = expl((long double)x->s[i] - (long double)x->lse[r]);
        D += p * (long double)x->dp[i];
        size += p * fabsl((long double)x->dp[i]);
    }
    *bar = (EXP_ULPS + x->t.cols) * (long double)EPS * size;
    return D;
}

static void softmax_tiles(void **state) {
    (void)state;
    RowsTile *x = malloc(sizeof *x), *before = malloc(sizeof *before);
    if (!x || !before) abort();
    for (int i = 0; i < TILES * 2; i++) {
        fill_tile(before, tiles[i / 2]);
        const real *a = i % 2 ? before->a : NULL;
        *x = *before;
        vmath_softmax_rows(x->s, x->dp, x->D, x->lse, a, x->t);
        for (int r = 0; r < x->t.rows; r++) {
            long double bar, D = row_dot(before, r, &bar);
            near("D", (real)r, x->D[r], D, bar);
            check_row(x, before, r, a ? (long double)a[r] : 1, D, bar);
        }
        check_untouched(x);
        *x = *before;
        vmath_softmax_grad(x->s, x->dp, x->D, x->lse, a, x->t);
        for (int r = 0; r < x->t.rows; r++)
            check_row(x, before, r, a ? (long double)a[r] : 1, (long double)x->D[r], 0);
        check_untouched(x);
    }
    free(x), free(before);
}

static void exponentials_of_tiles(void **state) {
    (void)state;
    RowsTile *x = malloc(sizeof *x), *before = malloc(sizeof *before);
    if (!x || !before) abort();
    for (int k = 0; k < TILES; k++) {
        fill_tile(before, tiles[k]);
        *x = *before;
        vmath_exp_rows(x->s, x->D, x->lse, x->t);
        for (int r = 0; r < x->t.rows; r++) {
            long double sum = 0;
            for (int i = r * x->t.ld; i < r * x->t.ld + x->t.cols; i++) {
                const long double e = expl((long double)before->s[i] - (long double)x->lse[r]);
                near("exp", before->s[i], x->s[i], e, (EXP_ULPS + 4) * (long double)EPS * e);
                sum += e;
            }
            near("sum", (real)r, x->D[r], sum, (EXP_ULPS + x->t.cols) * (long double)EPS * sum);
        }
        check_untouched(x);
    }
    free(x), free(before);
}

/* What exp may give where it cannot be exact: e^80 or more, e^-80 or less. */
static bool exp_is_right(real x, real y) {
    if (isnan(x)) return isnan(y);
    return x > 0 ? y >= REAL(5e34) : y >= 0 && y <= REAL(2e-35);
}

/* Each among ordinary numbers, at every place of a vector. */
static void extremes(void **state) {
    (void)state;
    enum { N = 37 };
    const real inf = (real)INFINITY, nan = (real)NAN;
    const struct {
        real x, gelu, laplace, slope, gelu_slope;
    } known[] = {
        {10000, 10000, 1, 0, 1}, {-10000, 0, 0, 0, 0},      {inf, inf, 1, 0, nan},
        {-inf, nan, 0, 0, nan},  {nan, nan, nan, nan, nan},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (int at = 0; at < N; at++) {
            real x[N], y[N], d[N];
            for (int i = 0; i < N; i++) x[i] = (real)i / N, d[i] = 0;
            x[at] = known[k].x;
            exps(y, x, N);
            assert_true(exp_is_right(x[at], y[at]));
            vmath_laplace(y, x, N);
            assert_true(y[at] == known[k].laplace || (isnan(known[k].laplace) && isnan(y[at])));
            vmath_gelu(y, x, N);
            assert_true(y[at] == known[k].gelu || (isnan(known[k].gelu) && isnan(y[at])));
            for (int i = 0; i < N; i++) y[i] = 1;
            vmath_laplace_grad(d, y, x, N);
            assert_true(d[at] == known[k].slope || (isnan(known[k].slope) && isnan(d[at])));
            vmath_gelu_grad(y, d, x, N);
            if (!isnan(known[k].gelu_slope)) assert_true(y[at] == known[k].gelu_slope);
            if (isnan(known[k].x)) assert_true(isnan(y[at]));
            for (int i = 0; i < N; i++) assert_true(i == at || isfinite(y[i]));
        }
}

static void peak_of_a_tile(void **state) {
    (void)state;
    enum { ROWS = 5, COLS = 48, LD = 50 };
    const VmathTile tile = {ROWS, COLS, LD};
    real x[ROWS * LD];
    for (int at = 0; at < ROWS * COLS; at++) {
        const int place = at / COLS * LD + at % COLS;
        for (int i = 0; i < ROWS * LD; i++) x[i] = i % LD < COLS ? (real)(i % 7) - 3 : 100;
        assert_true(vmath_tile_peak(x, tile) == 3);
        x[place] = -9;
        assert_true(vmath_tile_peak(x, tile) == 9);
        x[place] = (real)-INFINITY;
        assert_true(isinf(vmath_tile_peak(x, tile)));
    }
}

/* A NaN or an infinity in a row of scores makes the row NaN; it never disappears. */
static void softmax_keeps_nan(void **state) {
    (void)state;
    enum { N = 37 };
    for (int bad = 0; bad < 2; bad++)
        for (int at = 0; at < N; at++) {
            real x[3 * N], y[3 * N];
            for (int i = 0; i < 3 * N; i++) x[i] = (real)i / N;
            x[N + at] = (real)(bad ? INFINITY : NAN);
            attnfn_forward(ATTN_SOFTMAX, y, x, 3, N);
            assert_true(isnan(y[N + at]));
            for (int i = 0; i < N; i++) assert_true(isfinite(y[i]) && isfinite(y[2 * N + i]));
        }
}

/* So do columns, where a factor can make the infinity; other columns are not touched by it. */
static void softmax_of_columns_keeps_nan(void **state) {
    (void)state;
    enum { R = 5, LD = 48 };
    for (int bad = 0; bad < 3; bad++)
        for (int at = 0; at < R * LD; at++) {
            real x[R * LD], y[R * LD], factor[LD];
            for (int i = 0; i < LD; i++) factor[i] = 10;
            for (int i = 0; i < R * LD; i++) x[i] = (real)(i % 7);
            x[at] = (real)(bad == 0 ? NAN : bad == 1 ? INFINITY : HUGE / 2);
            attnfn_columns(ATTN_SOFTMAX, y, x, factor, LD, R, LD);
            assert_true(isnan(y[at]));
            for (int i = 0; i < R * LD; i++) assert_true(i % LD == at % LD || isfinite(y[i]));
        }
}

/* Columns are the rows of the transposed. */
static void columns_are_rows(void **state) {
    (void)state;
    enum { R = 7, LD = 32 };
    for (int f = 0; f < 2; f++) {
        real x[R * LD], y[R * LD], factor[LD], row[R], dy[R * LD], dz[R * LD], drow[R];
        for (int i = 0; i < LD; i++) factor[i] = (real)(0.5 + 0.1 * i);
        for (int i = 0; i < R * LD; i++) x[i] = (real)(i * 37 % 11 - 5), dy[i] = (real)(i % 5 - 2);
        attnfn_columns((AttnFn)f, y, x, factor, LD, R, LD);
        attnfn_columns_backward((AttnFn)f, dz, dy, y, x, factor, LD, R, LD);
        for (int c = 0; c < LD; c++) {
            real z[R], dyr[R];
            for (int r = 0; r < R; r++)
                z[r] = factor[c] * x[r * LD + c], dyr[r] = dy[r * LD + c], drow[r] = 0;
            attnfn_forward((AttnFn)f, row, z, 1, R);
            attnfn_backward((AttnFn)f, drow, dyr, row, z, 1, R);
            for (int r = 0; r < R; r++) {
                near("column", z[r], y[r * LD + c], (long double)row[r], 16 * (long double)EPS);
                near("column'", z[r], dz[r * LD + c], (long double)drow[r], 64 * (long double)EPS);
            }
        }
    }
}

/* Rows sum to 1 wherever they lie. */
static void softmax_of_large_scores(void **state) {
    (void)state;
    static const double shifts[] = {-1e4, -100, 0, 100, 1e4};
    for (int s = 0; s < 5; s++)
        for (int n = 1; n < 40; n++) {
            real x[40], y[40];
            double sum = 0;
            for (int i = 0; i < n; i++) x[i] = (real)(shifts[s] + i);
            attnfn_forward(ATTN_SOFTMAX, y, x, 1, n);
            for (int i = 0; i < n; i++) sum += (double)y[i];
            assert_true(fabs(sum - 1) < 1e-5);
            for (int i = 1; i < n; i++) assert_true(y[i] >= y[i - 1]);
        }
}

/* To the bit: the scores of a single cluster tie. */
static void softmax_of_one_is_one(void **state) {
    (void)state;
    real x[100], y[100];
    for (int i = 0; i < 100; i++) x[i] = (real)(0.37 * i - 15);
    attnfn_forward(ATTN_SOFTMAX, y, x, 100, 1);
    for (int i = 0; i < 100; i++) assert_true(y[i] == 1);
    real factor[96];
    for (int i = 0; i < 96; i++) factor[i] = (real)(400.3 * i - 15000), x[i] = (real)(1 + 0.37 * i);
    attnfn_columns(ATTN_SOFTMAX, y, x, factor, 96, 1, 96);
    for (int i = 0; i < 96; i++) assert_true(y[i] == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential),
        cmocka_unit_test(exponential_ends),
        cmocka_unit_test(sums_and_maxima),
        cmocka_unit_test(gelu),
        cmocka_unit_test(laplace),
        cmocka_unit_test(laplace_does_not_saturate_early),
        cmocka_unit_test(softplus),
        cmocka_unit_test(laplace_rows),
        cmocka_unit_test(softmax_tiles),
        cmocka_unit_test(exponentials_of_tiles),
        cmocka_unit_test(extremes),
        cmocka_unit_test(peak_of_a_tile),
        cmocka_unit_test(softmax_keeps_nan),
        cmocka_unit_test(softmax_of_columns_keeps_nan),
        cmocka_unit_test(columns_are_rows),
        cmocka_unit_test(softmax_of_large_scores),
        cmocka_unit_test(softmax_of_one_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
