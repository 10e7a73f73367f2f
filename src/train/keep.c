#include "train/keep.h"

#include <errno.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "io/json.h"
#include "io/text.h"
#include "train/run.h"

static const double retry_seconds = 60;

static double seconds_between(const Keeper *k) { return k->c->train.save_minutes * 60; }

void keep_begin(Keeper *k) { k->next = clock_seconds() + seconds_between(k); }

/* On a disk that others have filled a save takes the room that was kept for it. */
static bool write_state(Keeper *k, const State *s, const char *path, Err *err) {
    bool ok = rundir_stands(k->dir, err) && state_save(s, k->c->resolved, path, err);
    k->gone = !ok && !rundir_stands(k->dir, err); /* or it goes during the save */
    if (k->gone) return false;
    if (!ok && rundir_give_room(k->dir)) {
        log_warn("%s. It takes the room that was kept for it", err->text);
        ok = state_save(s, k->c->resolved, path, err);
    }
    if (!rundir_keep_room(k->dir))
        log_warn("%s: no room is kept for another save: %s", k->dir->dir, strerror(errno));
    return ok;
}

/* ---- the best ---- */

void keep_layout(Keeper *k, Arena *a, const Params *params, bool averages) {
    state_layout(&k->best, a, params, averages);
}

/* The state names its best only once that is on the disk. */
static bool write_best(Keeper *k, const State *best, Err *err) {
    k->best_waits = !write_state(k, best, k->dir->best, err);
    if (k->best_waits) return false;
    k->state->best = best->best;
    k->state->best_update = best->best_update;
    k->saved = false;
    return true;
}

/* From the run's state, but for where the vectors are. */
static void copy_best(Keeper *k, const State *from) {
    State *to = &k->best;
    const State own = *to;
    const size_t bytes = from->params->total * sizeof *from->w;
    *to = *from;
    to->w = memcpy(own.w, from->w, bytes);
    to->ema = own.ema;
    if (to->ema) memcpy(to->ema, from->ema, bytes);
    to->adamw = own.adamw;
    memcpy(to->adamw.m, from->adamw.m, bytes);
    memcpy(to->adamw.v, from->adamw.v, bytes);
}

void keep_best(Keeper *k, const Score *score) {
    State best = *k->state;
    Err err;
    best.best = *score;
    best.best_update = best.update;
    if (write_best(k, &best, &err)) return;
    if (!k->gone)
        log_warn("the best weights so far are NOT saved: %s. Kept in memory, to be tried again",
                 err.text);
    copy_best(k, &best);
}

static const State *with_best(const Keeper *k) { return k->best_waits ? &k->best : k->state; }

void keep_forget_best(Keeper *k) {
    State *s = k->state;
    if (s->best_update)
        log_warn(
            "the best so far, of update %lld, was validated by other examples: it is sought anew",
            (long long)s->best_update);
    s->best_update = s->stale = s->evaluated = 0;
    k->saved = false;
}

int64_t keep_best_so_far(const Keeper *k) { return with_best(k)->best_update; }

bool keep_would_be_best(const Keeper *k, const Score *score) {
    return keep_best_so_far(k) == 0 ||
           score_beats(score, &with_best(k)->best, (ScoreBy)k->c->train.best);
}

static void try_best_again(Keeper *k, Err *err) {
    if (!k->best_waits) return;
    if (write_best(k, &k->best, err))
        log_info("the best weights, of update %lld, are saved now", (long long)k->best.update);
    else if (!k->gone)
        log_warn("the best weights, of update %lld, are still NOT saved: %s",
                 (long long)k->best.update, err->text);
}

/* ---- the last ---- */

/* A failure is told at once, and tried again in a while. */
static void save(Keeper *k, Err *err) {
    const State *s = k->state;
    double wait = seconds_between(k);
    try_best_again(k, err);
    meter_mark(k->meter, "save", s->update);
    metrics_sync(&k->meter->file);
    k->saved = write_state(k, s, k->dir->last, err);
    if (!k->saved && !k->gone)
        log_warn("the state of update %lld is NOT saved: %s", (long long)s->update, err->text);
    if ((!k->saved || k->best_waits) && wait > retry_seconds) wait = retry_seconds;
    k->next = clock_seconds() + wait;
}

