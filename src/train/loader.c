#include "train/loader.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"

static int per_update(const Loader *f) { return f->c->train.batch * f->c->train.accumulate; }

/* Tasks may have the same sizes: Pathfinder and Path-X do. */
static bool check_name(const Dataset *d, const Task *task, Err *err) {
    const char *name = st_meta(&d->file, "task");
    const Task *theirs = name && task->vocab ? task_find(name) : NULL;
    return !theirs || !theirs->vocab || theirs == task ||
           err_set(err, EX_DATAERR,
                   "%s: is of task %s, not of %s: give another data.dir (data without a task in "
                   "their metadata may be any's)",
                   d->file.path, name, task->name);
}

static bool check_task(const Dataset *d, const Config *c, Err *err) {
    const ModelTask *m = &c->model.task;
    if (d->vocab == m->vocab && d->classes == m->classes && d->per_example == m->per_example)
        return check_name(d, c->task, err);
    const bool own = !c->task->vocab;
    return err_set(err, EX_DATAERR,
                   "%s: vocabulary %d, %d classes and %d documents an example are not those of "
                   "%s%s (%d, %d, %d)",
                   d->file.path, d->vocab, d->classes, d->per_example,
                   own ? "the training data" : "task ", own ? "" : c->task->name, m->vocab,
                   m->classes, m->per_example);
}

bool loader_has_enough(const Config *c, const char *path, int64_t examples, Err *err) {
    const TrainConf *t = &c->train;
    if ((int64_t)t->batch * t->accumulate <= examples) return true;
    return err_set(err, EX_CONFIG,
                   "%s: an update takes train.batch = %d times train.accumulate = %d examples, but "
                   "%s has %lld%s",
                   c->path, t->batch, t->accumulate, path, (long long)examples,
                   c->holdout > 0 ? " that are not held out" : "");
}

static bool check_enough(const Loader *f, Err *err) {
    return loader_has_enough(f->c, f->split[SPLIT_TRAIN].file.path, f->examples[SPLIT_TRAIN], err);
}

int64_t loader_held(const Config *c, int64_t n) { return llround((double)n * c->holdout); }

/* The two views of the training split. */
static bool hold_out(Loader *f, Err *err) {
    const Config *c = f->c;
    const int n = f->split[SPLIT_TRAIN].examples, held = (int)loader_held(c, n);
    if (held == 0 || held == n)
        return err_set(err, EX_CONFIG,
                       "%s: key 'data.holdout' = %g leaves nothing to %s of the %d examples of %s",
                       c->path, c->holdout, held == 0 ? "validate on" : "train on", n,
                       f->split[SPLIT_TRAIN].file.path);
    unsigned char *split = task_deal(n, held, 0, (uint64_t)c->holdout_seed, "holdout");
    f->view[SPLIT_TRAIN] = mem_alloc((size_t)(n - held), sizeof(int));
    f->view[SPLIT_VAL] = mem_alloc((size_t)held, sizeof(int));
    f->examples[SPLIT_TRAIN] = f->examples[SPLIT_VAL] = 0;
    for (int i = 0; i < n; i++) f->view[split[i]][f->examples[split[i]]++] = i;
    mem_free(split);
    return true;
}

static bool open_split(Loader *f, int split, Err *err) {
    char path[FILE_PATH_MAX];
    const bool held = split == SPLIT_VAL && f->c->holdout > 0;
    Dataset *d = &f->split[split];
    if (!dataset_path(path, f->c->data_dir, held ? SPLIT_TRAIN : split, err) ||
        !dataset_open(d, path, err) || !check_task(d, f->c, err))
        return false;
    f->examples[split] = d->examples;
    return true;
}

static bool check_classes(const Loader *f, Err *err) {
    const ClassNames *first = &f->c->facts.class_names;
    for (int s = 0; s < SPLITS; s++) {
        const Dataset *d = &f->split[s];
        if (!classes_agree(&d->class_names, first, d->file.path, "another split of the set",
                           d->classes, err))
            return false;
    }
    return true;
}

/* Another process may have made the set anew meanwhile, which takes train away first: whether the
 * first file that was opened is still the one by its name. */
static bool check_one_set(const Dataset *first, Err *err) {
    const FileStamp *was = &first->file.map.stamp;
    FileStamp now;
    const bool there = file_stamp(&now, first->file.path);
    if (there && now.device == was->device && now.entry == was->entry) return true;
    if (!there && errno != ENOENT)
        return err_set(err, EX_NOINPUT, "%s: cannot be looked at: %s", first->file.path,
                       err_words(errno));
    return err_set(err, EX_DATAERR,
                   "%s: was replaced or removed while the set was opened: start again when it is "
                   "there",
                   first->file.path);
}

/* Those that validate and that are tested, where train.eval_limit says so. */
static void limit_examples(Loader *f) {
    const int limit = f->c->train.eval_limit;
    for (int s = 0; s < SPLITS; s++)
        if (s != SPLIT_TRAIN && limit && limit < f->examples[s]) f->examples[s] = limit;
}

