#include "train/train.h"

#include <math.h>

#include "core/log.h"
#include "data/verify.h"
#include "optim/schedule.h"
#include "train/banner.h"
#include "train/begin.h"
#include "train/duration.h"
#include "train/evaluate.h"
#include "train/final.h"
#include "train/origin.h"
#include "train/outline.h"
#include "train/patience.h"
#include "train/stop.h"
#include "train/stopwatch.h"
#include "train/update.h"
#include "train/usage.h"

enum { VERIFY_SECONDS = 1 };

typedef struct Trainer {
    const Config *c;
    const TrainRequest *r;
    RunDir dir;
    Loader loader;
    Verify verify; /* of the loader's data */
    Engine engine;
    Arena memory;
    State state;
    Identity was;  /* of the checkpoint */
    Origin origin; /* of a run that begins */
    real *grads;
    size_t planned; /* bytes */
    Meter meter;
    int64_t horizon, end; /* the last update of the schedule, and of this process */
    int64_t every;        /* updates between validations */
    Keeper keep;
    Final final;
    bool goes_on; /* from a checkpoint */
    bool begun;   /* the directory tells of updates: of those of the checkpoint, or of others */
} Trainer;

static bool interrupted(Trainer *t, Err *err) {
    if (!keep_at_end(&t->keep, err)) return false;
    return err_set(err, EX_TEMPFAIL, "%s: stopped after update %lld of %lld, which is saved in %s",
                   stop_asked(), (long long)t->state.update, (long long)t->horizon, t->dir.dir);
}

/* ---- numbers that are not finite ---- */

/* The run ends, with the state at hand saved; `or_else`: what else may help here. */
static bool end_at(Trainer *t, const char *what, const char *or_else, Err *err) {
    const char *rollback = t->c->train.nan == GUARD_ROLLBACK ? "" : " or train.nan=rollback";
    const double times = t->state.guard.rollbacks;
    char after[48] = "";
    Err lost;
    if (times > 0) snprintf(after, sizeof after, ", after %g rollbacks", times);
    if (!keep_at_end(&t->keep, &lost))
        return err_set(err, EX_IOERR, "%s%s. NOT all is saved: %s", what, after, lost.text);
    return err_set(err, EX_SOFTWARE,
                   "%s%s. The state of update %lld is saved in %s. A lower train.lr, a longer "
                   "train.warmup, a train.clip%s may help, in another --out%s",
                   what, after, (long long)t->state.update, t->dir.dir, rollback, or_else);
}

/* What is at hand is saved where the other is not to be had. */
static bool roll_back(Trainer *t, const char *what, int64_t from, Err *err) {
    const State *s = &t->state;
    Err why;
    if (!keep_may_roll_back(&t->keep, &why)) {
        char text[2048];
        snprintf(text, sizeof text, "%s; and the run cannot go back: %s", what, why.text);
        return end_at(t, text, "", err);
    }
    if (!keep_roll_back(&t->keep, from, &why))
        return err_set(err, why.code, "%s; and the run cannot go back: %s", what, why.text);
    engine_weights(&t->engine, s->w);
    log_warn("%s. Back to update %lld, with %g of the learning rate from here on (%g of %d times)",
             what, (long long)s->update, s->guard.rate, s->guard.rollbacks, GUARD_MOST_ROLLBACKS);
    return true;
}

/* The update, or the validation of `from`, is not finite, and the run may not leave it out. */
static bool not_finite(Trainer *t, const char *what, int64_t from, const char *or_else, Err *err) {
    if (t->c->train.nan == GUARD_ROLLBACK && t->state.guard.rollbacks < GUARD_MOST_ROLLBACKS)
        return roll_back(t, what, from, err);
    return end_at(t, what, or_else, err);
}

/* ---- an update ---- */

static bool bad_update(Trainer *t, Update *u, Err *err) {
    const Guard *g = &t->state.guard;
    char bad[256], what[512];
    update_describe_bad(u, bad, sizeof bad);
    snprintf(what, sizeof what, "update %lld: %s; it is not made", (long long)u->number, bad);
    const bool skip = t->c->train.nan == GUARD_SKIP;
    if (!skip || g->in_a_row == 0) update_tell_bad(u);
    if (!skip) return not_finite(t, what, u->number, "; or train.nan=skip, in this --out", err);
    update_skip(u);
    t->keep.saved = false;
    meter_skip(&t->meter, &t->state);
    if (g->in_a_row >= GUARD_MOST_SKIPPED) {
        format_add(what, sizeof what, ", the last of %g in a row", g->in_a_row);
        return end_at(t, what, "", err);
    }
    log_warn("%s (%g are left out so far, %g in a row)", what, g->skipped, g->in_a_row);
    return true;
}

