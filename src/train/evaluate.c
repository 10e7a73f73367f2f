#include "train/evaluate.h"

#include <math.h>

#include "core/log.h"
#include "model/finite.h"
#include "train/stop.h"

enum { MOST_LINES_A_SECOND = 10 };

bool evaluate_check(Engine *e, const Loader *f, int split, int from, Err *err) {
    const Batch *b = &f->batch;
    char where[128];
    int i = 0;
    while (i < b->n && isfinite(b->out.loss[i])) i++;
    if (i == b->n) return true;
    finite_activation(e, &b->samples[i], where, sizeof where);
    return err_set(err, EX_SOFTWARE,
                   "example %d of %s has loss %g; the first that is not finite there: %s", from + i,
                   split_names[split], fabs(b->out.loss[i]), where);
}

static void show(const char *what, int done, int count, double *shown) {
    if (clock_seconds() - *shown <= 1.0 / MOST_LINES_A_SECOND) return;
    log_progress(false, "%s  %d/%d", what, done, count);
    *shown = clock_seconds();
}

const char *loss_text(char *buf, size_t size, double loss, int objective) {
    if (objective == OBJECTIVE_MASKED)
        snprintf(buf, size, "%.4f bits a token", loss / log(2));
    else
        snprintf(buf, size, "loss %.4f", loss);
    return buf;
}

const char *accuracy_text(char *buf, size_t size, double accuracy, int examples, int objective) {
    char error[32] = "";
    if (examples > 0 && objective != OBJECTIVE_MASKED)
        snprintf(error, sizeof error, " ± %.2f", 100 * score_error(accuracy, examples));
    snprintf(buf, size, "%.2f%s %%", 100 * accuracy, error);
    return buf;
}

bool evaluate(Score *score, Engine *e, Loader *f, int split, const char *what, const Watch *watch,
              Err *err) {
    const Watch none = {0}, *w = watch ? watch : &none;
    const int all = f->examples[split], count = w->most && w->most < all ? w->most : all;
    double loss = 0, correct = 0, answers = 0, shown = 0;
    char bad[128];
    if (!finite_params(&e->m->params, e->w, bad, sizeof bad))
        return err_set(err, EX_SOFTWARE, "%s", bad);
    for (int from = 0; from < count; from += f->batch.n) {
        if (stop_asked()) return err_set(err, EX_TEMPFAIL, "%s: stopped", stop_asked());
        show(what, from, count, &shown);
        Batch *b = &f->batch;
        loader_split(f, split, from);
        if (b->n > count - from) b->n = count - from;
        engine_evaluate(e, b->samples, b->n, &b->out, w->traces);
        if (!evaluate_check(e, f, split, from, err)) return false;
        for (int i = 0; i < b->n; i++) {
            loss += b->out.loss[i];
            correct += b->out.correct[i];
            answers += b->answers[i];
        }
        if (w->batch) w->batch(w->ctx, b);
    }
    *score = (Score){correct / answers, loss / answers};
    return true;
}
