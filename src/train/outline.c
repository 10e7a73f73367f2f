#include "train/outline.h"

#include "core/cpu.h"
#include "core/gemm.h"
#include "core/version.h"
#include "io/json_print.h"
#include "train/state.h"

/* ---- numbers ---- */

OutlineWork outline_work(const Loader *f) {
    OutlineWork w = {0};
    const int n = f->examples[SPLIT_TRAIN];
    double own = 0, exact = 0;
    for (int i = 0; i < n; i++) {
        const int example = loader_index(f, SPLIT_TRAIN, i);
        const double t = loader_tokens(f, SPLIT_TRAIN, example);
        w.tokens += t / n;
        w.flops += loader_flops(f, SPLIT_TRAIN, example) / n;
        if (t > w.most_tokens) w.most_tokens = t;
        w.cut += (double)loader_cuts(f, SPLIT_TRAIN, example) / n;
        loader_attention_flops(f, SPLIT_TRAIN, example, &own, &exact);
    }
    w.attention = own / exact;
    return w;
}

double outline_update_flops(const Loader *f, const OutlineWork *work) {
    const TrainConf *t = &f->c->train;
    return 3 * work->flops * t->batch * t->accumulate;
}

/* Gradient sums of lanes are planned for all lanes, but only about threads + log2 lanes of them
 * live at a time; a best state waits in memory only where it cannot be written, and its moments are
 * read by no test, nor are weights that have averages. */
double outline_touched(const Config *c, size_t planned) {
    const int most = c->train.lanes < c->train.batch ? c->train.lanes : c->train.batch;
    int live = lanes_threads();
    for (int n = most; n > 1; n = (n + 1) / 2) live++;
    const double spare = most > live ? most - live : 0;
    const double copies = spare + 2 + (c->train.ema > 0);
    return (double)planned - copies * (double)c->model.params.total * sizeof(real);
}

/* ---- JSON ---- */

static cJSON *parameter(const Param *p) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", p->name);
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (int i = 0; i < p->ndim; i++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)p->shape[i]));
    cJSON_AddBoolToObject(o, "trained", (p->flags & PARAM_TRAINED) != 0);
    cJSON_AddBoolToObject(o, "decayed", (p->flags & PARAM_DECAYED) != 0);
    return o;
}

static cJSON *parameters(const Params *p) {
    cJSON *o = cJSON_CreateObject(), *list = cJSON_CreateArray();
    for (int i = 0; i < p->count; i++) cJSON_AddItemToArray(list, parameter(&p->list[i]));
    cJSON_AddNumberToObject(o, "values", (double)params_values(p, 0));
    cJSON_AddNumberToObject(o, "trained", (double)params_values(p, PARAM_TRAINED));
    cJSON_AddNumberToObject(o, "decayed", (double)params_values(p, PARAM_DECAYED));
    cJSON_AddItemToObject(o, "list", list);
    return o;
}

static cJSON *memory(const Outline *o) {
    const Config *c = o->c;
    cJSON *m = cJSON_CreateObject();
    cJSON_AddNumberToObject(m, "planned_bytes", (double)o->planned);
    cJSON_AddNumberToObject(m, "touched_bytes", outline_touched(c, o->planned));
    cJSON_AddNumberToObject(m, "checkpoint_bytes",
                            (double)state_bytes(&c->model.params, c->train.ema > 0));
    return m;
}

static void add_data(cJSON *o, const Loader *f, int64_t horizon) {
    const OutlineWork w = outline_work(f);
    cJSON *data = loader_describe(f);
    cJSON_AddStringToObject(data, "dir", f->c->data_dir);
    cJSON_AddNumberToObject(data, "tokens_mean", w.tokens);
    cJSON_AddNumberToObject(data, "tokens_most", w.most_tokens);
    cJSON_AddNumberToObject(data, "cut_share", w.cut);
    cJSON_AddItemToObject(o, "data", data);
    cJSON_AddNumberToObject(o, "updates", (double)horizon);
    cJSON_AddNumberToObject(o, "updates_an_epoch", (double)loader_updates_per_epoch(f));
    cJSON_AddNumberToObject(o, "gflop_forward", w.flops / 1e9);
    cJSON_AddNumberToObject(o, "attention_share", w.attention);
    cJSON_AddNumberToObject(o, "gflop_update", outline_update_flops(f, &w) / 1e9);
}

static cJSON *machine(double peak) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "cpu", cpu_describe());
    cJSON_AddNumberToObject(o, "threads", lanes_threads());
    cJSON_AddNumberToObject(o, "peak_gflops", peak);
    cJSON_AddStringToObject(o, "blas", gemm_describe());
    return o;
}

void outline_print(const Outline *o, FILE *f) {
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "version", CAST_VERSION);
    cJSON_AddStringToObject(j, "run", o->dir);
    cJSON_AddNumberToObject(j, "update", (double)o->update);
    cJSON_AddItemToObject(j, "parameters", parameters(&o->c->model.params));
    cJSON_AddItemToObject(j, "memory", memory(o));
    if (o->loader)
        add_data(j, o->loader, o->horizon);
    else
        cJSON_AddNullToObject(j, "data");
    cJSON_AddItemToObject(j, "machine", machine(o->peak));
    cJSON_AddItemToObject(j, "config", cJSON_Duplicate(o->c->resolved, true));
    json_print(f, j);
    cJSON_Delete(j);
}
