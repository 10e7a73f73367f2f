/* A step allocates nothing: this program's malloc counts. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "sublayer.h"
#include "tiny.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static int allocations;

#if !defined SANITIZED && defined __GLIBC__ /* sanitizers have a malloc of their own */
/* Not what OpenBLAS does inside: some of its kernels for small products allocate and free. */
static void count(void *caller) {
    Dl_info from;
    if (dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, "openblas")) return;
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    count(__builtin_return_address(0));
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t size) {
    count(__builtin_return_address(0));
    return __libc_realloc(p, size);
}
void *aligned_alloc(size_t align, size_t size) {
    count(__builtin_return_address(0));
    return __libc_memalign(align, size);
}
int posix_memalign(void **p, size_t align, size_t size) {
    count(__builtin_return_address(0));
    *p = __libc_memalign(align, size);
    return *p ? 0 : 12;
}
#define COUNTS 1
#else
#define COUNTS 0
#endif

static const char *const norms[] = {"layer", "scale", "batch"};

static void check(const char *attention, int i) {
    Tiny t;
    TinyConf conf = {.attention = attention, .norm = norms[i % 3], .B = 6, .heads = 2};
    conf.max_length = 150, conf.d_emb = 7, conf.dropout = i % 2 ? 0.1 : 0;
    conf.per_example = 1 + i % 2;
    Err err;
    Engine e;
    tiny_open(&t, conf, draws_open("allocation", (uint64_t)i));
    assert_true(engine_open(&e, &t.m, t.B, 4, true, &err));
    tiny_step(&t, &e, 1); /* the libraries' own memory: threads, kernels */
    engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
    const int before = allocations;
    for (int n = 0; n < 3; n++) {
        for (int b = 0; b < t.B; b++) /* other lengths than before */
            for (int j = 0; j < conf.per_example; j++)
                t.samples[b].length[j] = 1 + (t.samples[b].length[j] + 37) % 150;
        tiny_step(&t, &e, 1);
        engine_commit(&e, t.w);
        engine_evaluate(&e, t.samples, t.B, &t.out, NULL);
    }
    if (allocations != before)
        fail_msg("%s, %s norm: %d allocations", attention, norms[i % 3], allocations - before);
    engine_close(&e);
    tiny_close(&t);
}

static void step_allocates_nothing(void **state) {
    (void)state;
    if (!COUNTS) skip();
    free(malloc(1));
    assert_true(allocations > 0);
    for (int i = 0; attn_table[i]; i++)
        for (int j = 0; j < 6; j++) {
            char attention[MECH_TEXT];
            const int variants = mech_variants(attn_table[i]);
            mech_print(attention, attn_table[i], variants - 1 - j % variants, (MechSizes){3, 9});
            check(attention, j);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(step_allocates_nothing)};
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
