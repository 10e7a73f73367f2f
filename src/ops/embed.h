/* Token and position embeddings. */
#ifndef OPS_EMBED_H
#define OPS_EMBED_H

#include "core/real.h"
#include "core/token.h"

/* y (R,d) = tok[ids[r]] + pos[r], and mask (d; NULL where there are none) in place of tok's row
 * where ids[r] is TOKEN_MASKED.
 * pos (R,d) is the table from the first of these rows on; NULL: no positions. */
void embed_forward(real *y, const int *ids, const real *tok, const real *mask, const real *pos,
                   int R, int d);

/* dtok[ids[r]] += dy[r], dpos[r] += dy[r]; of masked ones dmask (d) in place of dtok's row, which
 * may be NULL where there are none. dpos NULL: positions are not learned. */
void embed_backward(real *dtok, real *dmask, real *dpos, const real *dy, const int *ids, int R,
                    int d);

/* pos (N,d): pos[n,2i] = sin(n / 10000^(2i/d)), pos[n,2i+1] = cos(the same) (Vaswani et al. 2017,
 * section 3.5). */
void embed_sinusoidal(real *pos, int N, int d);

#endif
