/* The convolution over tokens against its definition, and its gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "ops/conv.h"
#include "ops/linear.h"

typedef struct Conv {
    GradTensor *x, *w, *y;
    int taps, N, d;
    real *wt, *dx;
} Conv;

static void forward(void *ctx) {
    Conv *o = ctx;
    transpose(o->wt, o->d, o->w->x, o->taps, o->d, o->taps);
    conv_forward(o->y->x, o->x->x, o->wt, o->taps, 0, o->N, o->N, o->d);
}

static void backward(void *ctx) {
    Conv *o = ctx;
    conv_backward_weight(o->w->dx, o->y->dx, o->x->x, o->taps, 0, o->d, o->N, o->d);
    conv_backward_input(o->dx, o->y->dx, o->wt, o->taps, 0, o->N, o->N, o->d);
    for (int i = 0; i < o->N * o->d; i++) o->x->dx[i] += o->dx[i];
}

static void is_its_definition(const Conv *o) {
    for (int n = 0; n < o->N; n++)
        for (int j = 0; j < o->d; j++) {
            double y = (double)o->x->x[n * o->d + j];
            for (int t = 0; t < o->taps; t++) {
                const int from = n + t - (o->taps - 1) / 2;
                if (from >= 0 && from < o->N)
                    y += (double)o->w->x[j * o->taps + t] * (double)o->x->x[from * o->d + j];
            }
            assert_true(fabs(y - (double)o->y->x[n * o->d + j]) < 1e-12 * (1 + fabs(y)));
        }
}

static real *poisoned(int n) {
    real *p = malloc((size_t)n * sizeof *p);
    if (!p) abort();
    poison(p, (size_t)n * sizeof *p);
    return p;
}

/* Shorter documents than taps, one token, one column, more rows and taps than are summed at once.
 */
static void convolution(void **state) {
    (void)state;
    static const int edges[][3] = {{1, 1, 1},     {1, 5, 3},   {2, 9, 1},    {3, 3, 17},
                                   {520, 3, 5},   {257, 5, 2}, {70, 67, 17}, {300, 65, 16},
                                   {300, 131, 3}, {9, 259, 2}};
    for (int i = 0; i < GRAD_SHAPES; i++) {
        Draws d = draws_open("conv", (uint64_t)i);
        Conv o = {
            .N = draw_size(&d, 30), .taps = 1 + 2 * draw_int(&d, 0, 5), .d = draw_size(&d, 40)};
        if (i < (int)(sizeof edges / sizeof *edges))
            o.N = edges[i][0], o.taps = edges[i][1], o.d = edges[i][2];
        GradCase c;
        grad_open(&c, d, "%d taps on (%d,%d)", o.taps, o.N, o.d);
        o.x = grad_input(&c, "x", (size_t)(o.N * o.d), 1);
        o.w = grad_input(&c, "w", (size_t)(o.d * o.taps), 1);
        o.y = grad_output(&c, "y", (size_t)(o.N * o.d));
        o.wt = poisoned(o.taps * o.d), o.dx = poisoned(o.N * o.d);
        forward(&o);
        is_its_definition(&o);
        grad_check(&c, forward, backward, &o);
        grad_close(&c);
        free(o.wt), free(o.dx);
    }
    grad_report("convolution");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolution)};
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
