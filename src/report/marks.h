/* What of a result is not the benchmark's or not the papers' model's: marked in the tables that
 * have the papers' figures, and what is not the benchmark's left out of their means. */
#ifndef REPORT_MARKS_H
#define REPORT_MARKS_H

#include "data/task.h"
#include "report/figures.h"
#include "report/table.h"

enum {
    MARK_DATA = 1,       /* a part of the test set, the subset of Retrieval, generated otherwise,
                            pictures of another size or other contours, or more examples than the
                            benchmark's */
    MARK_AUGMENTED = 2,  /* data.augment */
    MARK_PRETRAINED = 4, /* train.init */
    MARK_LARGER = 8,     /* more than 10 % more parameters than the task's shipped config has with
                            the same mechanism at its defaults */
    MARK_GENERATED = 16, /* with the benchmark's parameters: it counts, and is said */
    MARK_PARTS = 32,  /* a model with parts that the papers' have not: it counts, in its own row */
    MARK_CHOSEN = 64, /* the test set validated, so that its best weights have seen it */
    MARK_LETTERS = 7,
    MARK_RECIPE = MARK_AUGMENTED | MARK_PRETRAINED | MARK_LARGER,
    MARK_NOT_ITS = MARK_DATA | MARK_CHOSEN,
    MARK_LEFT_OUT = MARK_NOT_ITS | MARK_RECIPE,
    MARK_EXTRAS = MARK_RECIPE | MARK_PARTS /* in rows of their own */
};

/* `r`: of the group, with its parameters. What a run's env.json does not tell of its data (written
 * before it kept that) is not marked; the number of test examples always is looked at. */
unsigned marks_of(const Group *g, const Result *r);

/* Of a group's last weights: MARK_CHOSEN is of the best ones alone, but where train.patience, and
 * so the test set, ended the run. */
unsigned marks_of_last(const Group *g, unsigned marks);
/* Whether a run's data were generated with other parameters than the benchmark's, as far as its
 * env.json tells. */
bool marks_made_otherwise(const Task *t, const Run *run);

/* The letters that stand in a cell: "DA". */
void marks_letters(char buf[CELL_MARK], unsigned marks);
/* What one mark means. */
const char *marks_meaning(unsigned mark);
/* A note on the letters of `marks`, each explained; to be freed. */
char *marks_explain(unsigned marks);

/* What MARK_CHOSEN is of, and a note on it for tables without letters. */
bool marks_chosen_by_test(const Run *r);
extern const char marks_chosen_note[];

/* Parameters of configs/<task>.json, with another mechanism at its defaults where it is not its
 * own; 0: there is no such config. A mechanism that is none of ours, or NULL: with its own. */
double marks_shipped(const char *task, const char *mechanism);

#endif
