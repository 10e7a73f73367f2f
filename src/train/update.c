#include "train/update.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "model/finite.h"
#include "optim/average.h"
#include "train/stop.h"

/* ---- gradients ---- */

static void count_batch(Update *u, const Batch *b) {
    for (int i = 0; i < b->n; i++) {
        u->loss += b->out.loss[i];
        u->correct += b->out.correct[i];
        u->answers += b->answers[i];
    }
    u->work.samples += b->n;
    u->work.tokens += b->tokens;
    u->work.flops += 3 * b->flops;
}

bool update_gradients(Update *u) {
    const TrainConf *conf = u->conf;
    const double scale = 1.0 / loader_answers(u->loader, u->number);
    RngKey key = rng_subkey_name(rng_key((uint64_t)conf->seed), "dropout");
    key = rng_subkey(key, (uint64_t)u->number);
    memset(u->grads, 0, u->state->params->total * sizeof *u->grads);
    engine_begin_update(u->engine);
    for (int micro = 0; micro < conf->accumulate; micro++) {
        if (stop_asked()) return false;
        loader_train(u->loader, u->number, micro);
        const Batch *b = &u->loader->batch;
        engine_step(u->engine, b->samples, b->n, scale, key, u->grads, &b->out, NULL);
        count_batch(u, b);
    }
    if (stop_asked()) return false;
    u->norm = adamw_grad_norm(&u->state->adamw, u->grads);
    return true;
}

/* ---- numbers that are not finite ---- */

/* Of the updates that were made. */
static int64_t adamw_step(const Update *u) { return u->number - (int64_t)u->state->guard.skipped; }

bool update_is_finite(Update *u) {
    const State *s = u->state;
    if (!isfinite(u->loss) || !isfinite(u->norm)) return false;
    u->overflow = finite_statistics(u->engine);
    if (!u->overflow)
        u->overflow = adamw_overflow(&s->adamw, &u->conf->adamw, s->w, u->grads, u->lr,
                                     clip_factor(u->norm, u->conf->clip), adamw_step(u));
    return !u->overflow;
}

void update_describe_bad(const Update *u, char *text, size_t size) {
    snprintf(text, size, "loss %g, norm of the gradients %g: ", fabs(u->loss) / u->answers,
             fabs(u->norm));
    if (!u->overflow)
        format_add(text, size, "not finite");
    else if (u->overflow->flags & PARAM_TRAINED)
        format_add(text, size, "'%s' or AdamW's moments of it would not be finite",
                   u->overflow->name);
    else
        format_add(text, size, "'%s' would not be finite", u->overflow->name);
}

static void tell_bad_parameters(const Update *u) {
    const Params *p = u->state->params;
    char list[1024] = "";
    int bad = 0, listed = 0, trained = 0;
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        if (!(q->flags & PARAM_TRAINED)) continue;
        trained++;
        const size_t n = finite_count_bad(u->grads + q->at, q->n);
        bad += n > 0;
        if (n == 0 || strlen(list) > sizeof list - 128) continue;
        format_add(list, sizeof list, " %s (%zu of %zu)", q->name, n, q->n);
        listed++;
    }
    if (bad == trained)
        log_warn("the gradients of all parameters are not finite");
    else if (bad)
        log_warn("gradients that are not finite:%s%s", list, bad > listed ? " and others" : "");
}

static void tell_examples(const Update *u) {
    char list[1024] = "";
    bool full = false;
    for (int micro = 0; micro < u->conf->accumulate && !full; micro++) {
        loader_train(u->loader, u->number, micro);
        const Batch *b = &u->loader->batch;
        for (int i = 0; i < b->n && !full; i++) {
            full = strlen(list) >= sizeof list - 32;
            if (!full) format_add(list, sizeof list, " %d", b->examples[i]);
        }
    }
    log_warn("training examples of update %lld:%s%s", (long long)u->number, list,
             full ? " and others" : "");
}

void update_tell_bad(const Update *u) {
    tell_bad_parameters(u);
    tell_examples(u);
}

/* ---- what becomes of it ---- */

void update_commit(const Update *u) {
    State *s = u->state;
    adamw_update(&s->adamw, &u->conf->adamw, s->w, u->grads, u->lr,
                 clip_factor(u->norm, u->conf->clip), adamw_step(u));
    engine_commit(u->engine, s->w);
    if (s->ema) average_update(s->params, s->ema, s->w, average_decay(u->conf->ema, adamw_step(u)));
    engine_weights(u->engine, s->w);
    s->update++;
    s->guard.in_a_row = 0;
    s->tally.updates++;
    s->tally.answers += u->answers;
    s->tally.loss += u->loss;
    s->tally.correct += u->correct;
    s->tally.norm += u->norm;
}

void update_skip(const Update *u) {
    u->state->update++;
    guard_skip(&u->state->guard);
}