static bool lost(const Keeper *k, Err *err) {
    return err_set(err, EX_IOERR, "update %lld is lost: %s", (long long)k->state->update,
                   err->text);
}

bool keep_last(Keeper *k, Err *err) {
    save(k, err);
    return !k->gone || lost(k, err);
}

/* No save needs the room any more. */
static bool write_lines(Keeper *k, Err *err) {
    while (!metrics_flush(&k->meter->file, err))
        if (!rundir_give_room(k->dir))
            return err_set(err, err->code, "%s. Its last lines are lost", err->text);
    return true;
}

bool keep_at_end(Keeper *k, Err *err) {
    Err unwritten;
    if (!k->saved || k->best_waits || !rundir_stands(k->dir, err)) save(k, err);
    const bool written = write_lines(k, &unwritten);
    if (!k->saved) return lost(k, err);
    if (k->best_waits)
        return err_set(err, EX_IOERR, "the best weights, of update %lld, are lost: %s",
                       (long long)k->best.update, err->text);
    return written || err_set(err, unwritten.code, "%s", unwritten.text);
}

/* ---- those of the last validations ---- */

/* What a run without a sound last.safetensors has left. */
typedef struct Left {
    int kept;                 /* at-*.safetensors */
    char path[FILE_PATH_MAX]; /* the latest checkpoint that is whole */
    int64_t update, every;    /* of that: 0 for none; updates between its run's validations */
} Left;

static int64_t validates_every(const cJSON *config, int64_t an_epoch) {
    const double every = json_number(config, "train.eval_every");
    return every > 0 ? (int64_t)every : an_epoch;
}

static bool look_at(Left *l, const char *path, int64_t an_epoch) {
    int64_t update;
    StFile f;
    Err ignored;
    if (!st_open(&f, path, &ignored)) return false;
    const bool ok = state_check(&f, &ignored) && state_update(&f, &update, &ignored);
    if (ok && update > l->update) {
        cJSON *config = state_config(&f, &ignored);
        snprintf(l->path, sizeof l->path, "%s", path);
        l->update = update;
        l->every = validates_every(config, an_epoch);
        cJSON_Delete(config);
    }
    st_close(&f);
    return ok;
}

static void find_left(Left *l, const Keeper *k, int64_t an_epoch) {
    FileList kept;
    Err ignored;
    *l = (Left){0};
    if (kept_list(&kept, k->dir->dir, &ignored)) {
        for (int i = 0; i < kept.n; i++) l->kept += look_at(l, kept.name[i], an_epoch);
        file_list_free(&kept);
    }
    look_at(l, k->dir->best, an_epoch);
    look_at(l, k->dir->rollback, an_epoch);
}

/* "To go on from update N: cp IT last.safetensors. ", to be freed; "" where nothing is left. */
static char *how_to_go_on(const Keeper *k, const Left *l) {
    char *text;
    size_t size;
    FILE *f = text_stream(&text, &size);
    if (l->update > 0) {
        fprintf(f, "To go on from update %lld: cp ", (long long)l->update);
        option_print_word(f, l->path);
        fputc(' ', f);
        option_print_word(f, k->dir->last);
        fputs(". ", f);
    }
    fclose(f);
    return text;
}

bool keep_explain(const Keeper *k, Err *err) {
    Left l;
    find_left(&l, k, 0);
    char *how = how_to_go_on(k, &l);
    err_set(err, err->code, "%s. %s" KEEP_ANEW, err->text, how);
    mem_free(how);
    return false;
}

/* The updates that metrics tell of, where they tell of a checkpoint too; else 0. */
static int64_t told_of_saved(const Keeper *k) {
    Run r;
    Err ignored;
    if (!run_read(&r, k->dir->dir, false, &ignored)) return 0;
    const int64_t made = r.saved || r.val.n > 1 ? run_made(&r).step : 0;
    run_free(&r);
    return made;
}

