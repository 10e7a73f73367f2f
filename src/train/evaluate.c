#include "train/evaluate.h"

#include "core/log.h"
#include "train/stop.h"

enum { MOST_LINES_A_SECOND = 10 };

bool evaluate(Score *score, Engine *e, Feed *f, int split, const char *what) {
    const int count = f->examples[split];
    double loss = 0, correct = 0, shown = 0;
    for (int from = 0; from < count; from += f->batch.n) {
        if (stop_asked()) return false;
        if (clock_seconds() - shown > 1.0 / MOST_LINES_A_SECOND) {
            log_progress(false, "%s  %d/%d", what, from, count);
            shown = clock_seconds();
        }
        feed_split(f, split, from);
        const Batch *b = &f->batch;
        engine_evaluate(e, b->samples, b->n, &b->out);
        for (int i = 0; i < b->n; i++) {
            loss += b->out.loss[i];
            correct += b->out.predicted[i] == b->samples[i].label;
        }
    }
    *score = (Score){correct / count, loss / count};
    return true;
}
