#define _DEFAULT_SOURCE /* syscall */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/err.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "core/narrow.h"
#include "draws.h"

typedef enum Form { NN, NT, TN } Form;
typedef void Gemm(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N,
                  int K, bool add);
static Gemm *const gemms[] = {gemm_nn, gemm_nt, gemm_tn};
static const char *const names[] = {"nn", "nt", "tn"};

typedef struct Matrix {
    real *x;
    int rows, cols, ld;
} Matrix;

/* No more memory than the last row needs, and NaN between the rows. */
static Matrix draw_matrix(Draws *d, int rows, int cols) {
    Matrix m = {NULL, rows, cols, cols + draw_int(d, 0, 1) * draw_int(d, 1, 9)};
    const size_t n = (size_t)(rows - 1) * (size_t)m.ld + (size_t)cols;
    m.x = malloc(n * sizeof *m.x);
    if (!m.x) abort();
    draw_normals(d, m.x, n, 0, 1);
    for (size_t i = 0; i < n; i++)
        if (i % (size_t)m.ld >= (size_t)cols) m.x[i] = (real)NAN;
    return m;
}

static double at(const Matrix *m, int row, int col) { return (double)m->x[row * m->ld + col]; }

static double element(Form f, const Matrix *a, const Matrix *b, int i, int j, int k) {
    double x = f == TN ? at(a, k, i) : at(a, i, k);
    return x * (f == NT ? at(b, j, k) : at(b, k, j));
}

/* Rounding of K products in any order stays below K eps times their absolute sum. */
static void check_result(Form f, const Matrix *c, const Matrix *before, const Matrix *a,
                         const Matrix *b, int K, bool add) {
    const double eps = sizeof(real) == 8 ? 0x1p-52 : 0x1p-23;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->cols; j++) {
            double sum = add ? at(before, i, j) : 0, size = fabs(sum);
            for (int k = 0; k < K; k++) {
                const double term = element(f, a, b, i, j, k);
                sum += term;
                size += fabs(term);
            }
            if (!(fabs(at(c, i, j) - sum) <= (K + 2) * eps * size))
                fail_msg("%s (%d,%d,%d) strides %d %d %d add %d: C[%d,%d] is %.9g, not %.9g",
                         names[f], c->rows, c->cols, K, a->ld, b->ld, c->ld, add, i, j, at(c, i, j),
                         sum);
        }
    for (int i = 0; i + 1 < c->rows; i++)
        for (int j = c->cols; j < c->ld; j++) assert_true(isnan(c->x[i * c->ld + j]));
}

static void check_by(Gemm *gemm, Form f, Draws *d, int M, int N, int K, bool add) {
    Matrix a = f == TN ? draw_matrix(d, K, M) : draw_matrix(d, M, K);
    Matrix b = f == NT ? draw_matrix(d, N, K) : draw_matrix(d, K, N);
    Matrix c = draw_matrix(d, M, N), before = c;
    const size_t bytes = ((size_t)(M - 1) * (size_t)c.ld + (size_t)N) * sizeof *c.x;
    before.x = malloc(bytes);
    if (!before.x) abort();
    memcpy(before.x, c.x, bytes);
    /* What C held must not matter, not even NaN times 0. */
    for (int i = 0; i < M && !add; i++)
        for (int j = 0; j < N; j++) c.x[i * c.ld + j] = (real)NAN;
    gemm(c.x, c.ld, a.x, a.ld, b.x, b.ld, M, N, K, add);
    check_result(f, &c, &before, &a, &b, K, add);
    free(a.x), free(b.x), free(c.x), free(before.x);
}

static void check(Form f, Draws *d, int M, int N, int K, bool add) {
    check_by(gemms[f], f, d, M, N, K, add);
}

static void random_shapes(void **state) {
    (void)state;
    Draws d = draws_open("gemm", 1);
    for (int i = 0; i < 300; i++) {
        const int M = draw_size(&d, 70), N = draw_size(&d, 70), K = draw_size(&d, 70);
        for (int f = 0; f < 3; f++) check((Form)f, &d, M, N, K, i % 2);
    }
}

/* Around the blocks that a dimension is cut into, and beyond the sizes that libxsmm takes. */
static void block_borders(void **state) {
    (void)state;
    Draws d = draws_open("gemm", 2);
    static const int sizes[] = {1,   15,  16,  17,  63,  64,  65,  127,
                                128, 129, 255, 256, 257, 300, 511, 513};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int f = 0; f < 3; f++) {
            const int n = sizes[i], small = draw_size(&d, 20), other = draw_size(&d, 20);
            check((Form)f, &d, n, small, other, i % 2);
            check((Form)f, &d, small, n, other, (i + 1) % 2);
            check((Form)f, &d, small, other, n, i % 2);
        }
    for (int f = 0; f < 3; f++) {
        check((Form)f, &d, 3, 1025, 5, f % 2);
        check((Form)f, &d, 1025, 2, 3, f % 2);
        check((Form)f, &d, 2, 3, 1030, f % 2);
        check((Form)f, &d, 128, 128, 128, f % 2);
    }
}