static bool refuse_anew(const Keeper *k, const Left *l, int64_t made, Err *err) {
    char *how = how_to_go_on(k, l);
    if (made > l->update)
        err_set(
            err, EX_CANTCREAT,
            "%s is not there, but %s tells of %lld updates and a save: a run from the start "
            "would take their place. Bring the checkpoint back, if it is elsewhere. %s" KEEP_ANEW,
            k->dir->last, k->dir->metrics, (long long)made, how);
    else
        err_set(err, EX_CANTCREAT,
                "%s is not there, but %s is, of update %lld: a run from the start would write over "
                "it. %s" KEEP_ANEW,
                k->dir->last, l->path, (long long)l->update, how);
    mem_free(how);
    return false;
}

bool keep_has_left(const Keeper *k) {
    Left l;
    find_left(&l, k, 0);
    return l.update > 0;
}

bool keep_may_begin(const Keeper *k, int64_t an_epoch, Err *err) {
    Left l;
    find_left(&l, k, an_epoch);
    const int64_t every = validates_every(k->c->resolved, an_epoch), made = told_of_saved(k);
    const bool more = an_epoch && (l.kept > 1 || l.update > l.every || l.update > every);
    return (!more && made == 0) || refuse_anew(k, &l, made, err);
}

void keep_forget_later(Keeper *k) {
    const int keep = k->c->train.keep;
    Err err;
    if (keep && !kept_prune(k->dir->dir, keep, k->state->update, &err)) log_warn("%s", err.text);
}

void keep_validated(Keeper *k) {
    char path[FILE_PATH_MAX];
    Err err;
    if (k->c->train.keep == 0) return;
    const bool kept = kept_path(path, k->dir->dir, k->state->update, &err) &&
                      write_state(k, k->state, path, &err);
    if (kept)
        keep_forget_later(k);
    else if (!k->gone)
        log_warn("the state of update %lld is NOT kept: %s", (long long)k->state->update, err.text);
    rundir_keep_room(k->dir);
}

/* ---- the one to go back to ---- */

bool keep_may_roll_back(const Keeper *k, Err *err) {
    return state_may_load(k->state, k->c->resolved, k->dir->rollback, err);
}

/* Whether the file is of the last validation; or later, where that had none, but not of updates
 * that are still to come. */
static bool has_rollback(const Keeper *k) {
    const State *s = k->state;
    StFile f;
    Err ignored;
    int64_t update;
    if (!keep_may_roll_back(k, &ignored) || !st_open(&f, k->dir->rollback, &ignored)) return false;
    const bool ok = state_update(&f, &update, &ignored);
    st_close(&f);
    return ok && update >= s->evaluated && update <= s->update;
}

bool keep_prepare_rollback(Keeper *k, bool goes_on, Err *err) {
    return k->c->train.nan != GUARD_ROLLBACK || (goes_on && has_rollback(k)) ||
           write_state(k, k->state, k->dir->rollback, err);
}

void keep_for_rollback(Keeper *k) {
    Err err;
    if (k->c->train.nan == GUARD_ROLLBACK && !write_state(k, k->state, k->dir->rollback, &err))
        log_warn("a rollback would not go back to here but further: %s", err.text);
}

bool keep_roll_back(Keeper *k, int64_t from, Err *err) {
    State *s = k->state;
    const State before = *s;
    if (!state_load(s, k->c->resolved, k->dir->rollback, err)) return false;
    s->identity = before.identity;
    guard_roll_back(&s->guard, &before.guard);
    if (before.best_update <= s->update) s->best = before.best, s->best_update = before.best_update;
    k->best_waits = k->best_waits && k->best.update <= s->update;
    meter_rollback(k->meter, s, from);
    keep_forget_later(k);
    save(k, err); /* told where it fails */
    return true;
}
