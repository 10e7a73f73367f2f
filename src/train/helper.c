#include "train/helper.h"

#include <stdlib.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "model/crew.h"
#include "model/engine.h"
#include "train/stop.h"

typedef struct Helper {
    Model m;
    Engine e;
    Sample *samples; /* (max_batch) */
    Outcome out;
    real *w, *grads; /* (total) grads: of what others' lanes come to, and nobody reads */
} Helper;

/* Held against memory is what an update touches whatever it reads, as cast_train's rank 0 has it.
 */
static bool open_engine(Helper *h, const CrewModel *c, const char *text, Err *err) {
    cJSON *keys = cJSON_Parse(text);
    const bool ok = model_open(&h->m, keys, &c->task, "rank 0's config", err) &&
                    mem_fits(2 * h->m.params.total * sizeof(real), err) &&
                    engine_open(&h->e, &h->m, c->max_batch, c->lanes, c->train, err);
    cJSON_Delete(keys);
    return ok;
}

static void open_memory(Helper *h) {
    const size_t B = (size_t)h->e.max_batch, total = h->m.params.total;
    h->samples = mem_alloc(B, sizeof *h->samples);
    h->out = (Outcome){.loss = mem_alloc(B, sizeof(double)),
                       .predicted = mem_alloc(B, sizeof(int)),
                       .correct = mem_alloc(B, sizeof(int))};
    h->w = mem_alloc(total, sizeof *h->w);
    h->grads = mem_alloc(total, sizeof *h->grads);
}

static void be_hired(Helper *h) {
    CrewModel c;
    Err err = {0};
    char *keys;
    if (crew_offer(&c, &keys, &err) && open_engine(h, &c, keys, &err)) open_memory(h);
    crew_answer(&h->m, c.max_batch, &err);
    mem_free(keys);
}

static void be_released(Helper *h) {
    crew_leave();
    void *const all[] = {h->samples, h->out.loss, h->out.predicted, h->out.correct, h->w, h->grads};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
    engine_close(&h->e);
    if (h->m.mech) model_close(&h->m);
    *h = (Helper){0};
}

static void work_on_batch(Helper *h, const Call *call) {
    Engine *e = &h->e;
    crew_take_batch(&h->m, &e->deal, call, h->samples);
    if (call->order == CREW_EVALUATE) {
        engine_evaluate(e, h->samples, call->B, &h->out, NULL);
        return;
    }
    e->smoothing = call->smoothing;
    engine_begin_update(e);
    engine_step(e, h->samples, call->B, call->scale, call->key, h->grads, &h->out, NULL);
}

static void help_rank_0(void) {
    Helper h = {0};
    for (;;) {
        const Call call = crew_call();
        switch (call.order) {
        case CREW_HIRE: be_hired(&h); break;
        case CREW_RELEASE: be_released(&h); break;
        case CREW_WEIGHTS:
            ranks_broadcast(h.w, h.m.params.total * sizeof *h.w);
            engine_weights(&h.e, h.w);
            break;
        case CREW_STEP:
        case CREW_EVALUATE: work_on_batch(&h, &call); break;
        case CREW_ECHO: crew_answer_echo(&call); break;
        case CREW_DISMISS: be_released(&h); return;
        }
    }
}

int helper_refuse(const char *program, const Err *err) {
    return err->code == EX_USAGE ? err->code : err_report(program, err);
}

int helper_main(const char *program, int threads) {
    Err err = {0};
    stop_ignore_signals();
    lanes_open(threads);
    if (!ranks_open(lanes_processors(), &err)) return helper_refuse(program, &err);
    if (!ranks_first_here()) log_silence();
    if (!lanes_start(&err)) return err_report(program, &err);
    gemm_open();
    help_rank_0();
    ranks_close();
    return EXIT_SUCCESS;
}

void helper_end(void) {
    if (ranks_count() > 1) crew_dismiss();
}
