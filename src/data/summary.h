/* What a prepared split holds, as a person wants to read it. */
#ifndef DATA_SUMMARY_H
#define DATA_SUMMARY_H

#include "data/dataset.h"
#include "data/task.h"

/* The row of the task that the dataset was made for; NULL if it is unknown or the sizes are not its
 * own. */
const Task *summary_task(const Dataset *d);

/* Prints counts, lengths, labels and ids to standard output. */
void summary_print(const Dataset *d);

/* Which example, and how it is looked at. */
typedef struct SummaryExample {
    int index;
    bool augment; /* as the first epoch of training with data.augment and this train.seed sees it */
    uint64_t seed;
} SummaryExample;

/* Prints one example: the task's own way if it has one, else as ids. EX_USAGE: the task has no
 * augmentation. */
bool summary_print_example(const Dataset *d, const SummaryExample *e, Err *err);

/* Writes one example as a PNG file, where it is a square picture (else EX_USAGE), and prints what
 * it is. */
bool summary_write_png(const Dataset *d, const SummaryExample *e, const char *path, Err *err);

#endif
