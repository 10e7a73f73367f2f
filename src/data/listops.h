/* Generated ListOps, of the lengths of the Long Range Arena. */
#ifndef DATA_LISTOPS_H
#define DATA_LISTOPS_H

#include "core/rng.h"
#include "data/listops_value.h"

/* Tokens of a generated expression. */
enum { LISTOPS_SHORTEST = 501, LISTOPS_LONGEST = 1999 };

/* The candidate expression number `index` into out: its length, 0 if that is outside 501 to 1999.
 * The key is folded from the seed and "listops". */
int listops_candidate(uint8_t out[LISTOPS_LONGEST], RngKey key, uint64_t index);

#endif
