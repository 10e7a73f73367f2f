#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem.h"

/* Else the sanitizer ends the program before mem_alloc can say that memory ran out. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* The exit status of job() in a process of its own, without its messages. */
static int status_of(void (*job)(void)) {
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        job();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void alloc_is_zeroed(void **state) {
    (void)state;
    unsigned char *p = mem_alloc(1000, 3);
    for (int i = 0; i < 3000; i++) assert_int_equal(p[i], 0);
    mem_free(p);
    void *nothing = mem_alloc(0, 8);
    assert_non_null(nothing);
    mem_free(nothing);
}

static void grow_keeps(void **state) {
    (void)state;
    int *p = mem_grow(NULL, 3, sizeof *p);
    for (int i = 0; i < 3; i++) p[i] = i;
    p = mem_grow(p, 100000, sizeof *p);
    for (int i = 0; i < 3; i++) assert_int_equal(p[i], i);
    mem_free(p);
    char *s = mem_strdup("text");
    assert_string_equal(s, "text");
    mem_free(s);
}

static void alloc_too_much(void) { mem_free(mem_alloc(SIZE_MAX / 2, 4)); }
static void grow_too_much(void) { mem_free(mem_grow(NULL, SIZE_MAX / 2, 4)); }

static void out_of_memory_exits(void **state) {
    (void)state;
    assert_int_equal(status_of(alloc_too_much), EX_OSERR);
    assert_int_equal(status_of(grow_too_much), EX_OSERR);
}

static void take_some(Arena *a, void *p[4]) {
    p[0] = arena_reals(a, 1);
    p[1] = arena_take(a, 0, 8);
    p[2] = arena_ints(a, 17);
    p[3] = arena_take(a, 65, 1);
}

static void arena_measures_then_places(void **state) {
    (void)state;
    Arena plan = {0}, a;
    Err err;
    void *p[4];
    take_some(&plan, p);
    for (int i = 0; i < 4; i++) assert_null(p[i]);
    assert_true(plan.used >= 64 + 0 + 128 + 128);
    assert_true(arena_open(&a, plan.used, &err));
    take_some(&a, p);
    assert_int_equal(a.used, plan.used);
    for (int i = 0; i < 4; i++) assert_int_equal((uintptr_t)p[i] % 64, 0);
    for (size_t i = 0; i < a.used; i++) assert_int_equal(a.base[i], 0);
    memset(a.base, 1, a.used);
    arena_close(&a);
    assert_null(a.base);
    arena_close(&a);
}

static void arena_errors(void **state) {
    (void)state;
    Arena a;
    Err err;
    assert_false(arena_open(&a, SIZE_MAX, &err));
    assert_int_equal(err.code, EX_OSERR);
    assert_false(arena_open(&a, SIZE_MAX / 4, &err));
    assert_int_equal(err.code, EX_OSERR);
    assert_non_null(strstr(err.text, "GB"));
    assert_true(arena_open(&a, 0, &err));
    assert_non_null(a.base);
    arena_close(&a);
}

static void overrun_arena(void) {
    Arena a;
    Err err;
    if (arena_open(&a, 64, &err)) arena_take(&a, 65, 1);
}

static void broken_promises_exit(void **state) {
    (void)state;
    assert_int_equal(status_of(overrun_arena), EX_SOFTWARE);
}

/* A config may ask for more than there are addresses. */
static void measures_without_end(void **state) {
    (void)state;
    Arena a = {0};
    Err err;
    arena_take(&a, SIZE_MAX / 2, 3);
    assert_true(a.used == SIZE_MAX);
    arena_take(&a, 1, 1);
    assert_true(a.used == SIZE_MAX);
    assert_true(size_sum(a.used, 1) == SIZE_MAX && size_sum(2, 3) == 5);
    assert_false(arena_open(&a, a.used, &err));
    assert_int_equal(err.code, EX_OSERR);
}

static void sizes_are_checked(void **state) {
    (void)state;
    size_t n = 5;
    assert_false(size_mul(SIZE_MAX / 2, 3, &n));
    assert_false(size_add(SIZE_MAX, 1, &n));
    assert_int_equal(n, 5);
    assert_true(size_mul(6, 7, &n));
    assert_int_equal(n, 42);
    assert_true(size_add(n, 1, &n));
    assert_int_equal(n, 43);
}

static void report_and_exit(void) {
    Err err;
    err_set(&err, EX_IOERR, "%s: no", "x");
    _exit(err_report("program", &err));
}

static void errors_are_reported(void **state) {
    (void)state;
    assert_int_equal(status_of(report_and_exit), EX_IOERR);
}

static void errors_are_cut_and_masked(void **state) {
    (void)state;
    Err err;
    char text[3000];
    assert_false(err_set(&err, EX_DATAERR, "%s: %d", "a\033[2J\r\x7f", 7));
    assert_string_equal(err.text, "a?[2J??: 7");
    err_set(&err, EX_DATAERR, "%s",
            "\xc2\x9b"
            "2J\xc2\xa0\xc3\xa9\x9b\xe2\x82");
    assert_string_equal(err.text, "?2J\xc2\xa0\xc3\xa9???");
    err_set(&err, EX_DATAERR, "%s: %d", "a\033[2J\r\x7f", 7);
    assert_false(err_set(&err, EX_CONFIG, "while reading: %s", err.text));
    assert_string_equal(err.text, "while reading: a?[2J??: 7");
    assert_int_equal(err.code, EX_CONFIG);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    err_set(&err, EX_CONFIG, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.text + sizeof err.text - 5, "x...");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_is_zeroed),      cmocka_unit_test(grow_keeps),
        cmocka_unit_test(out_of_memory_exits),  cmocka_unit_test(arena_measures_then_places),
        cmocka_unit_test(arena_errors),         cmocka_unit_test(broken_promises_exit),
        cmocka_unit_test(measures_without_end), cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(errors_are_reported),  cmocka_unit_test(errors_are_cut_and_masked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
