/* The machines that runs were made on, as their env.json tell: speeds, memory and, with
 * train.minutes, results are theirs as well. */
#ifndef REPORT_HARDWARE_H
#define REPORT_HARDWARE_H

#include "report/group.h"

enum { HARDWARE_TRAITS = 3 };

typedef struct Hardware {
    const cJSON *first[HARDWARE_TRAITS]; /* of the first process that tells: a run's; NULL: none */
    bool differs, timed;                 /* timed: runs had so many minutes, not updates */
} Hardware;

/* Of one more group of a task, whose processes are held against those before; begins with zeros. */
void hardware_add(Hardware *h, const Group *g);

/* Notes on runs of one task whose machines differ; the second where they are timed. */
extern const char hardware_note[], hardware_timed_note[];

#endif
