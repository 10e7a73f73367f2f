#include "core/peak.h"

#include <string.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"

enum { REPEATS = 5, CHAIN = 300000 };
static const double enough_seconds = 0.1; /* clocks rise in less; a run's start waits for it */

typedef real Wide __attribute__((vector_size(64)));
typedef real Middle __attribute__((vector_size(32)));
typedef real Narrow __attribute__((vector_size(16)));

/* A value that the compiler can neither know nor drop: given x = 1 it would find 0.999 x + 0.001 =
 * 1 and leave that chain out. */
#define OPAQUE(x) __asm__ volatile("" : "+m"(x))

/* `chains` independent multiply-adds in flight, CHAIN times one after the other; returns flops. */
#define FMA_KERNEL(name, type, chains)                                                             \
    static double name(void) {                                                                     \
        type x[chains], scale = (type){0} + REAL(0.999), shift = (type){0} + REAL(0.001);          \
        for (int i = 0; i < (chains); i++) x[i] = (type){0} + (real)i;                             \
        OPAQUE(x);                                                                                 \
        OPAQUE(scale);                                                                             \
        OPAQUE(shift);                                                                             \
        for (int n = 0; n < CHAIN; n++) {                                                          \
            for (int i = 0; i < (chains); i++) x[i] = x[i] * scale + shift;                        \
        }                                                                                          \
        OPAQUE(x);                                                                                 \
        return 2.0 * CHAIN * (chains) * (double)(sizeof(type) / sizeof(real));                     \
    }

/* Vectors that the build has no registers for would be taken apart, and take 50 times as long. */
#ifdef __AVX512F__
FMA_KERNEL(wide_8, Wide, 8)
FMA_KERNEL(wide_12, Wide, 12)
FMA_KERNEL(wide_16, Wide, 16)
#endif
#ifdef __AVX__
FMA_KERNEL(middle_8, Middle, 8)
FMA_KERNEL(middle_12, Middle, 12)
#endif
FMA_KERNEL(narrow_12, Narrow, 12)

static double (*const kernels[])(void) = {
#ifdef __AVX512F__
    wide_8,    wide_12,   wide_16,
#endif
#ifdef __AVX__
    middle_8,  middle_12,
#endif
    narrow_12,
};

typedef struct Race {
    double (*kernel)(void);
    double *rate; /* (lanes) GFLOP/s of each */
    int *ran;     /* (threads there are) lanes that each had */
} Race;

static void run_kernel(void *ctx, int lane, int thread) {
    const Race *r = ctx;
    const double start = clock_own_seconds(), flops = r->kernel();
    r->rate[lane] = flops * 1e-9 / (clock_own_seconds() - start);
    r->ran[thread]++;
}

/* GFLOP/s of so many lanes; *at_once: none was run by a thread that had another before. */
static double race(Race *r, int lanes, bool *at_once) {
    double together = 0;
    memset(r->ran, 0, (size_t)lanes_threads() * sizeof *r->ran);
    lanes_run(lanes, run_kernel, r);
    for (int i = 0; i < lanes; i++) together += r->rate[i];
    *at_once = true;
    for (int i = 0; i < lanes_threads(); i++) *at_once = *at_once && r->ran[i] < 2;
    return together;
}

/* More threads than processors reach no higher, and with thousands of them it takes minutes. */
static int most_at_once(int threads) {
    const int processors = lanes_processors();
    return threads < processors ? threads : processors;
}

double peak_gflops(int threads) {
    const double start = clock_seconds();
    double best = 0, in_turns = 0;
    threads = most_at_once(threads);
    Race r = {.rate = mem_alloc((size_t)threads, sizeof *r.rate),
              .ran = mem_alloc((size_t)lanes_threads(), sizeof *r.ran)};
    do {
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            bool at_once;
            r.kernel = kernels[k];
            const double together = race(&r, threads, &at_once);
            double *most = at_once ? &best : &in_turns;
            if (together > *most) *most = together;
        }
    } while (clock_seconds() - start < enough_seconds);
    mem_free(r.rate);
    mem_free(r.ran);
    return best > 0 ? best : in_turns;
}

/* ---- products, memory ---- */

/* The best of a few runs in `reals` of memory for each thread, of `work` each; without the first,
 * which touches the pages. */
static double best_rate(int threads, LaneJob *job, size_t reals, double work) {
    Arena a;
    Err err;
    double best = 0;
    threads = most_at_once(threads);
    if (!mem_fits((size_t)threads * reals * sizeof(real), &err)) return 0;
    if (!arena_open(&a, (size_t)threads * reals * sizeof(real), &err)) return 0;
    for (int i = 0; i <= 2 * REPEATS; i++) {
        const double t = clock_seconds();
        lanes_run(threads, job, a.base);
        const double rate = threads * work / (clock_seconds() - t);
        if (i > 0 && rate > best) best = rate;
    }
    arena_close(&a);
    return best;
}

enum { ROWS = 64, SIDE = 128, PRODUCTS = 400, GEMM_REALS = 2 * ROWS * SIDE + SIDE * SIDE };

static void run_products(void *ctx, int lane, int thread) {
    real *a = (real *)ctx + (size_t)lane * GEMM_REALS, *b = a + ROWS * SIDE, *c = b + SIDE * SIDE;
    for (int i = 0; i < PRODUCTS; i++) gemm_nn(c, SIDE, a, SIDE, b, SIDE, ROWS, SIDE, SIDE, false);
}

double peak_gemm_gflops(int threads) {
    return best_rate(threads, run_products, GEMM_REALS, 2e-9 * PRODUCTS * ROWS * SIDE * SIDE);
}

enum { STREAM_REALS = 16 << 20 };

static void run_stream(void *ctx, int lane, int thread) {
    real *restrict y = (real *)ctx + (size_t)lane * 2 * STREAM_REALS, *restrict x =
                                                                          y + STREAM_REALS;
#pragma omp simd
    for (int i = 0; i < STREAM_REALS; i++) y[i] += REAL(0.5) * x[i];
}

double peak_bandwidth(int threads) {
    return best_rate(threads, run_stream, 2 * STREAM_REALS, 3e-9 * STREAM_REALS * sizeof(real));
}
