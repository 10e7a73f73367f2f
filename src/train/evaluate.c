#include "train/evaluate.h"

#include "core/log.h"
#include "train/stop.h"

enum { MOST_LINES_A_SECOND = 10 };

bool evaluate(Score *score, Engine *e, Loader *f, int split, const char *what, const Watch *watch) {
    const Watch none = {0}, *w = watch ? watch : &none;
    const int all = f->examples[split], count = w->most && w->most < all ? w->most : all;
    double loss = 0, correct = 0, shown = 0;
    for (int from = 0; from < count; from += f->batch.n) {
        if (stop_asked()) return false;
        if (clock_seconds() - shown > 1.0 / MOST_LINES_A_SECOND) {
            log_progress(false, "%s  %d/%d", what, from, count);
            shown = clock_seconds();
        }
        Batch *b = &f->batch;
        loader_split(f, split, from);
        if (b->n > count - from) b->n = count - from;
        engine_evaluate(e, b->samples, b->n, &b->out, w->traces);
        for (int i = 0; i < b->n; i++) {
            loss += b->out.loss[i];
            correct += b->out.predicted[i] == b->samples[i].label;
        }
        if (w->batch) w->batch(w->ctx, b);
    }
    *score = (Score){correct / count, loss / count};
    return true;
}
