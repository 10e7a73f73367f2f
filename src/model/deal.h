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
    int *correct;   /* (B) correct answers: 0 or 1, there as many as there are masked tokens */
    real *logits;   /* (B,classes); there (B,per_example,room,vocab), of masked tokens alone */
    int room;
} Outcome;

typedef struct Deal {
    int lanes, ranks;       /* at most, and in all */
    double *work;           /* (B) what a sample takes, in units of its own; the caller's to say */
    int *longest_first;     /* (B) samples by falling work, the earlier first on ties */
    int *order;             /* (B) lane by lane, as in the batch */
    int *lane_start;        /* (lanes + 1) where a lane begins in order */
    int *lane_of, *rank_of; /* (B) */
    int *cuts;              /* (ranks + 1) rank r has lanes cuts[r] to cuts[r+1] - 1 */
    int *leaf, *sorted, *aside; /* (lanes) scratch */
    double *load;
    double *pace;    /* (ranks) work a second, as lately measured; 0: not known */
    double *seconds; /* (ranks) that a rank took for its part of the batch; the caller's to say */
    double sum_seconds; /* that a sum of another rank takes to come and be added; the caller's */
    bool learns; /* false: not from the batch at hand, as from the first, whose memory is new */
} Deal;

void deal_layout(Deal *d, Arena *a, int max_batch, int lanes, int ranks);

/* longest_first alone, from work. */
void deal_sort(Deal *d, int B);
/* All of it; returns the number of lanes. Lanes are level, and ranks have as much of them as they
 * are fast, as far as whole samples can be, best where ranks are a power of two; lanes follow from
 * work alone, cuts from ranks and their pace too. */
int deal_lanes(Deal *d, int B);
/* After the batch: pace, from seconds. */
void deal_learn(Deal *d, int B);

#endif
