/* Long ListOps: expressions of nested list operators over digits (Nangia and Bowman 2018), as ids,
 * and their values. */
#ifndef DATA_LISTOPS_VALUE_H
#define DATA_LISTOPS_VALUE_H

#include "data/augment.h"

enum {
    LISTOPS_CLASSES = 10,
    LISTOPS_MIN = 1, /* ids; 0 is padding */
    LISTOPS_MAX,
    LISTOPS_MED,
    LISTOPS_SM,
    LISTOPS_CLOSE,
    LISTOPS_DIGIT, /* of the digit 0 */
    LISTOPS_VOCAB = LISTOPS_DIGIT + 10,
    LISTOPS_NESTING = 9 /* of operators */
};

/* What each id stands for. */
extern const char *const listops_words[LISTOPS_VOCAB];

/* The value of an expression of n ids, -1 if it is malformed or nests deeper than LISTOPS_NESTING.
 * An operator has at least one argument; MED of an even count is the floor of the mean of the
 * middle two, SM the sum modulo 10. */
int listops_value(const int *tokens, int n);

/* The arguments of every operator in another order, which does not change the value: all four are
 * symmetric. What is not closed stays as it is. */
AugmentFn listops_shuffle;

#endif
