#include "train/banner.h"

#include <stdio.h>
#include <string.h>

#include "core/cpu.h"
#include "core/gemm.h"
#include "core/log.h"
#include "core/ranks.h"
#include "io/json.h"
#include "optim/schedule.h"
#include "train/outline.h"
#include "train/state.h"

/* ---- parameters ---- */

static const char *treatment(const Param *p) {
    if (!(p->flags & PARAM_TRAINED)) return "not trained";
    return p->flags & PARAM_DECAYED ? "trained, decayed" : "trained";
}

static void print_parameter(const Param *p, int depth) {
    const char *rest;
    char name[96], type[ST_DESCRIBED], count[32];
    const int block = params_block(p->name, &rest);
    if (block > 0) return;
    if (block == 0 && depth > 1) {
        snprintf(name, sizeof name, "blocks.0-%d.%s", depth - 1, rest);
        snprintf(count, sizeof count, "%d x %zu", depth, p->n);
    } else {
        snprintf(name, sizeof name, "%s", p->name);
        snprintf(count, sizeof count, "%zu", p->n);
    }
    const char *shape = strchr(st_describe(type, DT_F32, p->ndim, p->shape), '[');
    log_info("  %-32s %-14s %14s  %s", name, shape, count, treatment(p));
}

void banner_parameters(const Config *c) {
    const Params *p = &c->model.params;
    char head[96];
    snprintf(head, sizeof head, "  %-32s %-14s %14s", "parameter", "shape", "values");
    log_headed(LOG_FAINT, head, "%s", "");
    for (int i = 0; i < p->count; i++) print_parameter(&p->list[i], c->model.conf.depth);
    log_info("  %-32s %-14s %14zu  %zu trained, %zu decayed", "in all", "", params_values(p, 0),
             params_values(p, PARAM_TRAINED), params_values(p, PARAM_DECAYED));
}

/* ---- model, data, machine ---- */

void banner_model(const Config *c) {
    const ModelConf *k = &c->model.conf;
    log_info("model    %s attention, %s norm, depth %d, %d heads, width %d, %d inside feed-forward",
             c->model.mech->name, json_string(c->resolved, "model.norm"), k->depth, k->heads, k->d,
             k->d_ff);
}

void banner_memory(const Config *c, size_t planned) {
    char all[32], live[32], checkpoint[32];
    log_info("memory   %s planned, about %s touched, data apart; a checkpoint %s",
             format_bytes(all, sizeof all, (double)planned),
             format_bytes(live, sizeof live, outline_touched(c, planned)),
             format_bytes(checkpoint, sizeof checkpoint,
                          (double)state_bytes(&c->model.params, c->train.ema > 0)));
}

static double cut_share(const Loader *f, int split) {
    const int n = f->examples[split];
    int cut = 0;
    for (int i = 0; i < n; i++) cut += loader_cuts(f, split, loader_index(f, split, i));
    return (double)cut / n;
}

/* The benchmark's texts are longer than what it reads, its pictures and expressions are not. */
static void warn_of_cut(const Loader *f, int split, double share) {
    const Task *task = f->c->task;
    const int most = f->c->model.conf.max_length;
    const bool text = task->vocab && task->tokens == TOKENS_BYTES;
    if (share <= 0.5 || (text && most >= task->max_length)) return;
    log_warn("%.0f %% of the %s examples are cut at model.max_length = %d: is %s the set that was "
             "meant?",
             100 * share, split_names[split], most, f->c->data_dir);
}

