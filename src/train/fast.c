#include "train/fast.h"

#include <string.h>

#include "core/log.h"
#include "io/file.h"
#include "io/json.h"
#include "train/rundir.h"

enum { BATCH = 8, TRAIN = 64, OTHERS = 16, OVERRIDES = 16 };

/* Random documents are as long as the model takes: each length has a set of its own. */
static void own_data(char *dir, size_t size, const Config *c) {
    snprintf(dir, size, "data/%s-fast", c->task->name);
    if (!c->task->generate) format_add(dir, size, "-%d", c->model.conf.max_length);
}

/* ---- the config ---- */

/* So short that it is over in seconds, at the sizes of the model and of its documents. */
static int list_overrides(const Config *c, char list[OVERRIDES][128], char *all[OVERRIDES]) {
    static const char *const fixed[] = {
        "train.steps=4",   "train.eval_every=2", "train.log_every=1", "train.warmup=1",
        "train.minutes=0", "train.accumulate=1", "train.patience=0",  "train.eval_limit=8"};
    int n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        snprintf(list[n++], 128, "%s", fixed[i]);
    snprintf(list[n++], 128, "train.batch=%d", c->train.batch < BATCH ? c->train.batch : BATCH);
    char dir[100];
    own_data(dir, sizeof dir, c);
    if (c->task->vocab) snprintf(list[n++], 128, "data.dir=%s", dir);
    for (int i = 0; i < n; i++) all[i] = list[i];
    return n;
}

static bool load_short(Config *c, const char *path, char *const *overrides, int count, Err *err) {
    char list[OVERRIDES][128], *own[OVERRIDES];
    const int n = list_overrides(c, list, own);
    char **all = mem_alloc((size_t)(n + count) + 1, sizeof *all);
    char in_steps[] =
        "train.petaflops=0"; /* the steps above, also where operations are asked for */
    memcpy(all, own, (size_t)n * sizeof *all);
    memcpy(all + n, overrides, (size_t)count * sizeof *all);
    all[n + count] = in_steps;
    config_free(c);
    const bool ok = config_load(c, path, all, n + count + 1, err);
    mem_free(all);
    return ok;
}

/* ---- the data ---- */

static void add_random(DatasetWriter *w, const Task *t, int length, RngKey key, int n) {
    int *ids = mem_alloc((size_t)length, sizeof *ids), document[2] = {-1, -1};
    for (int i = 0; i < n; i++) {
        for (int which = 0; which < t->per_example; which++) {
            const RngKey own = rng_subkey(key, (uint64_t)(2 * i + which));
            for (int j = 0; j < length; j++)
                ids[j] = 1 + (int)rng_below(own, (uint64_t)j, (uint32_t)t->vocab - 1);
            document[which] = dataset_add_document(w, ids, length);
        }
        dataset_add_example(w, i % t->classes, document[0], document[1]);
    }
    mem_free(ids);
}

static bool make_random(const Config *c, Err *err) {
    DatasetWriter *w[SPLITS];
    const RngKey key = rng_subkey_name(rng_key(1), "fast");
    task_writers(w, c->task, "random tokens, for cast_train --fast");
    for (int s = 0; s < SPLITS; s++)
        add_random(w[s], c->task, c->model.conf.max_length, rng_subkey(key, (uint64_t)s),
                   s == SPLIT_TRAIN ? TRAIN : OTHERS);
    return task_finish(w, true, c->data_dir, err);
}

/* Only where nobody could take it for the task's data. */
static bool may_make(const Config *c, Err *err) {
    char own[100];
    own_data(own, sizeof own, c);
    return !strcmp(c->data_dir, own) ||
           err_set(err, EX_NOINPUT,
                   "%s: has no data, and --fast makes its own in %s alone: leave data.dir out",
                   c->data_dir, own);
}

static bool prepare(const Config *c, Err *err) {
    const TaskRequest r = {
        .out = c->data_dir, .seed = TASK_SEED, .train = TRAIN, .val = OTHERS, .test = OTHERS};
    if (!c->task->vocab || dataset_is_whole(c->data_dir)) return true;
    if (!may_make(c, err)) return false;
    return c->task->generate ? task_generate(c->task, &r, err) : make_random(c, err);
}

bool fast_load(Config *c, const char *path, char *const *overrides, int count, Err *err) {
    if (!config_load(c, path, overrides, count, err)) return false;
    return load_short(c, path, overrides, count, err) && prepare(c, err);
}

/* ---- the run ---- */

bool fast_is_run(const char *dir) {
    char path[FILE_PATH_MAX];
    Err ignored;
    if (!task_join(path, dir, "env.json")) return false;
    cJSON *env = json_read(path, &ignored);
    const bool fast = cJSON_IsTrue(json_at(env, "fast"));
    cJSON_Delete(env);
    return fast;
}

bool fast_clear(const char *dir, Err *err) {
    RunDir r;
    DirLock lock = LOCK_NONE;
    if (!rundir_name(&r, dir, err)) return false;
    if (!file_exists(r.env) && !file_exists(r.last)) return true;
    if (!fast_is_run(dir))
        return err_set(err, EX_CANTCREAT,
                       "%s: the run there is no smoke run, and stays as it is: --fast takes a "
                       "directory of its own, another --out",
                       dir);
    if (!lock_take(&lock, dir, 0, err)) return false;
    const char *const files[] = {r.last, r.best, r.rollback, r.metrics};
    bool ok = kept_prune(dir, 0, INT64_MAX, err);
    for (size_t i = 0; ok && i < sizeof files / sizeof *files; i++) ok = file_remove(files[i], err);
    lock_release(&lock);
    return ok;
}
