/* Long ListOps: the value of a nested expression of list operators over digits (Nangia and Bowman
 * 2018; lengths of the Long Range Arena). */
#ifndef DATA_LISTOPS_H
#define DATA_LISTOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "data/task.h"

enum {
    LISTOPS_CLASSES = 10,
    LISTOPS_MIN = 1, /* ids; 0 is padding */
    LISTOPS_MAX,
    LISTOPS_MED,
    LISTOPS_SM,
    LISTOPS_CLOSE,
    LISTOPS_DIGIT, /* of the digit 0 */
    LISTOPS_VOCAB = LISTOPS_DIGIT + 10,
    LISTOPS_LONGEST = 1999, /* tokens of a generated expression: 501 to 1999 */
    LISTOPS_SHORTEST = 501,
    LISTOPS_NESTING = 9 /* of operators */
};

extern const Task task_listops;

/* What each id stands for. */
extern const char *const listops_words[LISTOPS_VOCAB];

/* The value of an expression of n ids, -1 if it is malformed or nests deeper than LISTOPS_NESTING.
 * An operator has at least one argument; MED of an even count is the floor of the mean of the
 * middle two, SM the sum modulo 10. */
int listops_value(const int *tokens, int n);

/* The candidate expression number `index` of `seed` into out: its length, 0 if that is outside 501
 * to 1999. */
int listops_candidate(uint8_t out[LISTOPS_LONGEST], uint64_t seed, uint64_t index);

/* The Long Range Arena's files, basic_{train,val,test}.tsv (listops_tsv.c): the members of the
 * task's row. */
bool listops_import(const TaskRequest *r, Err *err);
bool listops_export(const char *dir, const char *to, Err *err);
bool listops_recognise(const char *dir);

#endif
