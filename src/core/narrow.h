/* Products with as many columns as one vector of AVX2 has, or two: outputs and gradients of heads
 * that are 8 or 16 wide. There libxsmm's kernels of AVX2 wait for their sums: of 8 columns they run
 * at 38 to 52 % of the FMA peak on a Zen 3, of 16 at 75 to 81 %, and these at 76 to 78 and 79 to 98
 * %. Its kernels of AVX-512 fill half of their vectors with 8 columns: on a Zen 4 they run at 48 to
 * 50 %, and these at 78 to 85. Of 16 they are left as they are. */
#ifndef CORE_NARROW_H
#define CORE_NARROW_H

#include <stdbool.h>

#include "core/real.h"

bool narrow_takes(int N);

/* As gemm_nn and gemm_tn, of an N that is taken; a sum's terms are added in the order of k. */
void narrow_nn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N,
               int K, bool add);
void narrow_tn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N,
               int K, bool add);

#endif
