/* What the steps towards an inverse come to, and the gradient that an inverse has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/pinverse.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "draws.h"
#include "ops/attnfn.h"

#define BAR (sizeof(real) == 8 ? 1e-11 : 1e-4)

/* Of each head its own A. */
typedef struct Heads {
    PInverse p;
    AttnMemory memory;
    int h, L;
    real *dA, *dZ; /* (L,L) */
} Heads;

static void place(Heads *o, int steps) {
    const size_t square = (size_t)o->L * (size_t)o->L;
    o->memory.saved.used = o->memory.job.used = 0;
    pinverse_layout(&o->p, &o->memory, o->h, o->L, steps, true);
    o->dA = arena_reals(&o->memory.scratch, square);
    o->dZ = arena_reals(&o->memory.scratch, square);
}

static void open_heads(Heads *o, int h, int L, int steps) {
    Arena *const all[] = {&o->memory.saved, &o->memory.scratch, &o->memory.job};
    Err err;
    *o = (Heads){.h = h, .L = L};
    place(o, steps);
    for (int i = 0; i < 3; i++) {
        const size_t bytes = all[i]->used;
        if (!bytes) continue;
        assert_true(arena_open(all[i], bytes, &err));
        memset(all[i]->base, 0xff, bytes);
    }
    o->memory.scratch.used = 0;
    place(o, steps);
    o->memory.job.used = 0;
}

static void close_heads(Heads *o) {
    arena_close(&o->memory.saved), arena_close(&o->memory.scratch), arena_close(&o->memory.job);
}

/* Softmax of scores that favour the diagonal: far from singular. */
static void draw(const Heads *o, int seed) {
    Draws d = draws_open("inverse", (uint64_t)seed);
    for (int head = 0; head < o->h; head++) {
        real *A = pinverse_input(&o->p, head);
        draw_normals(&d, A, (size_t)(o->L * o->L), 0, 1);
        for (int i = 0; i < o->L; i++) A[i * (o->L + 1)] += (real)(2 + log(o->L));
        attnfn_forward(ATTN_SOFTMAX, A, A, o->L, o->L);
    }
}

/* max |A Z - I| */
static double off_identity(const Heads *o, int head) {
    const real *A = pinverse_input(&o->p, head), *Z = pinverse_output(&o->p, head);
    double worst = 0;
    for (int i = 0; i < o->L; i++)
        for (int j = 0; j < o->L; j++) {
            double sum = i == j ? -1 : 0;
            for (int k = 0; k < o->L; k++) sum += (double)A[i * o->L + k] * (double)Z[k * o->L + j];
            if (!(fabs(sum) <= worst)) worst = fabs(sum);
        }
    return worst;
}

/* Each step is nearer, until there is nothing left but rounding. */
static void steps_come_to_the_inverse(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 7, 15, 16, 17, 33, 64};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        double last[3] = {INFINITY, INFINITY, INFINITY};
        for (int steps = 0; steps <= 12; steps++) {
            Heads o;
            open_heads(&o, 1 + i % 3, sizes[i], steps);
            draw(&o, i);
            for (int head = 0; head < o.h; head++) {
                pinverse_forward(&o.p, head, o.memory.job);
                const double off = off_identity(&o, head);
                if (!(off < last[head] || off < BAR))
                    fail_msg("L %d: A Z is off I by %g after %d steps, by %g before the last", o.L,
                             off, steps, last[head]);
                last[head] = off;
            }
            close_heads(&o);
        }
        for (int head = 0; head < 1 + i % 3; head++) assert_true(last[head] < BAR);
    }
}

/* Where Z is the inverse, so is its gradient that of one: dA = -Z^T dZ Z^T. */
static void gradient_is_the_inverses(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 5, 16, 19};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        Heads o;
        const int L = sizes[i];
        open_heads(&o, 2, L, 14);
        draw(&o, 100 + i);
        pinverse_forward(&o.p, 1, o.memory.job);
        const real *Z = pinverse_output(&o.p, 1);
        Draws d = draws_open("gradient", (uint64_t)i);
        draw_normals(&d, o.dZ, (size_t)(L * L), 0, 1);
        double *expected = calloc((size_t)(L * L), sizeof *expected), most = 1;
        if (!expected) abort();
        for (int at = 0; at < L * L * L * L; at++) {
            const int r = at % L, c = at / L % L, j = at / (L * L) % L, k = at / (L * L * L);
            expected[r * L + c] -=
                (double)Z[j * L + r] * (double)o.dZ[j * L + k] * (double)Z[c * L + k];
        }
        pinverse_backward(&o.p, 1, o.dA, o.dZ, o.memory.job);
        for (int at = 0; at < L * L; at++) most = fmax(most, fabs(expected[at]));
        for (int at = 0; at < L * L; at++)
            if (!(fabs((double)o.dA[at] - expected[at]) < 10 * BAR * most))
                fail_msg("L %d: dA[%d] is %g, and should be %g", L, at, (double)o.dA[at],
                         expected[at]);
        free(expected);
        close_heads(&o);
    }
}

/* A is 1, exactly, and so is Z; and the first step's gradient that of 1 / A already. */
static void one_landmark(void **state) {
    (void)state;
    for (int steps = 0; steps <= 10; steps++) {
        Heads o;
        open_heads(&o, 1, 1, steps);
        *pinverse_input(&o.p, 0) = *o.dZ = 1;
        pinverse_forward(&o.p, 0, o.memory.job);
        assert_true(*pinverse_output(&o.p, 0) == 1);
        pinverse_backward(&o.p, 0, o.dA, o.dZ, o.memory.job);
        assert_true(*o.dA == (steps ? -1 : 0));
        close_heads(&o);
    }
}

/* Without a step Z is A^T / |A|_1, whose gradient through |A|_1 only the first column has, where
 * several are as large. */
static void first_largest_column(void **state) {
    (void)state;
    enum { L = 4 };
    static const double rows[L][L] = {
        {0.125, 0.25, 0.5, 0.125},
        {0.125, 0.5, 0.25, 0.125},
        {0.125, 0.25, 0.25, 0.375},
        {0.25, 0.25, 0.25, 0.25}}; /* columns of 0.625, 1.25, 1.25 and 0.875 */
    Heads o;
    open_heads(&o, 1, L, 0);
    for (int i = 0; i < L * L; i++) {
        pinverse_input(&o.p, 0)[i] = (real)rows[i / L][i % L];
        o.dZ[i] = i == 1; /* of Z[0,1], which is A[1,0] / 1.25 */
    }
    pinverse_forward(&o.p, 0, o.memory.job);
    pinverse_backward(&o.p, 0, o.dA, o.dZ, o.memory.job);
    for (int i = 0; i < L * L; i++) {
        const double z = rows[i % L][i / L] / 1.25,
                     da = (i == L ? 1 / 1.25 : 0) - (i % L == 1 ? 0.125 / (1.25 * 1.25) : 0);
        assert_true(fabs((double)pinverse_output(&o.p, 0)[i] - z) < BAR);
        assert_true(fabs((double)o.dA[i] - da) < BAR);
    }
    close_heads(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_come_to_the_inverse),
        cmocka_unit_test(gradient_is_the_inverses),
        cmocka_unit_test(one_landmark),
        cmocka_unit_test(first_largest_column),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