static bool update(Trainer *t, Err *err) {
    const TrainConf *conf = &t->c->train;
    const Stopwatch watch = stopwatch_start();
    Update u = {conf, &t->loader, &t->engine, &t->state, t->grads, t->state.update + 1};
    u.lr = conf->lr * schedule_factor(conf->schedule, u.number, conf->warmup, t->horizon) *
           t->state.guard.rate;
    if (!update_gradients(&u)) return interrupted(t, err);
    const double computed = stopwatch_seconds(&watch);
    if (!verify_wait(&t->verify, err)) return false;
    const Stopwatch after = stopwatch_start(); /* the wait is no training */
    const bool finite = update_is_finite(&u);
    if (finite) update_commit(&u);
    if (!finite && !bad_update(t, &u, err)) return false;
    if (t->state.update < u.number) return true; /* it went back */
    t->keep.saved = false;
    u.work.seconds = computed + stopwatch_seconds(&after);
    meter_update(&t->meter, &t->state, &u.work, u.lr, u.norm);
    return true;
}

/* ---- validation ---- */

/* Answers a signal that asks for it, too. */
static bool save(Trainer *t, Err *err) {
    const bool asked = stop_take_save();
    if (!keep_last(&t->keep, err)) return false;
    if (asked && t->keep.saved)
        log_info("SIGUSR2: update %lld is saved in %s", (long long)t->state.update, t->dir.dir);
    return true;
}

static bool validation_due(const Trainer *t) {
    const State *s = &t->state;
    return s->evaluated < s->update && (s->update % t->every == 0 || s->update == t->horizon);
}

/* A signal came, or a number is not finite, as err says. */
static bool not_validated(Trainer *t, Err *err) {
    char what[sizeof err->text + 64];
    if (err->code == EX_TEMPFAIL) return interrupted(t, err);
    snprintf(what, sizeof what, "validation (update %lld): %s", (long long)t->state.update,
             err->text);
    return not_finite(t, what, t->state.update, "", err);
}

static bool validate(Trainer *t, Err *err) {
    State *s = &t->state;
    const int count = t->loader.examples[SPLIT_VAL];
    const Stopwatch watch = stopwatch_start();
    char loss[64];
    Score score;
    if (s->ema) engine_weights(&t->engine, s->ema);
    const bool finite =
        evaluate(&score, &t->engine, &t->loader, SPLIT_VAL, "validating", NULL, err);
    if (s->ema) engine_weights(&t->engine, s->w);
    if (!verify_wait(&t->verify, err)) return false;
    if (!finite) return not_validated(t, err);
    meter_validation(&t->meter, s->update, &score, count, stopwatch_seconds(&watch));
    s->evaluated = s->update;
    const bool best = keep_would_be_best(&t->keep, &score);
    patience_count(t->c, s, best);
    if (best) keep_best(&t->keep, &score);
    log_info("update %lld, epoch %.2f: validation accuracy %.2f %%, %s%s", (long long)s->update,
             (double)s->update / (double)t->meter.per_epoch, 100 * score.accuracy,
             loss_text(loss, sizeof loss, score.loss, t->c->train.objective),
             best ? ": the best so far" : "");
    keep_validated(&t->keep);
    if (!save(t, err)) return false;
    keep_for_rollback(&t->keep);
    meter_peak(&t->meter);
    return true;
}

/* ---- the end ---- */

/* What the tests could not do is told; what is not saved is tried again. */
static bool untested(Trainer *t, Err *err) {
    Err lost;
    if (!keep_at_end(&t->keep, &lost))
        format_add(err->text, sizeof err->text, ". NOT all is saved: %s", lost.text);
    return false;
}

static bool test(Trainer *t, Err *err) {
    char what[sizeof err->text];
    if (final_make(&t->final, err)) return true;
    if (err->code == EX_TEMPFAIL) return interrupted(t, err);
    if (err->code != EX_SOFTWARE) return untested(t, err);
    snprintf(what, sizeof what, "%s", err->text);
    return end_at(t, what, "", err);
}