bool loader_open(Loader *f, const Config *c, Err *err) {
    *f = (Loader){.c = c, .epoch = -1};
    bool ok = true;
    for (int s = 0; ok && s < SPLITS; s++) ok = open_split(f, s, err);
    ok = ok && check_one_set(&f->split[SPLIT_TRAIN], err) && check_classes(f, err);
    if (ok && c->augment) f->longest = dataset_longest(&f->split[SPLIT_TRAIN]);
    ok = ok && (c->holdout == 0 || hold_out(f, err)) && check_enough(f, err);
    if (ok) limit_examples(f);
    if (!ok) loader_close(f);
    return ok;
}

bool loader_open_split(Loader *f, const Config *c, int split, Err *err) {
    *f = (Loader){.c = c, .epoch = -1};
    const bool view = c->holdout > 0 && split != SPLIT_TEST;
    bool ok = open_split(f, split, err);
    if (ok && view && split != SPLIT_TRAIN)
        ok = open_split(f, SPLIT_TRAIN, err) && check_one_set(&f->split[split], err);
    if (ok && (!view || hold_out(f, err))) return true;
    loader_close(f);
    return false;
}

bool loader_open_set(Loader *f, const Config *c, int split, Dataset *set, Err *err) {
    *f = (Loader){.c = c, .epoch = -1};
    f->split[split] = *set;
    f->examples[split] = set->examples;
    *set = (Dataset){0};
    if (check_task(&f->split[split], c, err)) return true;
    loader_close(f);
    return false;
}

void loader_close(Loader *f) {
    for (int s = 0; s < SPLITS; s++) {
        dataset_close(&f->split[s]);
        mem_free(f->view[s]);
    }
    *f = (Loader){0};
}

void loader_layout(Loader *f, Arena *a) {
    const Model *m = &f->c->model;
    const size_t B = (size_t)f->c->train.batch;
    const size_t documents = B * (size_t)m->task.per_example;
    f->order = arena_ints(a, (size_t)f->examples[SPLIT_TRAIN]);
    f->ids = arena_ints(a, documents * (size_t)m->conf.max_length);
    if (m->task.masked > 0) f->masked = arena_ints(a, documents * (size_t)m->conf.max_length);
    if (f->c->augment) f->whole = arena_ints(a, (1 + AUGMENT_SCRATCH) * (size_t)f->longest);
    f->batch.examples = arena_ints(a, B);
    f->batch.answers = arena_ints(a, B);
    f->batch.samples = arena_take(a, B, sizeof *f->batch.samples);
    f->batch.out.loss = arena_take(a, B, sizeof *f->batch.out.loss);
    f->batch.out.predicted = arena_ints(a, B);
    f->batch.out.correct = arena_ints(a, B);
}

const char *loader_hash(const Loader *f, int split) {
    const Dataset *d = &f->split[split];
    const bool held_out = split != SPLIT_TRAIN && f->view[split];
    return d->file.path && !held_out && d->hash[0] ? d->hash : NULL;
}

cJSON *loader_describe(const Loader *f) {
    cJSON *o = cJSON_CreateObject();
    const char *source = st_meta(&f->split[SPLIT_TRAIN].file, "source");
    if (source) cJSON_AddStringToObject(o, "source", source);
    for (int s = 0; s < SPLITS; s++) cJSON_AddNumberToObject(o, split_names[s], f->examples[s]);
    cJSON *hashes = cJSON_AddObjectToObject(o, "hashes");
    for (int s = 0; s < SPLITS; s++)
        if (loader_hash(f, s)) cJSON_AddStringToObject(hashes, split_names[s], loader_hash(f, s));
    return o;
}

int64_t loader_updates_per_epoch(const Loader *f) {
    return f->examples[SPLIT_TRAIN] / per_update(f);
}

int loader_index(const Loader *f, int split, int i) {
    return f->view[split] ? f->view[split][i] : i;
}

static int length(const Loader *f, int split, int example, int which) {
    const Dataset *d = &f->split[split];
    return dataset_length(d, dataset_document(d, example, which));
}

double loader_tokens(const Loader *f, int split, int example) {
    const Model *m = &f->c->model;
    double n = 0;
    for (int j = 0; j < m->task.per_example; j++)
        n += model_tokens(m, length(f, split, example, j));
    return n;
}

bool loader_cuts(const Loader *f, int split, int example) {
    bool cut = false;
    for (int j = 0; j < f->c->model.task.per_example; j++)
        cut |= length(f, split, example, j) > f->c->model.conf.max_length;
    return cut;
}

double loader_flops(const Loader *f, int split, int example) {
    const Model *m = &f->c->model;
    double flops = model_head_flops(m);
    for (int j = 0; j < m->task.per_example; j++)
        flops += model_flops(m, length(f, split, example, j));
    return flops;
}

