#include "train/guard.h"

#include "core/log.h"

const Guard guard_unused = {.rate = 1};

/* Of what is no number each comparison is false. */
bool guard_is_sound(const Guard *g) {
    return g->in_a_row >= 0 && g->in_a_row <= g->skipped && g->skipped < 1e15 &&
           g->rollbacks >= 0 && g->rollbacks < 1e15 && g->rate > 0 && g->rate <= 1;
}

void guard_tell(const Guard *g) {
    if (g->skipped > 0) log_info("%g updates that were not finite are left out", g->skipped);
    if (g->rollbacks > 0)
        log_info("went back from numbers that were not finite %g times, to %g of train.lr",
                 g->rollbacks, g->rate);
}

void guard_skip(Guard *g) {
    g->skipped++;
    g->in_a_row++;
}

void guard_roll_back(Guard *g, const Guard *before) {
    g->rollbacks = before->rollbacks + 1;
    g->rate = before->rate / 2;
}
