/* Generated ListOps, of the lengths of the Long Range Arena unless other rules are asked for. */
#ifndef DATA_LISTOPS_H
#define DATA_LISTOPS_H

#include "core/rng.h"
#include "data/listops_value.h"
#include "data/task.h"

/* Tokens of the longest expression that any rules may have. */
enum { LISTOPS_LONGEST = 16384 };

/* What an expression may be. */
typedef struct ListopsRules {
    int depth;             /* operators in each other, at most; 1 to LISTOPS_NESTING */
    int shortest, longest; /* tokens */
    int ops[4], nops;      /* ids */
    int least_args, most_args;
} ListopsRules;
extern const ListopsRules listops_lra; /* the Long Range Arena's */

/* Those that the request's settings ask for, LRA's where they are silent. EX_USAGE: a setting that
 * is none, or rules that no expression follows. */
bool listops_rules(ListopsRules *rules, const TaskRequest *r, Err *err);
bool listops_is_lra(const ListopsRules *rules);
/* "depth 3, 16 to 128 tokens, MIN MAX of 2 to 10 arguments". */
enum { LISTOPS_RULES = 128 };
const char *listops_describe(char buf[LISTOPS_RULES], const ListopsRules *rules);

/* The candidate expression number `index` into out, of rules->longest tokens: its length, 0 if that
 * is outside of what the rules have. The key is folded from the seed and "listops". */
int listops_candidate(uint8_t *out, const ListopsRules *rules, RngKey key, uint64_t index);

#endif
