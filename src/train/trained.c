#include "train/trained.h"

#include <string.h>

#include "core/log.h"
#include "data/picture.h"
#include "data/verify.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"
#include "train/fit.h"
#include "train/identity.h"
#include "train/stop.h"

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

/* A split whose classes have other names than the weights' may have others, in another order. Where
 * weights say none, they are those of the set, whose splits have the same. */
static bool check_names(Trained *t, const StFile *f, Err *err) {
    Dataset *d = &t->loader.split[t->split];
    ClassNames *names = &t->config.facts.class_names;
    const bool theirs = st_meta(f, FACTS_META);
    if (t->config.task->vocab == 0 && !names->name) {
        *names = d->class_names;
        d->class_names = (ClassNames){0};
    }
    if (classes_agree(&d->class_names, names, d->file.path,
                      theirs ? f->path : "another split of the set", d->classes, err))
        return true;
    if (theirs) log_warn("%s", err->text);
    return theirs;
}

/* Whether the data are whole; tells where they are not those of the training. */
static bool check_data(Trained *t, const StFile *f, Err *err) {
    Identity was;
    if (!verify_now(t->loader.split, err)) return false;
    identity_read(&was, f);
    identity_warn_data(&was, &t->loader, f->path);
    return check_names(t, f, err);
}

static bool same_key(const Trained *t, const char *key) {
    const cJSON *was = json_at(t->from.run.config, key);
    return !was || cJSON_Compare(was, json_at(t->config.resolved, key), true);
}

static void warn_of_holdout(const Trained *t) {
    if (t->split == SPLIT_TEST || (same_key(t, "data.holdout") && same_key(t, "data.holdout_seed")))
        return;
    log_warn("%s: other examples are held out than in training: those of %s may be among what it "
             "was trained on",
             t->from.path, split_names[t->split]);
}

static bool open_data(Trained *t, const StFile *f, Err *err) {
    char way[1024];
    const Config *c = &t->config;
    if (loader_open_split(&t->loader, c, t->split, err)) {
        warn_of_holdout(t);
        return check_data(t, f, err);
    }
    if (err->code != EX_NOINPUT) return false;
    task_way(c->task, c->data_dir, c->model.conf.max_length, way, sizeof way);
    return err_set(err, EX_NOINPUT, "%s. Say where the data is by data.dir=DIR, or make it: %s",
                   err->text, way);
}

/* Of pictures: data of one's own have theirs; of the benchmark's those that are generated have as
 * many pixels as the model reads, if that is a square, and others one size, whatever of it is read.
 */
static int side_of(const Config *c) {
    const Task *task = c->task;
    const int most = c->model.conf.max_length, side = picture_side(most);
    if (!task->vocab) return picture_side(c->model.task.max_length);
    return task->generate && (int64_t)side * side == most ? side : picture_side(task->max_length);
}

static bool open_input(Trained *t, const TrainedRequest *r, Err *err) {
    const ModelTask *m = &t->config.model.task;
    const InputAsked asked = {.from = r->input,
                              .lines = r->lines,
                              .split = r->input_split,
                              .most = t->config.model.conf.max_length,
                              .task = t->config.task,
                              .vocab = m->vocab,
                              .classes = m->classes,
                              .per_example = m->per_example,
                              .side = side_of(&t->config)};
    return input_open(&t->input, &asked, err) &&
           loader_open_set(&t->loader, &t->config, t->split, &t->input.set, err);
}

static bool open_engine(Trained *t, const StFile *f, Err *err) {
    const Config *c = &t->config;
    layout(t);
    if (!arena_open(&t->memory, t->memory.used, err)) return false;
    layout(t);
    fit_swapped(&t->swap, c, f);
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
    if (!config_open(&t->config, t->from.run.config, where, f, r->line.words + 1,
                     r->line.nwords - 1, err))
        return false;
    if (r->batch) t->config.train.batch = r->batch;
    return fit_check(&t->config, &t->from, f, err) &&
           (r->input ? open_input(t, r, err) : open_data(t, f, err)) && open_engine(t, f, err);
}

/* ---- the mean of several ---- */

/* t->from becomes this one, for messages. */
static bool add_kept(Trained *t, const char *path, double *sum, Err *err) {
    const Params *p = &t->config.model.params;
    StFile f;
    if (!source_open_kept(&t->from, &f, path, err)) return false;
    const bool ok = fit_check(&t->config, &t->from, &f, err) &&
                    params_take(p, t->w, &f, (uint64_t)t->config.train.seed, err);
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
    if (ok && !t->kept) st_crc(&f, t->crc32);
    st_close(&f);
    if (!ok) trained_close(t);
    return ok;
}

