/* Two libraries and a few kernels of our own (core/narrow.h), one rule. libxsmm generates a kernel
 * for a shape the first time that it is asked for; measured on an AVX-512 machine these run at 95
 * to 99 % of the FMA peak where OpenBLAS reaches 60 to 95 %. To keep their number small whatever
 * the lengths of the sequences, the dimensions that follow the tokens (M and K) are cut into whole
 * blocks and powers of two. libxsmm has no kernel for nt: callers on the hot path keep transposed
 * copies and use nn.
 *
 * A kernel lies in memory that was writable and becomes executable, which some processes may not
 * have (systemd's MemoryDenyWriteExecute, for one). libxsmm does not look whether it got it, and
 * its kernel then ends the program: so that is tried here before.
 *
 * OpenBLAS comes in two flavours. The pthread one is told to use one thread. The OpenMP one asks
 * OpenMP in each thread, which says one (core/team.h). */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "core/gemm.h"

#include <cblas.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_XSMM
#include <libxsmm.h>
#include <sys/mman.h>
#endif

#include "core/err.h"
#include "core/log.h"
#include "core/narrow.h"

#ifdef REAL_DOUBLE
#define CBLAS_GEMM cblas_dgemm
#define XSMM_KERNEL libxsmm_dmmfunction
#define XSMM_DISPATCH libxsmm_dmmdispatch
#else
#define CBLAS_GEMM cblas_sgemm
#define XSMM_KERNEL libxsmm_smmfunction
#define XSMM_DISPATCH libxsmm_smmdispatch
#endif

enum { PTHREAD_FLAVOUR = 1 };

#ifdef HAVE_XSMM
static bool xsmm_works;

/* What libxsmm maps when it starts, and for a kernel, with room to spare. */
enum { XSMM_BYTES = 64 << 20, KERNEL_BYTES = 1 << 18 };

/* As libxsmm gets memory for a kernel. False and errno: the process may not, or has no room. */
static bool may_execute(size_t bytes) {
    void *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    const bool ok = mprotect(p, bytes, PROT_READ | PROT_EXEC) == 0;
    const int why = errno;
    munmap(p, bytes);
    errno = why;
    return ok;
}

/* Row-major C = op(A) B is column-major C^T = B^T op(A)^T: libxsmm's first matrix is our B, its m
 * our N. */
static XSMM_KERNEL generate(int M, int N, int K, int lda, int ldb, int ldc, bool a_transposed,
                            bool add, bool there) {
    const int flags = a_transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const real one = 1, beta = add ? 1 : 0;
    if (!there && !may_execute(KERNEL_BYTES)) { /* OpenBLAS from here on would give other bits */
        fprintf(stderr, "out of memory: no room for a kernel of libxsmm: %s\n", strerror(errno));
        _Exit(EX_OSERR); /* on any thread: see require_failed */
    }
    return XSMM_DISPATCH(N, M, K, &ldb, &lda, &ldc, &one, &beta, &flags, NULL);
}

/* libxsmm_init puts OMP_PROC_BIND=TRUE into the environment, too late for OpenMP here, and in time
 * for that of the processes that we start: all of them would bind to the first processors. */
static void init_xsmm(void) {
    const bool ours = getenv("OMP_PROC_BIND") != NULL;
    libxsmm_init();
    if (!ours) unsetenv("OMP_PROC_BIND");
}

static void open_xsmm(void) {
    enum { SIDE = 16 };
    const char *why = may_execute(XSMM_BYTES) ? NULL : strerror(errno);
    if (!why) init_xsmm();
    xsmm_works = !why && generate(SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, false, false, false);
    if (xsmm_works) return;
    log_warn("libxsmm is left out: %s%s. OpenBLAS computes its products: slower, and with other "
             "bits than with libxsmm",
             why ? "no memory that is writable and executable: " : "it makes no kernels here",
             why ? why : "");
}
#else
static const bool xsmm_works = false;
static void open_xsmm(void) {}
#endif

