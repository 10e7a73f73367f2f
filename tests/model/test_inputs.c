/* The inputs of attention that are traced are each layer's own: behind its norm and convolution. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "tiny.h"

enum { TAPS = 3 };

static const Param *find(const Tiny *t, const char *name) {
    const Param *p = params_find(&t->m.params, name);
    if (!p) fail_msg("no %s", name);
    return p;
}

static void clear(Tiny *t, const char *name) {
    const Param *p = find(t, name);
    memset(t->w + p->at, 0, p->n * sizeof *t->w);
}

static void triple(Tiny *t, const char *to, const char *from) {
    const Param *p = find(t, to), *q = find(t, from);
    for (size_t i = 0; i < q->n; i++) t->w[p->at + i] = 3 * t->w[q->at + i];
}

/* The first block adds nothing and has no taps; the second one's norm is the first one's, three
 * times: both read one stream, as u and as 3 u, and what that convolved comes to. */
static void set_blocks(Tiny *t) {
    static const char *const nothing[] = {"blocks.0.attn.o.weight", "blocks.0.attn.o.bias",
                                          "blocks.0.fc2.weight", "blocks.0.fc2.bias",
                                          "blocks.0.conv.weight"};
    for (int i = 0; i < 5; i++) clear(t, nothing[i]);
    triple(t, "blocks.1.norm1.weight", "blocks.0.norm1.weight");
    triple(t, "blocks.1.norm1.bias", "blocks.0.norm1.bias");
}

/* Feature f of token n. */
static double convolved(const Tiny *t, const real *u, int N, int n, int f) {
    const int d = t->m.conf.d;
    const real *taps = t->w + find(t, "blocks.1.conv.weight")->at + f * TAPS;
    double sum = (double)u[n * d + f];
    for (int i = 0; i < TAPS; i++) {
        const int at = n + i - TAPS / 2;
        if (at >= 0 && at < N) sum += (double)taps[i] * (double)u[at * d + f];
    }
    return sum;
}

static void inputs_of_layers(void **state) {
    const TinyConf conf = {.depth = 2, .conv = TAPS};
    const double close = sizeof(real) == 8 ? 1e-12 : 1e-4;
    Tiny t;
    Traces traces;
    Engine e;
    Err err;
    (void)state;
    tiny_open(&t, conf, draws_open("inputs", 1));
    set_blocks(&t);
    traces_open(&traces, &t.m, t.B, t.m.max_tokens, TRACES_INPUTS);
    assert_true(engine_open(&e, &t.m, t.B, 1, false, &err));
    engine_weights(&e, t.w);
    engine_evaluate(&e, t.samples, t.B, &t.out, traces.trace);
    double off = 0, moved = 0; /* the latter: by the taps */
    for (int i = 0; i < t.B; i++) {
        const real *u = traces.trace[2 * i].input, *v = traces.trace[2 * i + 1].input;
        const int N = t.samples[i].length[0], d = t.m.conf.d;
        for (int j = 0; j < N * d; j++) {
            off = fmax(off, fabs((double)v[j] - 3 * convolved(&t, u, N, j / d, j % d)));
            moved = fmax(moved, fabs((double)v[j] - 3 * (double)u[j]));
        }
    }
    assert_true(off < close && moved > 0.01);
    engine_close(&e);
    traces_close(&traces);
    tiny_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_of_layers)};
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