static void tell_end(const Trainer *t) {
    char time[32], own[32], mapped[32];
    const Usage usage = usage_read();
    const double most = usage.own > t->meter.most_own ? usage.own : t->meter.most_own;
    log_info("%s of training; %s of memory of its own, and %s of mapped files",
             format_duration(time, sizeof time, t->meter.seconds),
             format_bytes(own, sizeof own, most),
             format_bytes(mapped, sizeof mapped, usage.mapped));
    guard_tell(&t->state.guard);
    char best[64] = "";
    const int64_t update =
        t->final.n > RUN_BEST ? t->final.test[RUN_BEST].update : t->state.best_update;
    if (update) snprintf(best, sizeof best, "best.safetensors (update %lld), ", (long long)update);
    log_info("in %s: metrics.jsonl, %slast.safetensors (update %lld)", t->dir.dir, best,
             (long long)t->state.update);
}

/* As if this were the run's last update. */
static void end_here(Trainer *t) { t->end = t->horizon = t->state.update; }

/* When the time is up, the update at hand is the last; of none that was kept there is no result. */
static bool heed_time(Trainer *t, Err *err) {
    const bool up = meter_time_is_up(&t->meter);
    if (up && t->state.update == 0 && t->state.guard.rollbacks > 0)
        return end_at(t, "the time is up, and no update is kept", "", err);
    if (up) end_here(t);
    return true;
}

static void give_up(Trainer *t) {
    const int64_t at = keep_best_so_far(&t->keep);
    end_here(t);
    meter_patience(&t->meter, &t->state);
    log_info("train.patience is out: none of %lld validations is better than that of update %lld",
             (long long)t->state.stale, (long long)at);
}

/* Validates where that is due, also when going on from a validation that was interrupted. */
static bool loop(Trainer *t, Err *err) {
    if (t->begun) meter_mark(&t->meter, "resume", t->state.update);
    meter_changes(&t->meter, t->state.update, &t->was, &t->state.identity);
    /* Or a process that is killed leaves lines of other data than its checkpoint's. */
    if (identity_other_data(&t->was, &t->state.identity) && !save(t, err)) return false;
    for (;;) {
        if (!heed_time(t, err)) return false;
        const bool ends_a_part = validation_due(t);
        if (ends_a_part && !validate(t, err)) return false;
        if (ends_a_part) continue; /* it may have gone back, from the last update too */
        if (patience_is_out(t->c, &t->state) && t->state.update < t->horizon) give_up(t);
        if (t->state.update >= t->end) return true;
        if (!update(t, err)) return false;
        const bool due = stop_save_asked() || clock_seconds() >= t->keep.next;
        if (due && !validation_due(t) && !save(t, err)) return false;
    }
}

/* The state of a finished run that is not to be tested again stays what it is. */
static bool has_work(const Trainer *t) {
    const bool more = t->state.update < t->end && !patience_is_out(t->c, &t->state);
    return more || validation_due(t) || !t->r->no_test;
}

static bool work(Trainer *t, TrainEnd *end, Err *err) {
    keep_begin(&t->keep);
    stop_on_signals();
    stopwatch_on_signals();
    if (!heed_time(t, err)) return false;
    if (!has_work(t))
        t->keep.saved = true; /* by whatever build */
    else if (!loop(t, err))
        return false;
    if (patience_is_out(t->c, &t->state)) end_here(t);
    *end = t->state.update >= t->horizon ? TRAIN_DONE : TRAIN_STOPPED;
    Err lost; /* of a figure that shares are held against: not the run's */
    rundir_add(&t->dir, "peak_gflops", cJSON_CreateNumber(t->meter.peak), &lost);
    if (*end == TRAIN_DONE && !t->r->no_test && !test(t, err)) return false;
    if (!keep_at_end(&t->keep, err)) return false;
    tell_end(t);
    return true;
}

/* ---- the start ---- */

static void layout(Trainer *t) {
    Arena *a = &t->memory;
    const Params *p = &t->c->model.params;
    const bool averages = t->c->train.ema > 0;
    state_layout(&t->state, a, p, averages);
    t->grads = arena_reals(a, p->total);
    keep_layout(&t->keep, a, p, averages);
    loader_layout(&t->loader, a);
}

/* Before the data, which may have to be made first, and before anything is asked of the disk. */
static bool plan_memory(Trainer *t, Err *err) {
    const TrainConf *conf = &t->c->train;
    t->loader.c = t->c;
    layout(t);
    t->planned = size_sum(t->memory.used, engine_bytes(&t->c->model, conf->batch, conf->lanes));
    banner_memory(t->c, t->planned);
    t->memory = (Arena){0};
    return begin_memory(t->c, err);
}

static bool open_memory(Trainer *t, Err *err) {
    const TrainConf *conf = &t->c->train;
    layout(t);
    if (!arena_open(&t->memory, t->memory.used, err)) return false;
    layout(t);
    if (t->r->dry_run) return true;
    if (!engine_open(&t->engine, &t->c->model, conf->batch, conf->lanes, true, err)) return false;
    t->engine.smoothing = conf->label_smoothing;
    return true;
}