void trained_close(Trained *t) {
    engine_close(&t->engine);
    arena_close(&t->memory);
    loader_close(&t->loader);
    input_close(&t->input);
    config_free(&t->config);
    source_close(&t->from);
}

/* ---- what it is ---- */

bool trained_guesses(const Trained *t) { return t->config.train.objective == OBJECTIVE_MASKED; }

static bool is_text(const Trained *t, const char *path, const char *text) {
    const char *was = json_string(t->from.run.config, path);
    return was && !strcmp(was, text);
}

/* What decides which tokens masked training hides. */
static bool same_masks(const Trained *t) {
    return !trained_guesses(t) || (same_key(t, "train.seed") && same_key(t, "train.mask"));
}

bool trained_as_it_was(const Trained *t) {
    static const char *const sections[] = {"data", "model"};
    char list[64] = "";
    if (!same_masks(t)) return false;
    if (!is_text(t, "task", t->config.task->name) || !is_text(t, "data.dir", t->config.data_dir))
        return false;
    for (int i = 0; i < 2; i++) {
        const cJSON *was = json_at(t->from.run.config, sections[i]);
        const cJSON *now = json_at(t->config.resolved, sections[i]);
        if (was && now) config_differences(was, now, sections[i], list, sizeof list);
    }
    return !list[0];
}

bool trained_evaluate(Score *score, Trained *t, const char *what, const Watch *watch, Err *err) {
    stop_on_signals();
    const bool done = evaluate(score, &t->engine, &t->loader, t->split, what, watch, err);
    log_progress_end();
    if (!verify_unchanged(t->loader.split, err)) return false;
    if (done || err->code == EX_TEMPFAIL) return done;
    return err_set(err, err->code, "%s: %s", t->from.path, err->text);
}

const char *trained_class(const Trained *t, int k, char *buf, size_t size) {
    return class_text(k, config_class(&t->config, k), buf, size);
}

void trained_add_classes(const Trained *t, cJSON *o) {
    const int K = trained_guesses(t) ? 0 : t->config.model.task.classes;
    cJSON *list = K && config_class(&t->config, 0) ? cJSON_AddArrayToObject(o, "classes") : NULL;
    for (int k = 0; k < K && list; k++)
        cJSON_AddItemToArray(list, cJSON_CreateString(config_class(&t->config, k)));
}

char *trained_drawn(const Trained *t, char *buf, size_t size) {
    buf[0] = '\0';
    if (t->swap.drawn[0])
        snprintf(buf, size, "not trained with these weights: %s; by train.seed %d", t->swap.drawn,
                 t->config.train.seed);
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
    fit_changes(c, &t->from, list, sizeof list);
    if (list[0]) text_print(f, "changed  %s\n", list);
    if (t->swap.left[0]) text_print(f, "left     behind: %s\n", t->swap.left);
    if (t->swap.drawn[0]) text_print(f, "drawn    %s\n", trained_drawn(t, list, sizeof list));
    text_print(f, "data     %s: %s, %d examples\n", c->data_dir, split_names[t->split],
               t->loader.examples[t->split]);
}

void trained_warn(const Trained *t) {
    char drawn[512];
    if (t->swap.left[0]) log_warn("left behind: %s", t->swap.left);
    if (t->swap.drawn[0]) log_warn("drawn, and %s", trained_drawn(t, drawn, sizeof drawn));
}

cJSON *trained_json(const Trained *t) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "checkpoint", t->from.path);
    cJSON_AddStringToObject(o, "which", t->from.which);
    cJSON_AddNumberToObject(o, "step", (double)t->from.update);
    if (t->crc32[0]) cJSON_AddStringToObject(o, "crc32", t->crc32);
    if (t->kept) cJSON_AddNumberToObject(o, "average_of", t->kept);
    if (!t->input.n) {
        cJSON_AddStringToObject(o, "split", split_names[t->split]);
        cJSON_AddStringToObject(o, "data_hash", t->loader.split[t->split].hash);
    }
    if (t->swap.left[0]) cJSON_AddStringToObject(o, "left_behind", t->swap.left);
    if (t->swap.drawn[0]) cJSON_AddStringToObject(o, "drawn", t->swap.drawn);
    return o;
}
