/* Rotary positions (Su et al. 2021, arXiv:2104.09864): the columns (2i, 2i+1) of each head of token
 * n are turned by the angle n 10000^(-2i/e), queries and keys alike, so that their product depends
 * on how far apart they are. */
#ifndef OPS_ROPE_H
#define OPS_ROPE_H

#include <stddef.h>

#include "core/real.h"

/* Reals of a table for N tokens, heads of width e, which is even. */
static inline size_t rope_reals(int N, int e) { return (size_t)N * 2 * (size_t)e; }
/* table (N,2,e): cosines of each column's angle, and sines, negative in the first column of a pair.
 */
void rope_table(real *table, int N, int e);

/* x (n,h,e) is turned in place, or back; row r by the angles of token tokens[rows[r]]. Where rows
 * or tokens are NULL they count from 0. */
typedef struct Rope {
    const real *table; /* NULL: nothing turns */
    const int *tokens;
} Rope;
void rope_turn(const Rope *rope, real *x, const int *rows, int n, int h, int e);
void rope_turn_back(const Rope *rope, real *x, const int *rows, int n, int h, int e);

#endif