/* An OpenBLAS that is older than the processor takes it for one with vectors of 16 bytes. */
static void check_openblas(void) {
#ifdef __AVX512F__
    const char *better = "SkylakeX";
#elif defined __AVX2__
    const char *better = "Haswell";
#else
    const char *better = NULL;
#endif
    if (!better || xsmm_works || strcmp(openblas_get_corename(), "Prescott") != 0) return;
    log_warn("OpenBLAS does not know this processor and takes it for a Prescott: its products are "
             "slow. OPENBLAS_CORETYPE=%s in the environment says better, and gives other bits",
             better);
}

void gemm_open(void) {
    if (openblas_get_parallel() == PTHREAD_FLAVOUR) openblas_set_num_threads(1);
    open_xsmm();
    check_openblas();
}

enum { DESCRIBED = 256 };

/* flavour: with a space behind it. */
static const char *describe(char text[DESCRIBED], const char *flavour) {
    char version[64];
    if (sscanf(openblas_get_config(), "OpenBLAS %63s", version) != 1)
        snprintf(version, sizeof version, "?");
    snprintf(text, DESCRIBED, "OpenBLAS %s %s%s", version, flavour, openblas_get_corename());
#ifdef HAVE_XSMM
    if (xsmm_works)
        format_add(text, DESCRIBED, " + libxsmm " LIBXSMM_VERSION " %s", libxsmm_get_target_arch());
    else
        format_add(text, DESCRIBED, ", without libxsmm " LIBXSMM_VERSION);
#endif
    return text;
}

const char *gemm_describe(void) {
    static char text[DESCRIBED];
    const char *flavours[] = {"serial ", "pthread ", "openmp "};
    const int flavour = openblas_get_parallel();
    return describe(text, flavour >= 0 && flavour < 3 ? flavours[flavour] : "? ");
}

const char *gemm_kernels(void) {
    static char text[DESCRIBED];
    return describe(text, "");
}

static void blas(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, real *C, int ldc, const real *A, int lda,
                 const real *B, int ldb, int M, int N, int K, bool add) {
    CBLAS_GEMM(CblasRowMajor, ta, tb, M, N, K, 1, A, lda, B, ldb, add ? 1 : 0, C, ldc);
}

#ifdef HAVE_XSMM
enum { MAX_SIDE = 1024, ROW_BLOCK = 128, DEPTH_BLOCK = 256 };

/* Rows of both matrices that a product of tn goes through at a time. A first cache of 32 KB must
 * hold them: rows are mostly a power of two apart, and crowd into a few of its places. On a Zen 3
 * gradients of weights (128,128) and (64,64) take 1.4 times as long at 256 rows. Processors with
 * AVX-512 have larger caches, and a build for them is left as it was. */
static int depth_block(int lda, int ldb) {
    int b = DEPTH_BLOCK;
#ifndef __AVX512F__
    enum { FIRST_CACHE = 32768 / sizeof(real), LEAST = 32 };
    while (b > LEAST && lda + ldb > FIRST_CACHE / b) b /= 2;
#endif
    return b;
}

static uint64_t pair(int high, int low) { return (uint64_t)(unsigned)high << 32 | (unsigned)low; }

typedef struct Kernel {
    uint64_t shape[3];
    XSMM_KERNEL f;
    bool known; /* f may be NULL: there is none for the shape */
} Kernel;

static uint64_t hash_of(const uint64_t shape[3]) {
    return shape[0] * 0x9E3779B97F4A7C15u + shape[1] * 0xC2B2AE3D27D4EB4Fu +
           shape[2] * 0x165667B19E3779F9u;
}

/* Of kernels that a thread has had libxsmm make, which keeps them for all: hashes at their upper
 * bits, the later in the place of the earlier. */
static _Atomic uint64_t made[1 << 14];
static _Atomic uint64_t *place_in_made(uint64_t hash) { return &made[hash >> 50]; }

/* The place of a shape in a table of SLOTS: its own or one of the next ones, of the first that is
 * free; where all are taken, its own. */
