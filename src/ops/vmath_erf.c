/* Compiled with -ffast-math, under which the compiler uses glibc's vector erfc and exp (4 ULP):
 * nothing here may test for NaN. */
#include <math.h>

#include "ops/vmath.h"

#ifdef REAL_DOUBLE
#define EXP exp
#define ERFC erfc
#else
#define EXP expf
#define ERFC erfcf
#endif

#define SQRT_HALF REAL(0.70710678118654752440)
/* The Laplace function's mu = sqrt(1/2), sigma = sqrt(1/(4 pi)). */
#define LAPLACE_MU SQRT_HALF
#define LAPLACE_SCALE REAL(2.50662827463100050242) /* 1 / (sigma sqrt 2) = sqrt(2 pi) */
#define LAPLACE_PEAK REAL(1.41421356237309504880)  /* 1 / (sigma sqrt(2 pi)) = sqrt 2 */

/* erfc rather than 1 + erf: in float the latter saturates at x > 2.3, and top-k would see only
 * ties. */
void vmath_laplace(real *y, const real *x, int n) {
#pragma omp simd
    for (int i = 0; i < n; i++) y[i] = REAL(0.5) * ERFC((LAPLACE_MU - x[i]) * LAPLACE_SCALE);
}

static real laplace_slope(real x) {
    real z = (x - LAPLACE_MU) * LAPLACE_SCALE;
    return LAPLACE_PEAK * EXP(-z * z);
}

void vmath_laplace_grad(real *dx, const real *dy, const real *x, int n) {
#pragma omp simd
    for (int i = 0; i < n; i++) dx[i] += dy[i] * laplace_slope(x[i]);
}

real vmath_laplace_row(real *restrict s, real *restrict dp, real a, int n) {
    real dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int i = 0; i < n; i++) {
        real p = REAL(0.5) * ERFC((LAPLACE_MU - s[i]) * LAPLACE_SCALE);
        real slope = laplace_slope(s[i]);
        dot += p * dp[i];
        s[i] = a * p;
        dp[i] *= a * slope;
    }
    return dot;
}
