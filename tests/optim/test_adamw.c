#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/lanes.h"
#include "draws.h"
#include "optim/adamw.h"

#define RELATIVE (sizeof(real) == 8 ? 1e-12 : 1e-5)

/* Some parameters of each kind, one of them longer than a chunk of the optimiser. */
typedef struct Setup {
    Params params;
    Arena arena;
    Adamw adamw;
    real *w, *grads;
} Setup;

static void open_setup(Setup *s) {
    static const ParamSpec specs[] = {
        {"decayed", 2, {130, 300}, {INIT_NORMAL, 1}, PARAM_TRAINED | PARAM_DECAYED},
        {"bias", 1, {7}, {INIT_NORMAL, 1}, PARAM_TRAINED},
        {"running", 1, {33}, {INIT_NORMAL, 1}, 0},
        {"frozen", 2, {3, 5}, {INIT_NORMAL, 1}, PARAM_DECAYED},
        {"scalar", 0, {0}, {INIT_NORMAL, 1}, PARAM_TRAINED},
        {"last", 1, {20000}, {INIT_NORMAL, 1}, PARAM_TRAINED},
    };
    Err err;
    *s = (Setup){.w = NULL};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) params_add(&s->params, "", &specs[i]);
    Arena plan = {0};
    adamw_layout(&s->adamw, &plan, &s->params);
    assert_true(arena_open(&s->arena, plan.used, &err));
    adamw_layout(&s->adamw, &s->arena, &s->params);
    s->w = mem_alloc(s->params.total, sizeof *s->w);
    s->grads = mem_alloc(s->params.total, sizeof *s->grads);
    params_init(&s->params, s->w, 3);
    Draws d = draws_open("adamw", 1);
    draw_normals(&d, s->grads, s->params.total, 0, 0.1);
}

static void close_setup(Setup *s) {
    params_free(&s->params);
    arena_close(&s->arena);
    mem_free(s->w), mem_free(s->grads);
}

/* The gradients of update `step`, another for every element and update. */
static void new_grads(Setup *s, int step) {
    Draws d = draws_open("gradients", (uint64_t)step);
    draw_normals(&d, s->grads, s->params.total, 0, 0.1);
}

/* ---- the definition, in double ---- */

typedef struct Slow {
    double w, m, v;
} Slow;

static Slow *open_slow(const Setup *s) {
    Slow *slow = mem_alloc(s->params.total, sizeof *slow);
    for (size_t i = 0; i < s->params.total; i++) slow[i].w = (double)s->w[i];
    return slow;
}

static void slow_update(Slow *x, double g, const AdamwConf *c, double decay, double lr, int step) {
    x->w -= lr * decay * x->w;
    x->m = c->beta1 * x->m + (1 - c->beta1) * g;
    x->v = c->beta2 * x->v + (1 - c->beta2) * g * g;
    const double m = x->m / (1 - pow(c->beta1, step)), v = x->v / (1 - pow(c->beta2, step));
    x->w -= lr * m / (sqrt(v) + c->eps);
}

static void slow_updates(Slow *slow, const Setup *s, const AdamwConf *c, double lr, double factor,
                         int step) {
    for (int i = 0; i < s->params.count; i++) {
        const Param *q = &s->params.list[i];
        const double decay = q->flags & PARAM_DECAYED ? c->weight_decay : 0;
        for (size_t j = q->at; j < q->at + q->n && (q->flags & PARAM_TRAINED); j++)
            slow_update(&slow[j], factor * (double)s->grads[j], c, decay, lr, step);
    }
}

/* ---- tests ---- */

static void follows_the_definition(void **state) {
    (void)state;
    static const AdamwConf confs[] = {
        {0.9, 0.999, 1e-8, 0.1}, {0.8, 0.95, 1e-3, 0}, {0, 0, 1e-8, 1}};
    for (size_t k = 0; k < sizeof confs / sizeof *confs; k++) {
        Setup s;
        open_setup(&s);
        Slow *slow = open_slow(&s);
        for (int step = 1; step <= 20; step++) {
            const double lr = 1e-2 / step, factor = step % 3 ? 1 : 0.37;
            new_grads(&s, step);
            adamw_update(&s.adamw, &confs[k], s.w, s.grads, lr, factor, step);
            slow_updates(slow, &s, &confs[k], lr, factor, step);
        }
        for (size_t i = 0; i < s.params.total; i++)
            if (!(fabs((double)s.w[i] - slow[i].w) <= RELATIVE * (0.1 + fabs(slow[i].w))))
                fail_msg("element %zu: %.9g, not %.9g", i, (double)s.w[i], slow[i].w);
        mem_free(slow);
        close_setup(&s);
    }
}

/* Not even by weight decay. */
static void leaves_alone_what_does_not_train(void **state) {
    (void)state;
    const AdamwConf conf = {0.9, 0.999, 1e-8, 0.5};
    Setup s;
    open_setup(&s);
    real *was = mem_alloc(s.params.total, sizeof *was);
    memcpy(was, s.w, s.params.total * sizeof *was);
    adamw_update(&s.adamw, &conf, s.w, s.grads, 0.1, 1, 1);
    for (int i = 0; i < s.params.count; i++) {
        const Param *q = &s.params.list[i];
        for (size_t j = q->at; j < q->at + q->n; j++)
            assert_true((s.w[j] == was[j]) == !(q->flags & PARAM_TRAINED));
    }
    mem_free(was);
    close_setup(&s);
}

