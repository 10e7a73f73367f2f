/* What expressions of generated ListOps may be. */
#ifndef DATA_LISTOPS_RULES_H
#define DATA_LISTOPS_RULES_H

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

#endif