static void print_lengths(const Loader *f) {
    const OutlineWork w = outline_work(f);
    char one[32], update[32], cut[128] = "", attention[96] = "";
    double share[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        share[s] = s == SPLIT_TRAIN ? w.cut : cut_share(f, s);
        if (share[s] <= 0) continue;
        if (!*cut)
            format_add(cut, sizeof cut, "; longer than %d, and cut: ", f->c->model.conf.max_length);
        else
            format_add(cut, sizeof cut, ", ");
        format_add(cut, sizeof cut, "%.3g %% of %s", 100 * share[s], split_names[s]);
    }
    log_info("lengths  %.0f tokens an example on average, %.0f at most%s", w.tokens, w.most_tokens,
             cut);
    for (int s = 0; s < SPLITS; s++) warn_of_cut(f, s, share[s]);
    if (w.attention != 1)
        snprintf(attention, sizeof attention,
                 "; attention, without projections, %.3g %% of exact attention's",
                 100 * w.attention);
    log_info("work     %sFLOP an example forward, %sFLOP an update%s",
             format_count(one, sizeof one, w.flops),
             format_count(update, sizeof update, outline_update_flops(f, &w)), attention);
}

void banner_data(const Loader *f, int64_t horizon) {
    const TrainConf *t = &f->c->train;
    const int64_t an_epoch = loader_updates_per_epoch(f);
    log_info("data     %s: %d train, %d val, %d test examples", f->c->data_dir,
             f->examples[SPLIT_TRAIN], f->examples[SPLIT_VAL], f->examples[SPLIT_TEST]);
    if (f->c->holdout > 0)
        log_info("holdout  %d of the %d training examples validate (seed %d)",
                 f->split[SPLIT_TRAIN].examples - f->examples[SPLIT_TRAIN],
                 f->split[SPLIT_TRAIN].examples, f->c->holdout_seed);
    else if (f->c->task->holds_out)
        log_info(
            "holdout  none: val.safetensors validates, for %s the test set; 'best' has seen it",
            f->c->task->name);
    if (t->eval_limit)
        log_info("limit    no more than %d examples validate and are tested (train.eval_limit)",
                 t->eval_limit);
    print_lengths(f);
    char petaflops[48] = "", minutes[48] = "";
    if (t->petaflops > 0) snprintf(petaflops, sizeof petaflops, " for %g PFLOP", t->petaflops);
    if (t->minutes > 0) snprintf(minutes, sizeof minutes, " or %g minutes", t->minutes);
    log_info("updates  %lld%s%s, %lld an epoch, of %d x %d examples; lr %g, %s, warm-up %d",
             (long long)horizon, petaflops, minutes, (long long)an_epoch, t->accumulate, t->batch,
             t->lr, json_string(f->c->resolved, "train.schedule"), t->warmup);
    if (t->warmup >= horizon)
        log_warn("train.warmup is %d, and training ends at update %lld: the learning rate rises "
                 "to the end",
                 t->warmup, (long long)horizon);
    else if (horizon == 1 && schedule_ends(t->schedule))
        log_warn("the only update has the learning rate 0, with which schedule %s ends",
                 json_string(f->c->resolved, "train.schedule"));
}

void banner_machine(double peak) {
    log_info("machine  %s, %d threads, FMA peak %.0f GFLOP/s\n         %s", cpu_describe(),
             lanes_threads(), peak, gemm_describe());
}

void banner_ranks(const TrainConf *c) {
    const int ranks = ranks_count(), lanes = c->lanes < c->batch ? c->lanes : c->batch;
    char hosts[256] = "";
    if (ranks < 2) return;
    for (int r = 0; r < ranks && strlen(hosts) < sizeof hosts - RANKS_HOST - 8; r++)
        if (r == 0 || strcmp(ranks_host(r), ranks_host(r - 1)) != 0)
            format_add(hosts, sizeof hosts, "%s%s", r ? ", " : "", ranks_host(r));
    log_info("ranks    %d, the first with %d thread%s, on %s", ranks, lanes_threads(),
             lanes_threads() == 1 ? "" : "s", hosts);
    if (ranks > lanes)
        log_warn("a batch has %d lanes (train.lanes, train.batch): %d of %d ranks have nothing to "
                 "do in training",
                 lanes, ranks - lanes, ranks);
}