static void norm_is_over_trained_parameters(void **state) {
    (void)state;
    Setup s;
    double sum = 0;
    open_setup(&s);
    for (int i = 0; i < s.params.count; i++) {
        const Param *q = &s.params.list[i];
        for (size_t j = q->at; j < q->at + q->n && (q->flags & PARAM_TRAINED); j++)
            sum += (double)s.grads[j] * (double)s.grads[j];
    }
    assert_true(fabs(adamw_grad_norm(&s.adamw, s.grads) / sqrt(sum) - 1) < 1e-12);
    const Param *frozen = params_find(&s.params, "frozen"), *last = params_find(&s.params, "last");
    s.grads[frozen->at] = (real)NAN;
    assert_true(fabs(adamw_grad_norm(&s.adamw, s.grads) / sqrt(sum) - 1) < 1e-12);
    s.grads[last->at + last->n - 1] = (real)INFINITY;
    assert_true(!isfinite(adamw_grad_norm(&s.adamw, s.grads)));
    s.grads[last->at + last->n - 1] = (real)NAN;
    assert_true(!isfinite(adamw_grad_norm(&s.adamw, s.grads)));
    close_setup(&s);
}

/* Squares that leave float's range are summed in double. */
static void norm_does_not_overflow(void **state) {
    (void)state;
    Setup s;
    open_setup(&s);
    memset(s.grads, 0, s.params.total * sizeof *s.grads);
    assert_true(adamw_grad_norm(&s.adamw, s.grads) == 0);
    const Param *bias = params_find(&s.params, "bias");
    s.grads[bias->at] = REAL(3e30), s.grads[bias->at + 1] = REAL(4e30);
    assert_true(fabs(adamw_grad_norm(&s.adamw, s.grads) / 5e30 - 1) < 1e-6);
    close_setup(&s);
}

static void clipping(void **state) {
    (void)state;
    assert_true(clip_factor(123, 0) == 1);
    assert_true(clip_factor(0.5, 1) == 1);
    assert_true(fabs(clip_factor(4, 1) - 1 / (4 + 1e-6)) < 1e-15);
    assert_true(clip_factor(0, 1) == 1);
    assert_true(clip_factor(1, 1) < 1); /* as PyTorch: 1 / (1 + 1e-6) */
}

static const AdamwConf usual = {0.9, 0.999, 1e-8, 0.1};
static const double large = sizeof(real) == 8 ? 1e200 : 1e30; /* its square is not finite */

/* The vectors of which one value makes an update one that would not be finite. */
static void overflow_is_foreseen(void **state) {
    (void)state;
    for (int which = 0; which < 8; which++) {
        Setup s;
        open_setup(&s);
        real *const vectors[] = {s.grads, s.w, s.adamw.m, s.adamw.v};
        const Param *q = params_find(&s.params, which % 2 ? "last" : "decayed");
        vectors[which / 2][q->at + q->n - 1] = (real)(which < 2 ? large : INFINITY);
        real *was = mem_alloc(s.params.total, sizeof *was);
        memcpy(was, s.w, s.params.total * sizeof *was);
        assert_ptr_equal(adamw_overflow(&s.adamw, &usual, s.w, s.grads, 0.1, 1, 1), q);
        assert_memory_equal(was, s.w, s.params.total * sizeof *was);
        s.grads[0] = (real)large; /* of a parameter before it, if it is the last */
        assert_ptr_equal(adamw_overflow(&s.adamw, &usual, s.w, s.grads, 0.1, 1, 1),
                         params_find(&s.params, "decayed"));
        mem_free(was);
        close_setup(&s);
    }
}

/* Neither where clipping makes it small, nor of what does not train. */
static void overflow_is_not_imagined(void **state) {
    (void)state;
    Setup s;
    open_setup(&s);
    s.grads[params_find(&s.params, "frozen")->at] = (real)large;
    s.w[params_find(&s.params, "running")->at] = (real)INFINITY;
    assert_null(adamw_overflow(&s.adamw, &usual, s.w, s.grads, 0.1, 1, 1));
    s.grads[0] = (real)large;
    assert_null(adamw_overflow(&s.adamw, &usual, s.w, s.grads, 0.1, 1 / large, 1));
    adamw_update(&s.adamw, &usual, s.w, s.grads, 0.1, 1 / large, 1);
    assert_true(isfinite(s.w[0]) && isfinite(s.adamw.m[0]) && isfinite(s.adamw.v[0]));
    close_setup(&s);
}

static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    const AdamwConf conf = {0.9, 0.999, 1e-8, 0.1};
    static const int teams[] = {1, 2, 3, 8};
    real *first = NULL;
    double norm = 0;
    for (int t = 0; t < 4; t++) {
        Setup s;
        open_setup(&s);
        lanes_open(teams[t]);
        for (int step = 1; step <= 3; step++)
            adamw_update(&s.adamw, &conf, s.w, s.grads, 0.1, 1, step);
        const double own = adamw_grad_norm(&s.adamw, s.grads);
        const size_t bytes = s.params.total * sizeof *s.w;
        if (!first) {
            first = mem_alloc(bytes, 1);
            memcpy(first, s.w, bytes);
            norm = own;
        }
        assert_memory_equal(first, s.w, bytes);
        assert_true(norm == own);
        close_setup(&s);
    }
    mem_free(first);
    lanes_open(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_definition),
        cmocka_unit_test(leaves_alone_what_does_not_train),
        cmocka_unit_test(norm_is_over_trained_parameters),
        cmocka_unit_test(norm_does_not_overflow),
        cmocka_unit_test(clipping),
        cmocka_unit_test(overflow_is_foreseen),
        cmocka_unit_test(overflow_is_not_imagined),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
