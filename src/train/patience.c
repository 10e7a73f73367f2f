#include "train/patience.h"

bool patience_may_end(const Config *c, Err *err) {
    if (c->train.patience == 0 || !c->task->holds_out || c->holdout > 0) return true;
    return err_set(
        err, EX_CONFIG,
        "%s: train.patience with data.holdout=0 would end the run by the test set, which "
        "is what validates task %s then. Hold training examples out: data.holdout=0.1",
        c->path, c->task->name);
}

/* Without train.patience it is not counted: checkpoints have it where it is not 0. */
void patience_count(const Config *c, State *s, bool best) {
    if (c->train.patience) s->stale = best ? 0 : s->stale + 1;
}

bool patience_is_out(const Config *c, const State *s) {
    return c->train.patience && s->stale >= c->train.patience;
}
