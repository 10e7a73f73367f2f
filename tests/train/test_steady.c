/* After the first update nothing asks for memory: an update allocates nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "train/small.h"
#include "train/update.h"

/* The C library's own, behind ours: these count, from all libraries of the program. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t size);

#ifdef __has_feature
#define FEATURE(name) __has_feature(name)
#else
#define FEATURE(name) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || FEATURE(address_sanitizer) ||   \
    FEATURE(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static long allocations;

#if !SANITIZED
void *malloc(size_t size) {
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, size);
}
void *realloc(void *p, size_t size) {
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, size);
}
#endif

typedef struct Run {
    Config c;
    Loader f;
    Engine e;
    State s;
    Arena a;
    real *grads;
} Run;

static void layout(Run *r) {
    state_layout(&r->s, &r->a, &r->c.model.params, r->c.train.ema > 0);
    r->grads = arena_reals(&r->a, r->c.model.params.total);
    loader_layout(&r->f, &r->a);
}

static void make_update(Run *r, int64_t number) {
    Update u = {&r->c.train, &r->f, &r->e, &r->s, r->grads, number};
    u.lr = 1e-3;
    assert_true(update_gradients(&u));
    assert_true(update_is_finite(&u));
    update_commit(&u);
    engine_weights(&r->e, r->s.w);
}

static void run(const char *train, bool pairs) {
    Run r = {0};
    Err err;
    small_data(12, 5, 5, pairs);
    small_config(&r.c, train, pairs);
    assert_true(loader_open(&r.f, &r.c, &err));
    layout(&r);
    assert_true(arena_open(&r.a, r.a.used, &err));
    layout(&r);
    params_init(&r.c.model.params, r.s.w, 1);
    assert_true(engine_open(&r.e, &r.c.model, r.c.train.batch, r.c.train.lanes, true, &err));
    engine_weights(&r.e, r.s.w);
    /* The same documents twice: libraries make their kernels when they first see a shape. */
    const int64_t updates = loader_updates_per_epoch(&r.f);
    long before = 0;
    for (int pass = 0; pass < 2; pass++) {
        before = allocations;
        for (int64_t i = 1; i <= updates; i++) make_update(&r, i);
    }
    assert_int_equal(allocations - before, 0);
    assert_true(allocations > 0);
    engine_close(&r.e);
    arena_close(&r.a);
    loader_close(&r.f);
    config_free(&r.c);
}

static void test_single(void **state) {
    (void)state;
    run("\"batch\":4", false);
    run("\"batch\":3,\"accumulate\":2,\"clip\":1", false);
    run("\"batch\":4,\"ema\":0.9,\"label_smoothing\":0.1", false);
    run("\"batch\":4,\"objective\":\"masked\"", false);
}

static void test_pairs(void **state) {
    (void)state;
    run("\"batch\":4", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_single), cmocka_unit_test(test_pairs)};
    if (SANITIZED) {
        puts("ok 1 - updates # SKIP sanitizers have a malloc of their own");
        return 0;
    }
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
