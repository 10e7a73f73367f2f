#include "attention/pinverse.h"

#include <string.h>

#include "core/gemm.h"
#include "ops/linear.h"
#include "ops/vec.h"

static size_t square(const PInverse *p) { return (size_t)p->L * (size_t)p->L; }

/* A step's factors, each (L,L): with P = -A Z, U = 7 I + P, W = 15 I + P U and Y = 13 I + P W the
 * next Z is Z Y / 4. */
typedef struct Factors {
    real *P, *U, *W, *Y;
} Factors;

static void layout_factors(Factors *f, const PInverse *p, Arena *a) {
    f->P = arena_reals(a, square(p));
    f->U = arena_reals(a, square(p));
    f->W = arena_reals(a, square(p));
    f->Y = arena_reals(a, square(p));
}

typedef struct Gradients {
    real *P, *W, *Y, *Z;
} Gradients;

static void layout_gradients(Gradients *g, const PInverse *p, Arena *a) {
    g->P = arena_reals(a, square(p));
    g->W = arena_reals(a, square(p));
    g->Y = arena_reals(a, square(p));
    g->Z = arena_reals(a, square(p));
}

void pinverse_layout(PInverse *p, AttnMemory *memory, int h, int L, int steps, bool backward) {
    p->L = L, p->steps = steps;
    p->A = arena_reals(&memory->saved, (size_t)h * square(p));
    p->Z = arena_reals(&memory->saved, (size_t)(h * (steps + 1)) * square(p));
    layout_factors(&(Factors){0}, p, &memory->job);
    if (backward) layout_gradients(&(Gradients){0}, p, &memory->job);
}

real *pinverse_input(const PInverse *p, int head) { return p->A + (size_t)head * square(p); }

static real *step(const PInverse *p, int head, int i) {
    return p->Z + (size_t)(head * (p->steps + 1) + i) * square(p);
}

const real *pinverse_output(const PInverse *p, int head) { return step(p, head, p->steps); }

/* ---- forward ---- */

static void scale(const PInverse *p, real *x, real by) {
    EACH_VEC(i, left, (int)square(p), vec_store(x + i, by * vec_load(x + i, left), left));
}

static void add_identity(const PInverse *p, real *x, real times) {
    for (int i = 0; i < p->L; i++) x[i * (p->L + 1)] += times;
}

static void product(const PInverse *p, real *to, const real *x, const real *y) {
    gemm_nn(to, p->L, x, p->L, y, p->L, p->L, p->L, p->L, false);
}

/* |A|_1, and the first column that has it. */
static real column_norm(const PInverse *p, const real *A, int *column) {
    real most = 0;
    *column = 0;
    for (int j = 0; j < p->L; j++) {
        real sum = 0;
        for (int i = 0; i < p->L; i++) sum += A[i * p->L + j];
        if (sum > most) most = sum, *column = j;
    }
    return most;
}

int pinverse_column(const PInverse *p, int head) {
    int column;
    column_norm(p, pinverse_input(p, head), &column);
    return column;
}

static void factors(const Factors *f, const PInverse *p, const real *A, const real *Z) {
    product(p, f->P, A, Z);
    scale(p, f->P, -1);
    memcpy(f->U, f->P, square(p) * sizeof *f->U);
    add_identity(p, f->U, 7);
    product(p, f->W, f->P, f->U);
    add_identity(p, f->W, 15);
    product(p, f->Y, f->P, f->W);
    add_identity(p, f->Y, 13);
}

void pinverse_forward(const PInverse *p, int head, Arena scratch) {
    const real *A = pinverse_input(p, head);
    int column;
    Factors f;
    layout_factors(&f, p, &scratch);
    transpose(step(p, head, 0), p->L, A, p->L, p->L, p->L);
    scale(p, step(p, head, 0), 1 / column_norm(p, A, &column));
    for (int i = 0; i < p->steps; i++) {
        factors(&f, p, A, step(p, head, i));
        product(p, step(p, head, i + 1), step(p, head, i), f.Y);
        scale(p, step(p, head, i + 1), REAL(0.25));
    }
}

/* ---- backward ---- */

/* x y^T and x^T y. */
static void product_nt(const PInverse *p, real *to, const real *x, const real *y, bool add) {
    gemm_nt(to, p->L, x, p->L, y, p->L, p->L, p->L, p->L, add);
}
static void product_tn(const PInverse *p, real *to, const real *x, const real *y, bool add) {
    gemm_tn(to, p->L, x, p->L, y, p->L, p->L, p->L, p->L, add);
}

/* One step: dZ becomes the gradient of the Z that it began with; dA is added to.
 *   dY = Z^T dZ' / 4,  dW = P^T dY,  dU = P^T dW,  dP = dY W^T + dW U^T + dU,
 *   dA = -dP Z^T,  dZ = dZ' Y^T / 4 - A^T dP */
static void step_backward(const PInverse *p, const Factors *f, const Gradients *g, const real *A,
                          const real *Z, real *dA, real *dZ) {
    factors(f, p, A, Z);
    scale(p, dZ, REAL(0.25));
    product_tn(p, g->Y, Z, dZ, false);
    product_nt(p, g->Z, dZ, f->Y, false);
    product_tn(p, g->W, f->P, g->Y, false);
    product_tn(p, g->P, f->P, g->W, false);
    product_nt(p, g->P, g->Y, f->W, true);
    product_nt(p, g->P, g->W, f->U, true);
    scale(p, g->P, -1);
    product_nt(p, dA, g->P, Z, true);
    product_tn(p, g->Z, A, g->P, true);
    memcpy(dZ, g->Z, square(p) * sizeof *dZ);
}

void pinverse_backward(const PInverse *p, int head, real *dA, real *dZ, Arena scratch) {
    const real *A = pinverse_input(p, head), *first = step(p, head, 0);
    const int L = p->L;
    int column;
    Factors f;
    Gradients g;
    layout_factors(&f, p, &scratch);
    layout_gradients(&g, p, &scratch);
    memset(dA, 0, square(p) * sizeof *dA);
    for (int i = p->steps; i-- > 0;) step_backward(p, &f, &g, A, step(p, head, i), dA, dZ);
    /* Z_0 = A^T / s: dA += dZ_0^T / s, ds = -<dZ_0, Z_0> / s */
    const real by = 1 / column_norm(p, A, &column);
    const real ds = -by * vec_dot(dZ, first, L * L);
    for (int i = 0; i < L; i++)
        for (int j = 0; j < L; j++) dA[i * L + j] += by * dZ[j * L + i] + (j == column ? ds : 0);
}
