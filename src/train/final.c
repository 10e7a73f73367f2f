#include "train/final.h"

#include "core/log.h"
#include "core/mem.h"
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

/* ---- which examples are right ---- */

static void note_answers(void *ctx, const Batch *b) {
    FinalTest *test = ctx;
    for (int i = 0; i < b->n; i++, test->seen++) {
        if (!test->correct || !b->out.correct[i]) continue;
        char *digit = &test->correct[test->seen / 4];
        *digit = (char)(*digit | 8 >> test->seen % 4);
    }
}

/* Four examples a hexadecimal digit, the first one its highest bit. Masked tokens are no examples,
 * and a line of metrics is to be read. */
static size_t digits(const Final *f) {
    const int n = f->loader->examples[SPLIT_TEST];
    const bool told = n <= RUN_MOST_ANSWERS && f->keep->c->train.objective != OBJECTIVE_MASKED;
    return told ? ((size_t)n + 3) / 4 : 0;
}

size_t final_bytes(const Final *f) { return RUN_TESTS * digits(f); }

static void open_answers(Final *f, FinalTest *test) {
    test->seen = 0;
    if (digits(f) > 0) test->correct = mem_alloc(digits(f) + 1, 1);
}

static void close_answers(FinalTest *test) {
    for (int i = 0; test->correct && i < (test->seen + 3) / 4; i++)
        test->correct[i] = "0123456789abcdef"[(int)test->correct[i]];
}

/* ---- the tests ---- */

static void tell(Final *f, const FinalTest *test) {
    char head[128], accuracy[64], loss[64];
    const int examples = f->loader->examples[SPLIT_TEST], objective = f->meter->conf->objective;
    meter_test(f->meter, test->which, test->update, &test->score, examples, test->correct);
    f->test[f->n] = *test;
    f->test[f->n++].correct = NULL; /* the caller's */
    snprintf(head, sizeof head, "test accuracy of %s (update %lld): %s", test->which,
             (long long)test->update,
             accuracy_text(accuracy, sizeof accuracy, test->score.accuracy, examples, objective));
    log_headed(LOG_BOLD, head, ", %s, %d examples",
               loss_text(loss, sizeof loss, test->score.loss, objective), examples);
}

static bool evaluated(Final *f, const State *s, FinalTest *test, Err *err) {
    char what[32];
    snprintf(what, sizeof what, "testing %s", test->which);
    engine_weights(f->engine, state_weights(s));
    open_answers(f, test);
    const Watch watch = {.batch = note_answers, .ctx = test};
    const bool done = evaluate(&test->score, f->engine, f->loader, SPLIT_TEST, what, &watch, err);
    close_answers(test);
    if (!verify_wait(f->verify, err)) return false;
    if (done) return true;
    if (err->code != EX_SOFTWARE) return false;
    return err_set(err, EX_SOFTWARE, "the test of %s (update %lld): %s", test->which,
                   (long long)test->update, err->text);
}

static bool test_last(Final *f, FinalTest *last, Err *err) {
    if (!evaluated(f, f->keep->state, last, err)) return false;
    tell(f, last);
    return true;
}

static bool test_best(Final *f, const FinalTest *last, FinalTest *best, Err *err) {
    best->update = keep_best_so_far(f->keep);
    if (best->update == 0) return true;
    if (best->update == last->update) {
        best->score = last->score;
        if (last->correct) best->correct = mem_strdup(last->correct);
    } else if (!read_best(f->keep, &best->update, err) ||
               !evaluated(f, &f->keep->best, best, err)) {
        return false;
    }
    tell(f, best);
    return true;
}

bool final_make(Final *f, Err *err) {
    FinalTest last = {.which = "last", .update = f->keep->state->update}, best = {.which = "best"};
    const bool ok = test_last(f, &last, err) && test_best(f, &last, &best, err);
    mem_free(last.correct);
    mem_free(best.correct);
    return ok;
}
