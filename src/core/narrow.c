#include "core/narrow.h"

#include <stddef.h>

enum { VECTOR_BYTES = 32, LANES = VECTOR_BYTES / (int)sizeof(real) };
typedef real Vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real))));

bool narrow_takes(int N) {
#ifdef __AVX512F__ /* 2 * LANES are a whole vector there */
    return N == LANES;
#elif defined __AVX2__
    return N == LANES || N == 2 * LANES;
#else
    (void)N;
    return false;
#endif
}

#define INLINE static inline __attribute__((always_inline))

/* All that is const below is known where it is compiled, so that sums are registers. */
typedef struct Product {
    real *C;
    const real *A, *B;
    size_t ldc, lda, ldb;
    int K;
    bool add;
} Product;

/* Sums at a time, of two vectors: of 16 registers one has an element of A. */
enum { SUMS = 12, MOST_ROWS = 8 };

/* Sum i of a block: of row i / vectors. */
INLINE Vector *sum_at(const Product *p, real *c, int i, const int vectors) {
    return (Vector *)(c + (size_t)(i / vectors) * p->ldc) + i % vectors;
}

INLINE void block(const Product *p, int m, const bool turned, const int rows, const int vectors) {
    const size_t lda = p->lda, along = turned ? lda : 1, across = turned ? 1 : lda;
    const real *a = p->A + (size_t)m * across, *b = p->B;
    real *const c = p->C + (size_t)m * p->ldc;
    Vector sum[2 * MOST_ROWS];
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = p->add ? *sum_at(p, c, i, vectors) : (Vector){0};
    for (int k = 0; k < p->K; k++, a += along, b += p->ldb)
        for (int r = 0; r < rows; r++) {
            /* less 0, which changes nothing; + 0 would be an addition, for the sake of -0 */
            const Vector x = a[(size_t)r * across] - (Vector){0};
            for (int j = 0; j < vectors; j++) sum[r * vectors + j] += x * ((const Vector *)b)[j];
        }
    for (int i = 0; i < rows * vectors; i++) *sum_at(p, c, i, vectors) = sum[i];
}

/* Blocks of about the same size: one of few rows would take as long as one of many. */
static inline int next_rows(int left, int most) {
    const int blocks = (left + most - 1) / most;
    return (left + blocks - 1) / blocks;
}

#define CASE(n)                                                                                    \
    case n: block(p, m, turned, n, vectors); break

INLINE void blocks(const Product *p, int M, const bool turned, const int vectors, const int most) {
    for (int m = 0, rows; m < M; m += rows) {
        rows = next_rows(M - m, most);
        switch (rows) {
            CASE(1);
            CASE(2);
            CASE(3);
            CASE(4);
            CASE(5);
            CASE(6);
        }
        if (vectors == 1) { /* for two there would not be enough registers */
            switch (rows) {
                CASE(7);
                CASE(8);
            }
        }
    }
}

INLINE void product(const Product *p, int M, int N, const bool turned) {
    if (N == LANES)
        blocks(p, M, turned, 1, MOST_ROWS);
    else
        blocks(p, M, turned, 2, SUMS / 2);
}

void narrow_nn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N,
               int K, bool add) {
    const Product p = {C, A, B, (size_t)ldc, (size_t)lda, (size_t)ldb, K, add};
    product(&p, M, N, false);
}

void narrow_tn(real *C, int ldc, const real *A, int lda, const real *B, int ldb, int M, int N,
               int K, bool add) {
    const Product p = {C, A, B, (size_t)ldc, (size_t)lda, (size_t)ldb, K, add};
    product(&p, M, N, true);
}
