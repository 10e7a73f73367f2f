#include "train/final.h"

#include "core/log.h"
#include "train/evaluate.h"

/* Into the memory where else it waits to be written. A process that was killed between the two
 * files may have left a newer best than the state knows of, and so may a run that went further back
 * than it: what is tested is told by its own update. */
static bool read_best(Keeper *k, int64_t *update, Err *err) {
    StFile f;
    if (k->best_waits) return true;
    if (!st_open(&f, k->dir->best, err)) return false;
    const bool ok = state_check(&f, err) && state_update(&f, update, err) &&
                    state_read_weights(&k->best, &f, err);
    st_close(&f);
    return ok;
}

static void tell(Final *f, const FinalTest *test) {
    char head[96], loss[64];
    const int examples = f->loader->examples[SPLIT_TEST];
    meter_test(f->meter, test->which, test->update, &test->score, examples);
    f->test[f->n++] = *test;
    snprintf(head, sizeof head, "test accuracy of %s (update %lld): %.2f %%", test->which,
             (long long)test->update, 100 * test->score.accuracy);
    log_headed(LOG_BOLD, head, ", %s, %d examples",
               loss_text(loss, sizeof loss, test->score.loss, f->meter->conf->objective), examples);
}

static bool evaluated(Final *f, const State *s, FinalTest *test, Err *err) {
    char what[32];
    snprintf(what, sizeof what, "testing %s", test->which);
    engine_weights(f->engine, state_weights(s));
    const bool done = evaluate(&test->score, f->engine, f->loader, SPLIT_TEST, what, NULL, err);
    if (!verify_wait(f->verify, err)) return false;
    if (done) return true;
    if (err->code != EX_SOFTWARE) return false;
    return err_set(err, EX_SOFTWARE, "the test of %s (update %lld): %s", test->which,
                   (long long)test->update, err->text);
}

bool final_make(Final *f, Err *err) {
    const State *s = f->keep->state;
    FinalTest last = {.which = "last", .update = s->update}, best = {.which = "best"};
    best.update = keep_best_so_far(f->keep);
    if (!evaluated(f, s, &last, err)) return false;
    tell(f, &last);
    if (best.update == 0) return true;
    best.score = last.score;
    if (best.update != last.update &&
        (!read_best(f->keep, &best.update, err) || !evaluated(f, &f->keep->best, &best, err)))
        return false;
    tell(f, &best);
    return true;
}
