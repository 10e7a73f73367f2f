/* Matrix products, row-major, each on the calling thread alone (several threads may call at once).
 *
 * OpenBLAS computes what others do not: libxsmm, where it was found at build time and may make
 * kernels, takes the blocks that suit it, and core/narrow.h products of few columns. Which one
 * computes a product depends on its shape alone, so results do not depend on the number of threads.
 * Where memory for a kernel runs out on the way the program ends (EX_OSERR), as any other library
 * would give other bits from there on. */
#ifndef CORE_GEMM_H
#define CORE_GEMM_H

#include <stdbool.h>

#include "core/real.h"

/* Once, before the first product: pins the BLAS to one thread per call (see gemm.c for the two
 * flavours), and warns where this process may not have libxsmm's kernels. */
void gemm_open(void);
/* "OpenBLAS 0.3.21 openmp SkylakeX + libxsmm 1.17 cpx", or ", without libxsmm 1.17": for banners
 * and env.json. */
const char *gemm_describe(void);
/* The same without OpenBLAS's flavour, on which no bit depends: what else computes other bits. */
const char *gemm_kernels(void);

/* C (M,N) = A B, or C += A B with `add`; M, N, K > 0. ld* are row strides in elements.
 *   nn: A (M,K), B (K,N)
 *   nt: A (M,K), B (N,K), used as B^T
 *   tn: A (K,M), used as A^T, B (K,N) */
void gemm_nn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N, int K,
             bool add);
void gemm_nt(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N, int K,
             bool add);
void gemm_tn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N, int K,
             bool add);

#endif