/* Kernels for as few as a vector of AVX2 has, or two, here whatever the processor. */
static void few_columns(void **state) {
    (void)state;
    Draws d = draws_open("gemm", 3);
    for (int wide = 1; wide <= 2; wide++)
        for (int M = 1; M <= 33; M++)
            for (int f = 0; f < 4; f++) {
                const int N = wide * 32 / (int)sizeof(real), K = draw_size(&d, 40);
                check_by(f / 2 ? narrow_tn : narrow_nn, f / 2 ? TN : NN, &d, M, N, K, f % 2);
            }
}

static void describes_itself(void **state) {
    (void)state;
    const char *kernels = gemm_kernels(), *all = gemm_describe();
    const char *flavour = strstr(all, "openmp ");
    if (!flavour) flavour = strstr(all, "pthread ");
    if (!flavour) flavour = strstr(all, "serial ");
    assert_int_equal(strncmp(all, "OpenBLAS ", 9), 0);
    assert_non_null(flavour);
    /* The same but for that word. */
    const size_t before = (size_t)(flavour - all);
    assert_memory_equal(kernels, all, before);
    assert_string_equal(kernels + before, strchr(flavour, ' ') + 1);
}

/* ---- a full address space ---- */

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && !defined __clang__
/* Of what this process has mapped, and so much more. */
static void limit_room(size_t more) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) _exit(1);
    fclose(f);
    const size_t bytes = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) != 0) _exit(1);
}

/* Of a shape that no other test has: whether each element is the sum of K ones. */
static bool multiplies(void) {
    enum { M = 77, N = 61, K = 53 };
    static real a[M * K], b[K * N], c[M * N];
    bool ok = true;
    for (int i = 0; i < M * K; i++) a[i] = 1;
    for (int i = 0; i < K * N; i++) b[i] = 1;
    gemm_nn(c, N, a, K, b, N, M, N, K, false);
    for (int i = 0; i < M * N; i++) ok = ok && c[i] == K;
    return ok;
}

static void starts_without_room(void) {
    limit_room(1 << 20);
    gemm_open();
    _exit(multiplies() && strstr(gemm_describe(), " + libxsmm") == NULL ? 0 : 1);
}

static void loses_its_room(void) {
    const bool kernels = strstr(gemm_describe(), " + libxsmm") != NULL;
    limit_room(0);
    _exit(multiplies() && !kernels ? EX_OSERR : 0);
}

static int status_of(void (*job)(void)) {
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        job();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Without room for kernels OpenBLAS computes; where it is gone later, other bits are not an option.
 */
static void full_address_space(void **state) {
    (void)state;
    assert_int_equal(status_of(starts_without_room), 0);
    assert_int_equal(status_of(loses_its_room), EX_OSERR);
}
#else
static void full_address_space(void **state) {
    (void)state;
    skip(); /* sanitizers map what they want */
}
#endif

static bool clean;
static int open_gemm(void **state) {
    (void)state;
    unsetenv("OMP_PROC_BIND");
    lanes_open(1);
    gemm_open();
    clean = !getenv("OMP_PROC_BIND");
    return 0;
}

/* Counts the mappings of this program; sanitizers have one in front of it. */
static _Thread_local int mappings;
#ifndef SANITIZED
void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    mappings++;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}
#endif

static void multiply_shapes(real *c, const real *a, const real *b) {
    for (int n = 1; n <= 25; n++)
        for (int k = 16; k <= 256; k += 16) gemm_nn(c, n, a, k, b, n, 8, n, k, false);
}

/* A model of many lengths has some hundred shapes; to make room for a kernel takes system calls. */
static void kernels_are_remembered(void **state) {
    enum { MOST = 256 };
    static real a[8 * MOST], b[MOST * 25], c[8 * 25];
    (void)state;
    multiply_shapes(c, a, b);
    const int before = mappings;
    multiply_shapes(c, a, b);
    assert_int_equal(mappings, before);
}

/* What libraries say of threads' places is not for the processes that we start. */
static void environment_is_left_alone(void **state) {
    (void)state;
    assert_true(clean);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_is_left_alone),
        cmocka_unit_test(kernels_are_remembered), /* before others fill their table */
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(block_borders),
        cmocka_unit_test(few_columns),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(full_address_space),
    };
    return cmocka_run_group_tests(tests, open_gemm, NULL);
}
