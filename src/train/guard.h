/* What a run does about an update that is not finite, or would leave what is not: train.nan. It is
 * not made in any case.
 *
 *   stop      the run ends
 *   skip      its number is used up, and data and schedule go on with the next; AdamW's correction
 *             of bias counts the updates that were made. GUARD_MOST_SKIPPED in a row end the run
 *   rollback  the run goes back to its last validation, for good at half the learning rate; so it
 *             does where a validation is not finite. GUARD_MOST_ROLLBACKS times, then it ends */
#ifndef TRAIN_GUARD_H
#define TRAIN_GUARD_H

#include <stdbool.h>

typedef enum GuardPolicy { GUARD_STOP, GUARD_SKIP, GUARD_ROLLBACK } GuardPolicy;
#define GUARD_CHOICES "stop skip rollback"

enum { GUARD_MOST_SKIPPED = 100, GUARD_MOST_ROLLBACKS = 3 };

/* What came of it so far: a part of the state. */
typedef struct Guard {
    double skipped, in_a_row; /* updates, and those of them behind the last that was made */
    double rollbacks;
    double rate; /* factor on the learning rate */
} Guard;
extern const Guard guard_unused;

/* Whether it can be one that a run has come to. */
bool guard_is_sound(const Guard *g);

/* Says at a run's end what came of it, if anything did. */
void guard_tell(const Guard *g);

void guard_skip(Guard *g);
/* `before`: of the state that was left to go back to that of g. */
void guard_roll_back(Guard *g, const Guard *before);

#endif