void loader_attention_flops(const Loader *f, int split, int example, double *own, double *exact) {
    for (int j = 0; j < f->c->model.task.per_example; j++)
        model_attention_flops(&f->c->model, length(f, split, example, j), own, exact);
}

static int answers(const Loader *f, int split, int example) {
    const Model *m = &f->c->model;
    if (m->task.masked == 0) return 1;
    int n = 0;
    for (int j = 0; j < m->task.per_example; j++)
        n += model_masked(m, length(f, split, example, j));
    return n;
}

/* Reads document j of an example into ids, as `epoch` sees it: -1 as it is. Returns its length. */
static int read_document(Loader *f, int split, int64_t epoch, int example, int j, int *ids) {
    const Config *c = f->c;
    const Dataset *d = &f->split[split];
    const int document = dataset_document(d, example, j), most = c->model.conf.max_length;
    if (epoch < 0 || !c->augment) return dataset_tokens(d, document, most, ids);
    const int all = dataset_tokens(d, document, f->longest, f->whole), n = all < most ? all : most;
    c->task->augment(&c->augmentation, f->whole, all, f->whole + all,
                     augment_key((uint64_t)c->train.seed, epoch, example, j));
    memcpy(ids, f->whole, (size_t)n * sizeof *ids);
    return n;
}

/* Of draws that depend on the split, and in training on the epoch. */
static RngKey mask_key(const Loader *f, int split, int64_t epoch) {
    const RngKey key = rng_subkey_name(rng_key((uint64_t)f->c->train.seed), split_names[split]);
    return rng_subkey_name(epoch < 0 ? key : rng_subkey(key, (uint64_t)epoch), "mask");
}

/* Masks some of a sample's tokens, which are in f->ids from `at` on. */
static void mask(Loader *f, Sample *s, RngKey key, size_t at) {
    for (int j = 0; j < f->c->model.task.per_example; j++) {
        int *ids = f->masked + at;
        memcpy(ids, s->ids[j], (size_t)s->length[j] * sizeof *ids);
        lm_mask(ids, s->length[j], model_masked(&f->c->model, s->length[j]),
                rng_subkey(rng_subkey(key, (uint64_t)s->number), (uint64_t)j));
        s->targets[j] = s->ids[j];
        s->ids[j] = ids;
        at += (size_t)s->length[j];
    }
}

/* The examples listed in f->batch.examples, n of them, as `epoch` sees them: -1 as they are. */
static void fill(Loader *f, int split, int n, int64_t epoch) {
    const Dataset *d = &f->split[split];
    Batch *b = &f->batch;
    size_t at = 0, next;
    b->n = n;
    b->tokens = b->flops = 0;
    for (int i = 0; i < n; i++, at = next) {
        const int example = b->examples[i];
        Sample *s = &b->samples[i];
        s->label = d->labels[example];
        s->number = example;
        next = at;
        for (int j = 0; j < d->per_example; j++) {
            s->ids[j] = f->ids + next;
            s->length[j] = read_document(f, split, epoch, example, j, f->ids + next);
            next += (size_t)s->length[j];
        }
        if (f->masked) mask(f, s, mask_key(f, split, epoch), at);
        b->answers[i] = answers(f, split, example);
        b->tokens += loader_tokens(f, split, example);
        b->flops += loader_flops(f, split, example);
    }
}

/* Brings the order of the update's epoch, and returns the place of its first example in it. */
static int find_update(Loader *f, int64_t update) {
    const int64_t an_epoch = loader_updates_per_epoch(f), epoch = (update - 1) / an_epoch;
    if (epoch != f->epoch) {
        RngKey key = rng_subkey_name(rng_key((uint64_t)f->c->train.seed), "order");
        rng_permutation(f->order, f->examples[SPLIT_TRAIN], rng_subkey(key, (uint64_t)epoch));
        f->epoch = epoch;
    }
    return (int)((update - 1) % an_epoch) * per_update(f);
}

double loader_answers(Loader *f, int64_t update) {
    const int from = find_update(f, update);
    double n = 0;
    for (int i = from; i < from + per_update(f); i++)
        n += answers(f, SPLIT_TRAIN, loader_index(f, SPLIT_TRAIN, f->order[i]));
    return n;
}

void loader_train(Loader *f, int64_t update, int micro) {
    const int B = f->c->train.batch, from = find_update(f, update) + micro * B;
    for (int i = 0; i < B; i++)
        f->batch.examples[i] = loader_index(f, SPLIT_TRAIN, f->order[from + i]);
    fill(f, SPLIT_TRAIN, B, f->epoch);
}

void loader_split(Loader *f, int split, int from) {
    const int left = f->examples[split] - from, B = f->c->train.batch;
    const int n = left < B ? left : B;
    for (int i = 0; i < n; i++) f->batch.examples[i] = loader_index(f, split, from + i);
    fill(f, split, n, -1);
}
