#include "train/trained.h"

#include <string.h>

#include "data/verify.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "train/kept.h"
#include "train/state.h"

static const char *trained_mechanism(const Trained *t) {
    const char *type = json_string(t->from.run.config, "model.attention.type");
    return type ? type : "another";
}

static bool other_mechanism(const Trained *t) {
    return strcmp(trained_mechanism(t), t->config.model.mech->name) != 0;
}

/* The keys of section "model" that were changed; of another mechanism its name alone, since its
 * keys are others. */
static void list_changes(const Trained *t, char *list, size_t size) {
    const cJSON *now = json_at(t->config.resolved, "model");
    cJSON *was = cJSON_Duplicate(json_at(t->from.run.config, "model"), true);
    if (other_mechanism(t)) config_drop_mechanism(json_at(was, "attention"));
    list[0] = '\0';
    if (was && now) config_differences(was, now, "model", list, size);
    cJSON_Delete(was);
}

/* ---- do the weights fit? ---- */

/* Whether a tensor is a mechanism's own, in a block that the model has: all of "attn" but the
 * projections, which are the block's. */
static bool of_mechanism(const Model *m, const char *name) {
    static const char *const shared[] = {"q.", "key.", "v.", "o."};
    int block = 0, used = 0;
    if (sscanf(name, "blocks.%d.attn.%n", &block, &used) != 1 || !used) return false;
    if (block < 0 || block >= m->conf.depth) return false;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (!strncmp(name + used, shared[i], strlen(shared[i]))) return false;
    return true;
}

static bool does_not_fit(const Trained *t, const char *what, Err *err) {
    char list[512];
    const char *task = json_string(t->from.run.config, "task");
    if (task && strcmp(task, t->config.task->name) != 0)
        return err_set(err, EX_CONFIG, "%s: %s. It was trained on task \"%s\", not \"%s\"",
                       t->from.path, what, task, t->config.task->name);
    list_changes(t, list, sizeof list);
    if (!list[0])
        return err_set(err, EX_DATAERR, "%s: %s: the file belongs to another model", t->from.path,
                       what);
    return err_set(err, EX_CONFIG, "%s: %s. To fit these weights, leave %s as trained: %s",
                   t->from.path, what,
                   strstr(list, "), ") ? "one or more of these keys" : "this key", list);
}

static bool is_missing(const Trained *t, const Param *p, Err *err) {
    char what[512], shape[ST_DESCRIBED];
    const Model *m = &t->config.model;
    st_describe(shape, DT_F32, p->ndim, p->shape);
    if (of_mechanism(m, p->name) && other_mechanism(t))
        return err_set(err, EX_CONFIG,
                       "%s: tensor '%s' (%s) is not in it: it was trained with %s attention, which "
                       "has no such weights; %s attention must be trained: cast_train CONFIG "
                       "model.attention.type=%s",
                       t->from.path, p->name, shape, trained_mechanism(t), m->mech->name,
                       m->mech->name);
    snprintf(what, sizeof what, "tensor '%s' (%s) is missing", p->name, shape);
    return does_not_fit(t, what, err);
}

static bool check_param(const Trained *t, const StFile *f, const Param *p, Err *err) {
    const StTensor *x = st_find(f, p->name);
    if (params_lacks_draw(p, f)) return true; /* it will be drawn */
    if (!x) return is_missing(t, p, err);
    const Dtype dtype = x->dtype == DT_F64 ? DT_F64 : DT_F32;
    if (st_want(f, p->name, dtype, p->ndim, p->shape, err)) return true;
    char there[ST_DESCRIBED], wanted[ST_DESCRIBED], what[2 * ST_DESCRIBED + 128];
    st_describe(there, x->dtype, x->ndim, x->shape);
    st_describe(wanted, dtype, p->ndim, p->shape);
    snprintf(what, sizeof what, "tensor '%s' is %s, but this model takes %s", p->name, there,
             wanted);
    return does_not_fit(t, what, err);
}

static bool check_fit(const Trained *t, const StFile *f, Err *err) {
    const Model *m = &t->config.model;
    char what[512];
    for (int i = 0; i < m->params.count; i++)
        if (!check_param(t, f, &m->params.list[i], err)) return false;
    for (int i = 0; i < f->ntensors; i++) {
        const char *name = f->tensors[i].name;
        if (!strncmp(name, "state.", 6) || params_find(&m->params, name) || of_mechanism(m, name))
            continue;
        snprintf(what, sizeof what, "tensor '%.300s' has no place in this model", name);
        return does_not_fit(t, what, err);
    }
    return true;
}

/* ---- opening ---- */

static void layout(Trained *t) {
    const Config *c = &t->config;
    Arena *a = &t->memory;
    t->w = arena_reals(a, c->model.params.total);
    loader_layout(&t->loader, a);
    if (!trained_guesses(t))
        t->loader.batch.out.logits =
            arena_reals(a, (size_t)c->train.batch * (size_t)c->model.task.classes);
}

/* Whether the data are whole; tells where they are not those of the training. */
static bool check_data(Trained *t, const StFile *f, Err *err) {
    Identity was;
    if (!verify_now(t->loader.split, err)) return false;
    identity_read(&was, f);
    identity_warn_data(&was, &t->loader, f->path);
    return true;
}

static bool open_data(Trained *t, const StFile *f, Err *err) {
    char way[1024];
    const Config *c = &t->config;
    if (loader_open_split(&t->loader, c, t->split, err)) return check_data(t, f, err);
    if (err->code != EX_NOINPUT) return false;
    task_way(c->task, c->data_dir, way, sizeof way);
    return err_set(err, EX_NOINPUT, "%s. Say where the data is by data.dir=DIR, or make it: %s",
                   err->text, way);
}