/* Not damaged, but not of this run, or of another version. */
static bool is_whole(const char *path) {
    StFile f;
    if (!st_open(&f, path, &(Err){0})) return false;
    const bool whole = st_meta(&f, "crc32") && st_check_crc(&f, &(Err){0});
    st_close(&f);
    return whole;
}

/* What to do about a checkpoint that is no good. One that cannot be read just now may be. */
static bool explain_damage(const Trainer *t, Err *err) {
    if (err->code != EX_DATAERR) return false;
    if (is_whole(t->dir.last))
        return err_set(err, err->code, "%s. It is whole. " KEEP_ANEW, err->text);
    return keep_explain(&t->keep, err);
}

/* The checkpoint, or initial weights, with train.init those that others have. */
static bool open_state(Trainer *t, Err *err) {
    State *s = &t->state;
    s->facts = t->c->facts.text;
    if (!t->goes_on) {
        identity_here(&s->identity, &t->loader);
        params_init(s->params, s->w, (uint64_t)t->c->train.seed);
        if (!keep_may_begin(&t->keep, t->meter.per_epoch, err) ||
            !origin_take(&t->origin, s->w, err))
            return false;
        log_info("run      %s, from the start", t->dir.dir);
        origin_tell(&t->origin);
        state_begin_averages(s);
        return true;
    }
    if (!state_load(s, t->c->resolved, t->dir.last, err)) return explain_damage(t, err);
    t->was = s->identity;
    identity_here(&s->identity, &t->loader);
    t->keep.saved = identity_same(&t->was, &s->identity);
    if (!identity_goes_on(&t->was, &s->identity, &t->loader, t->dir.last, t->r->accept_data, err))
        return false;
    if (identity_differs(&t->was, &s->identity, t->c->holdout > 0 ? SPLIT_TRAIN : SPLIT_VAL))
        keep_forget_best(&t->keep);
    log_info("run      %s: resuming at update %lld%s", t->dir.dir, (long long)s->update,
             s->update < t->end ? "" : ", the last: nothing is left to train");
    return true;
}

/* Makes the data where that is possible, but not for a checkpoint: they would be others. A dry run
 * makes nothing and does without. */
static bool open_data(Trainer *t, Err *err) {
    const Config *c = t->c;
    if (t->r->dry_run && !t->goes_on && task_would_make(c->task, c->data_dir)) {
        log_info("data     %s: not there yet; a run makes it first", c->data_dir);
        return true;
    }
    if (!t->r->dry_run) dataset_tidy(c->data_dir);
    if ((!t->goes_on && !task_prepare(c->task, c->data_dir, err)) ||
        !loader_open(&t->loader, c, err))
        return t->goes_on && identity_no_data(c, t->dir.last, err);
    if (!t->r->dry_run && !verify_start(&t->verify, t->loader.split, VERIFY_SECONDS, err))
        return false;
    if (t->verify.reader) log_info("data     their hashes are checked beside the first update");
    const TrainConf *conf = &c->train;
    const int64_t an_epoch = t->meter.per_epoch = loader_updates_per_epoch(&t->loader);
    t->horizon = duration_updates(&t->loader);
    t->end = t->r->stop_at && t->r->stop_at < t->horizon ? t->r->stop_at : t->horizon;
    t->every = conf->eval_every ? conf->eval_every : an_epoch;
    banner_data(&t->loader, t->horizon);
    return true;
}

static bool describe(const Trainer *t, Err *err) {
    cJSON *origin = origin_describe(&t->origin);
    const bool ok =
        rundir_describe(&t->dir, t->c->resolved, t->r->command, t->r->fast, origin, err);
    cJSON_Delete(origin);
    return ok;
}

/* A new run that has its data is described at once: one that fails from here on is one that reports
 * can count. One that was begun is when it goes on: till then its directory tells what it was. */
static bool open_dir(Trainer *t, Err *err) {
    if (!rundir_name(&t->dir, t->r->dir, err) || !rundir_check(&t->dir, err) ||
        (!file_exists(t->dir.last) && !begin_data(t->c, err)) ||
        (!t->r->dry_run && !rundir_open(&t->dir, err)))
        return false;
    t->goes_on = file_exists(t->dir.last);
    t->begun = t->goes_on || !file_is_empty(t->dir.metrics) || file_exists(t->dir.best) ||
               keep_has_left(&t->keep);
    if (t->begun && !rundir_same_config(&t->dir, t->c->resolved, err)) return false;
    if (t->begun && !t->goes_on && !keep_may_begin(&t->keep, 0, err)) return false;
    if (!t->goes_on && !origin_open(&t->origin, t->c, err)) return false;
    return t->r->dry_run || t->begun || describe(t, err);
}

