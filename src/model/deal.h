/* A batch's samples, what becomes of them, and dealing them to lanes, and lanes to ranks. */
#ifndef MODEL_DEAL_H
#define MODEL_DEAL_H

#include "core/mem.h"

typedef struct Sample {
    const int *ids[2]; /* tokens of each document, at most max_length are read */
    int length[2];     /* 0 of a document that there is not */
    int label;
    const int *targets[2]; /* in masked training the ids that are TOKEN_MASKED in `ids` */
    int number; /* in its split's file: dropout masks follow it, not the place in a batch */
} Sample;

/* What a batch gave, a sample; any may be NULL. */
typedef struct Outcome {
    double *loss;   /* (B) in masked training summed over the masked tokens */
    int *predicted; /* (B) not there */
    int *right;     /* (B) right answers: 0 or 1, there as many as there are masked tokens */
    real *logits;   /* (B,classes); there (B,per_example,room,vocab), of masked tokens alone */
    int room;
} Outcome;

typedef struct Deal {
    int lanes, ranks;       /* at most, and in all */
    int *longest_first;     /* (B) samples by falling length, the earlier first on ties */
    int *order;             /* (B) lane by lane, as in the batch */
    int *lane_start;        /* (lanes + 1) where a lane begins in order */
    int *lane_of, *rank_of; /* (B) */
    int *cuts;              /* (ranks + 1) rank r has lanes cuts[r] to cuts[r+1] - 1 */
    int *leaf, *turn;       /* (lanes) scratch */
    double *load;
} Deal;

void deal_layout(Deal *d, Arena *a, int max_batch, int lanes, int ranks);

/* longest_first alone. */
void deal_sort(Deal *d, const Sample *samples, int B);
/* All of it; returns the number of lanes. Lanes are level, and so is what ranks have of them, as
 * far as whole documents can be; they follow from the lengths alone, cuts from ranks too. */
int deal_lanes(Deal *d, const Sample *samples, int B);

#endif