static bool open_engine(Trained *t, const StFile *f, Err *err) {
    const Config *c = &t->config;
    layout(t);
    if (!arena_open(&t->memory, t->memory.used, err)) return false;
    layout(t);
    for (int i = 0; i < c->model.params.count; i++)
        t->drawn += params_lacks_draw(&c->model.params.list[i], f);
    t->averaged = st_find(f, PARAMS_AVERAGE "tok.weight") != NULL;
    if (!params_take(&c->model.params, t->w, f, (uint64_t)c->train.seed, err) ||
        !engine_open(&t->engine, &c->model, c->train.batch, c->train.lanes, false, err))
        return false;
    engine_weights(&t->engine, t->w);
    return true;
}

static bool open_file(Trained *t, const StFile *f, const TrainedRequest *r, Err *err) {
    char where[FILE_PATH_MAX + 16];
    const bool of_run = t->from.run.dir[0];
    snprintf(where, sizeof where, "%s%s", of_run ? t->from.run.dir : f->path,
             of_run ? "/config.json" : "");
    if (!config_open(&t->config, t->from.run.config, where, r->line.words + 1, r->line.nwords - 1,
                     err))
        return false;
    if (r->batch) t->config.train.batch = r->batch;
    return check_fit(t, f, err) && open_data(t, f, err) && open_engine(t, f, err);
}

/* ---- the mean of several ---- */

/* t->from becomes this one, for messages. */
static bool add_kept(Trained *t, const char *path, double *sum, Err *err) {
    const Params *p = &t->config.model.params;
    StFile f;
    if (!source_open_kept(&t->from, &f, path, err)) return false;
    const bool ok =
        check_fit(t, &f, err) && params_take(p, t->w, &f, (uint64_t)t->config.train.seed, err);
    st_close(&f);
    for (size_t i = 0; i < p->total && ok; i++) sum[i] += (double)t->w[i];
    return ok;
}

/* In double, by rising update. */
static bool take_mean(Trained *t, Err *err) {
    const size_t n = t->config.model.params.total;
    FileList paths;
    if (!source_list_kept(&t->from, &paths, err)) return false;
    double *sum = mem_alloc(n, sizeof *sum);
    bool ok = true;
    for (int i = 0; i < paths.n && ok; i++) ok = add_kept(t, paths.name[i], sum, err);
    t->kept = paths.n;
    for (size_t i = 0; i < n; i++) t->w[i] = (real)(sum[i] / t->kept);
    if (ok) engine_weights(&t->engine, t->w);
    mem_free(sum);
    file_list_free(&paths);
    return ok;
}

static SourceWhich source_of(const TrainedRequest *r) {
    return r->average ? SOURCE_AVERAGE : r->last ? SOURCE_LAST : SOURCE_BEST;
}

bool trained_open(Trained *t, const TrainedRequest *r, Err *err) {
    StFile f;
    *t = (Trained){.split = r->split};
    if (!source_open(&t->from, &f, r->line.words[0], source_of(r), err)) return false;
    const bool ok = open_file(t, &f, r, err) && (!r->average || take_mean(t, err));
    st_close(&f);
    if (!ok) trained_close(t);
    return ok;
}

void trained_close(Trained *t) {
    engine_close(&t->engine);
    arena_close(&t->memory);
    loader_close(&t->loader);
    config_free(&t->config);
    source_close(&t->from);
}

/* ---- what it is ---- */

bool trained_guesses(const Trained *t) { return t->config.train.objective == OBJECTIVE_MASKED; }

static bool is_text(const Trained *t, const char *path, const char *text) {
    const char *was = json_string(t->from.run.config, path);
    return was && !strcmp(was, text);
}

bool trained_as_it_was(const Trained *t) {
    static const char *const sections[] = {"data", "model"};
    char list[64] = "";
    if (!is_text(t, "task", t->config.task->name) || !is_text(t, "data.dir", t->config.data_dir))
        return false;
    for (int i = 0; i < 2; i++) {
        const cJSON *was = json_at(t->from.run.config, sections[i]);
        const cJSON *now = json_at(t->config.resolved, sections[i]);
        if (was && now) config_differences(was, now, sections[i], list, sizeof list);
    }
    return !list[0];
}

const char *trained_class(const Trained *t, int k, char *buf, size_t size) {
    const char *const *names = t->config.task->labels;
    snprintf(buf, size, "%d%s%.24s", k, names ? " " : "", names ? names[k] : "");
    return buf;
}

void trained_print(FILE *f, const Trained *t) {
    char list[768];
    const Config *c = &t->config;
    const ModelConf *k = &c->model.conf;
    if (t->kept) fprintf(f, "average  of %d checkpoints, the last of which is\n", t->kept);
    text_print(f, "weights  %s, update %lld%s\n", t->from.path, (long long)t->from.update,
               t->averaged ? ", averages over updates" : "");
    fprintf(f, "model    depth %d, %d heads, width %d, %s attention", k->depth, k->heads, k->d,
            c->model.mech->name);
    const char *between = ":\n         ";
    const cJSON *attention = json_at(c->resolved, "model.attention");
    for (const cJSON *o = attention ? attention->child : NULL; o; o = o->next) {
        if (!strcmp(o->string, "type")) continue;
        char *value = json_text(o);
        text_print(f, "%s%s %s", between, o->string, value);
        between = ", ";
        mem_free(value);
    }
    fputc('\n', f);
    list_changes(t, list, sizeof list);
    if (list[0]) text_print(f, "changed  %s\n", list);
    if (t->drawn)
        fprintf(
            f, "drawn    %d parameters that the weights lack and that never train, train.seed %d\n",
            t->drawn, c->train.seed);
    text_print(f, "data     %s: %s, %d examples\n", c->data_dir, split_names[t->split],
               t->loader.examples[t->split]);
}