enum { SLOTS = 1024, PROBES = 16 };
static Kernel *find_kernel(Kernel *table, const uint64_t shape[3], uint64_t hash) {
    _Static_assert(SLOTS == 1 << 10, "home is the upper 10 bits");
    const size_t home = hash >> 54;
    for (size_t i = 0; i < PROBES; i++) {
        Kernel *k = &table[(home + i) % SLOTS];
        if (!k->known ||
            (k->shape[0] == shape[0] && k->shape[1] == shape[1] && k->shape[2] == shape[2]))
            return k;
    }
    table[home].known = false;
    return &table[home];
}

/* Every thread remembers its kernels: libxsmm's own registry costs as much as the smallest
 * products, and what makes one, system calls in which all threads wait for each other. K is at most
 * MAX_SIDE. */
static XSMM_KERNEL kernel(int M, int N, int K, int lda, int ldb, int ldc, bool a_transposed,
                          bool add) {
    static _Thread_local Kernel table[SLOTS];
    const uint64_t shape[] = {pair(M, N), pair(4 * K + 2 * add + a_transposed, lda),
                              pair(ldb, ldc)};
    const uint64_t hash = hash_of(shape);
    Kernel *k = find_kernel(table, shape, hash);
    if (k->known) return k->f;
    const bool there = *place_in_made(hash) == hash;
    *k = (Kernel){{shape[0], shape[1], shape[2]},
                  generate(M, N, K, lda, ldb, ldc, a_transposed, add, there),
                  true};
    *place_in_made(hash) = hash;
    return k->f;
}

/* The next block of a dimension with `left` to go: whole blocks, then powers of two. */
static int block(int left, int whole) {
    int b = whole;
    while (b > left) b /= 2;
    return b;
}

/* The next part of a dimension that is mostly a few sizes and multiples of 16, but may be what is
 * left of a sequence: all of its 16s, then powers of two. */
static int part(int left) { return left >= 16 ? left / 16 * 16 : block(left, 8); }

static bool xsmm(bool tn, real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M,
                 int N, int K, bool add) {
    if (!xsmm_works || N > MAX_SIDE || (tn ? M : K) > MAX_SIDE) return false;
    const int depth = depth_block(lda, ldb);
    for (int m = 0, rows; m < M; m += rows) {
        rows = tn ? part(M - m) : block(M - m, ROW_BLOCK);
        for (int k = 0, terms; k < K; k += terms) {
            terms = tn ? block(K - k, depth) : part(K - k);
            XSMM_KERNEL f = kernel(rows, N, terms, lda, ldb, ldc, tn, add || k > 0);
            if (!f && m + k == 0) return false; /* by shape alone: at the first block or never */
            REQUIRE(f, "no kernel for a block after the first");
            const size_t at =
                tn ? (size_t)k * (size_t)lda + (size_t)m : (size_t)m * (size_t)lda + (size_t)k;
            f(B + (size_t)k * (size_t)ldb, A + at, C + (size_t)m * (size_t)ldc);
        }
    }
    return true;
}
#else
static bool xsmm(bool tn, real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M,
                 int N, int K, bool add) {
    return false;
}
#endif

void gemm_nn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N, int K,
             bool add) {
    if (narrow_takes(N))
        narrow_nn(C, ldc, A, lda, B, ldb, M, N, K, add);
    else if (!xsmm(false, C, ldc, A, lda, B, ldb, M, N, K, add))
        blas(CblasNoTrans, CblasNoTrans, C, ldc, A, lda, B, ldb, M, N, K, add);
}

void gemm_nt(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N, int K,
             bool add) {
    blas(CblasNoTrans, CblasTrans, C, ldc, A, lda, B, ldb, M, N, K, add);
}

void gemm_tn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N, int K,
             bool add) {
    if (narrow_takes(N))
        narrow_tn(C, ldc, A, lda, B, ldb, M, N, K, add);
    else if (!xsmm(true, C, ldc, A, lda, B, ldb, M, N, K, add))
        blas(CblasTrans, CblasNoTrans, C, ldc, A, lda, B, ldb, M, N, K, add);
}
