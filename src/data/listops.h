/* Generated ListOps, by rules of one's choice. */
#ifndef DATA_LISTOPS_H
#define DATA_LISTOPS_H

#include "core/rng.h"
#include "data/listops_rules.h"

/* The candidate expression number `index` into out, of rules->longest tokens: its length, 0 if that
 * is outside of what the rules have. The key is folded from the seed and "listops". */
int listops_candidate(uint8_t *out, const ListopsRules *rules, RngKey key, uint64_t index);

#endif
