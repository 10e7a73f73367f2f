#include "train/keep.h"

#include "core/log.h"

static const double retry_seconds = 60;

static double seconds_between(const Keeper *k) { return k->c->train.save_minutes * 60; }

void keep_begin(Keeper *k) { k->next = clock_seconds() + seconds_between(k); }

/* ---- the last ---- */

/* A failure is told at once, and tried again in a while. */
static bool save(Keeper *k, Err *err) {
    const State *s = k->state;
    double wait = seconds_between(k);
    meter_mark(k->meter, "save", s->update);
    metrics_sync(&k->meter->file);
    k->saved = state_save(s, k->c->resolved, k->dir->last, err);
    if (!k->saved) {
        log_warn("the state of update %lld is NOT saved: %s", (long long)s->update, err->text);
        if (wait > retry_seconds) wait = retry_seconds;
    }
    k->next = clock_seconds() + wait;
    return k->saved;
}

void keep_last(Keeper *k) {
    Err err;
    save(k, &err);
}

bool keep_last_at_end(Keeper *k, Err *err) {
    if (k->saved || save(k, err)) return true;
    return err_set(err, EX_IOERR, "update %lld is lost: %s", (long long)k->state->update,
                   err->text);
}

/* ---- the best ---- */

/* The state names its best only once that is on the disk. */
bool keep_best(Keeper *k, const Score *score) {
    State with = *k->state;
    Err err;
    with.best = *score;
    with.best_update = with.update;
    if (!state_save(&with, k->c->resolved, k->dir->best, &err)) {
        log_warn("the best weights so far are NOT saved: %s", err.text);
        return false;
    }
    *k->state = with;
    return true;
}

/* ---- the one to go back to ---- */

/* Whether the file is of the last validation; or later, where that had none, but not of updates
 * that are still to come. */
static bool has_rollback(const Keeper *k) {
    const State *s = k->state;
    StFile f;
    Err ignored;
    int64_t update;
    if (!st_open(&f, k->dir->rollback, &ignored)) return false;
    const bool ok = state_check(&f, &ignored) && state_update(&f, &update, &ignored);
    st_close(&f);
    return ok && update >= s->evaluated && update <= s->update;
}

bool keep_prepare_rollback(const Keeper *k, bool goes_on, Err *err) {
    return k->c->train.nan != GUARD_ROLLBACK || (goes_on && has_rollback(k)) ||
           state_save(k->state, k->c->resolved, k->dir->rollback, err);
}

void keep_for_rollback(const Keeper *k) {
    Err err;
    if (k->c->train.nan == GUARD_ROLLBACK &&
        !state_save(k->state, k->c->resolved, k->dir->rollback, &err))
        log_warn("a rollback would not go back to here but further: %s", err.text);
}

bool keep_roll_back(Keeper *k, int64_t from, Err *err) {
    State *s = k->state;
    const State before = *s;
    if (!state_load(s, k->c->resolved, k->dir->rollback, err)) return false;
    guard_roll_back(&s->guard, &before.guard);
    if (before.best_update <= s->update) s->best = before.best, s->best_update = before.best_update;
    meter_rollback(k->meter, s, from);
    keep_last(k);
    return true;
}