/* Metrics up to a number of lines: a run may have an end that it is never to reach. */
static bool open_room(Trainer *t, Err *err) {
    enum { LINE = 320, MOST_LINES = 100000 };
    int64_t lines = t->end / t->c->train.log_every + 3 * (t->end / t->every);
    if (lines > MOST_LINES) lines = MOST_LINES;
    const int64_t validations = t->end / t->every + 1;
    const int keep = t->c->train.keep ? t->c->train.keep + 1 : 0;
    const size_t bytes =
        state_file_bytes(&t->c->model.params, t->c->train.ema > 0, t->c->facts.text);
    return rundir_take_room(&t->dir, bytes, (size_t)lines * LINE + final_bytes(&t->final),
                            t->c->train.nan == GUARD_ROLLBACK,
                            keep < validations ? keep : (int)validations, err);
}

static bool open_meter(Trainer *t, Err *err) {
    Meter *m = &t->meter;
    m->conf = &t->c->train;
    m->among = t->r->among;
    m->horizon = t->horizon, m->end = t->end, m->every = t->every;
    m->validation = t->loader.examples[SPLIT_VAL];
    m->tests = t->end == t->horizon && !t->r->no_test ? 2.0 * t->loader.examples[SPLIT_TEST] : 0;
    return run_seconds_made(t->dir.metrics, t->state.update, &m->seconds, err) &&
           metrics_open(&m->file, t->dir.metrics, err) &&
           (!m->conf->tensorboard || events_open(&m->events, t->dir.dir, t->state.update, err));
}

static void print_outline(const Trainer *t) {
    const Outline o = {.c = t->c,
                       .loader = t->horizon ? &t->loader : NULL,
                       .dir = t->dir.dir,
                       .update = t->state.update,
                       .horizon = t->horizon,
                       .planned = t->planned,
                       .peak = t->meter.peak};
    outline_print(&o, stdout);
}

static bool start(Trainer *t, TrainEnd *end, Err *err) {
    if (!patience_may_end(t->c, err) || !open_dir(t, err)) return false;
    if (!t->r->brief) banner_parameters(t->c);
    banner_model(t->c);
    if (!plan_memory(t, err) || !open_data(t, err)) return false;
    meter_peak(&t->meter);
    if (!t->r->brief) banner_machine(t->meter.peak);
    banner_ranks(&t->c->train);
    if (!open_memory(t, err)) return false;
    if ((!t->r->dry_run && !open_room(t, err)) || !open_state(t, err)) return false;
    if (t->begun && !duration_check(&t->dir, &t->c->train, t->state.update, t->horizon, err))
        return false;
    if (t->r->json) print_outline(t);
    if (t->r->dry_run) return true;
    engine_weights(&t->engine, t->state.w);
    if (t->begun && !describe(t, err)) return false;
    if (!rundir_add(&t->dir, "data", loader_describe(&t->loader), err) ||
        !rundir_add(&t->dir, "updates", cJSON_CreateNumber((double)t->horizon), err) ||
        !rundir_add(&t->dir, "planned_bytes", cJSON_CreateNumber((double)t->planned), err) ||
        !rundir_add(&t->dir, "peak_gflops", cJSON_CreateNumber(t->meter.peak), err))
        return false;
    origin_close(&t->origin);
    keep_forget_later(&t->keep);
    return keep_prepare_rollback(&t->keep, t->goes_on, err) && open_meter(t, err) &&
           work(t, end, err);
}

bool train_run(const Config *c, const TrainRequest *r, TrainEnd *end, Err *err) {
    Trainer t = {.c = c, .r = r, .dir.lock = LOCK_NONE, .meter = {.file.fd = -1, .events.fd = -1}};
    t.keep = (Keeper){.c = c, .dir = &t.dir, .meter = &t.meter, .state = &t.state};
    t.final = (Final){&t.keep, &t.meter, &t.loader, &t.verify, &t.engine};
    *end = TRAIN_DONE;
    const bool ok = start(&t, end, err);
    log_progress_end();
    metrics_close(&t.meter.file);
    events_close(&t.meter.events);
    engine_close(&t.engine);
    arena_close(&t.memory);
    verify_close(&t.verify);
    loader_close(&t.loader);
    origin_close(&t.origin);
    rundir_close(&t.dir);
    return ok;
}
