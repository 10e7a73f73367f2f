#include "data/task.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/rng.h"
#include "io/lock.h"

extern const Task task_custom, task_image, task_listops, task_pathfinder, task_pathx,
    task_retrieval, task_text;

const Task *const task_table[] = {&task_listops,    &task_text,  &task_retrieval, &task_image,
                                  &task_pathfinder, &task_pathx, &task_custom,    NULL};

#define CUSTOM(kind)                                                                               \
    {                                                                                              \
        .name = "custom",                                                                          \
        .title = "data of your own in the prepared form; sizes are read from its metadata",        \
        .tokens = kind                                                                             \
    }
const Task task_custom = CUSTOM(TOKENS_VALUES);

const Task *task_of_kind(const Task *t, const char *kind, int per_example) {
    static const Task of_bytes = CUSTOM(TOKENS_BYTES), of_pixels = CUSTOM(TOKENS_PIXELS);
    if (t->vocab || !kind) return t;
    if (strcmp(kind, DATASET_BYTES) == 0) return &of_bytes;
    return per_example == 1 ? &of_pixels : t; /* pairs of pictures are read as numbers */
}

const char *task_class(const Task *t, const ClassNames *own, int k) {
    if (t && t->labels) return t->labels[k];
    return own->name ? own->name[k] : NULL;
}

const Task *task_find(const char *name) {
    for (int i = 0; task_table[i]; i++)
        if (strcmp(task_table[i]->name, name) == 0) return task_table[i];
    return NULL;
}

bool task_fits(const Task *task, int vocab, int classes, int per_example) {
    return task->vocab == 0 ||
           (task->vocab == vocab && task->classes == classes && task->per_example == per_example);
}

static const TaskOption *find_option(const Task *task, const char *name) {
    for (const TaskOption *o = task->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

/* Of a model that takes fewer tokens than the benchmark's shortest example has. */
static void way_of_short(const Task *t, const char *dir, int most, char *buf, size_t size) {
    snprintf(buf, size,
             "the benchmark's have %d tokens or more, and this model takes %d: run 'cast_data "
             "generate %s ",
             t->shortest, most, t->name);
    if (find_option(t, "length"))
        format_add(buf, size, "--length %d..%d --out %s' ('--help' has more options)",
                   (most + 3) / 4, most, dir);
    else
        format_add(buf, size, "--out %s' for such, which are cut", dir);
}

/* $CAST_DATA/<task> into buf, if official files are there. */
static bool find_official(const Task *t, char buf[FILE_PATH_MAX]) {
    char place[FILE_PATH_MAX];
    const char *root = getenv("CAST_DATA");
    return root && *root && t->import && task_join(buf, root, t->name) && t->locate(place, buf);
}

static void import_way(const Task *t, const char *from, const char *dir, char *buf, size_t size) {
    *buf = '\0'; /* not all of which need fit */
    format_add(buf, size, "run 'cast_data import %s %s --out %s'", t->name, from, dir);
}

void task_way(const Task *t, const char *dir, int most, char *buf, size_t size) {
    char official[FILE_PATH_MAX];
    if (most && most < t->shortest)
        way_of_short(t, dir, most, buf, size);
    else if (t->generate)
        snprintf(buf, size, "run 'cast_data generate %s --out %s'", t->name, dir);
    else if (find_official(t, official))
        import_way(t, official, dir, buf, size);
    else if (t->import)
        snprintf(buf, size, "fetch %s and run 'cast_data import %s %s --out %s'", t->url, t->name,
                 t->archive, dir);
    else
        snprintf(
            buf, size,
            "there is no importer: scripts/make_custom_dataset.py writes texts and pictures of "
            "one's own in the prepared form, which goes into data.dir as train.safetensors, "
            "val.safetensors and test.safetensors (data/README.md)");
}

const char *task_setting(const TaskRequest *r, const char *name) {
    for (int i = r->nsettings - 1; i >= 0; i--)
        if (strcmp(r->settings[i].name, name) == 0) return r->settings[i].value;
    return NULL;
}

/* Whether the task can do that at all, and has the options that were set. */
static bool check_request(const Task *task, const TaskRequest *r, bool import, Err *err) {
    char way[1024];
    for (int i = 0; i < r->nsettings; i++) {
        const TaskOption *o = find_option(task, r->settings[i].name);
        if (o && (o->import || !import)) continue;
        return err_set(err, EX_USAGE, "%s %s takes no --%s", import ? "import" : "generate",
                       task->name, r->settings[i].name);
    }
    if (import ? task->import : task->generate) return true;
    task_way(task, r->out, 0, way, sizeof way);
    return err_set(err, EX_USAGE, "%s cannot be %s; %s", task->name,
                   import ? "imported" : "generated", way);
}

/* Before anything is made, which may take hours. */
static bool check_place(const Task *task, const char *dir, Err *err) {
    return dataset_may_write(dir, task->name, err) && file_may_make_dirs(dir, err);
}

static void warn_of_others(const Task *t, const char *dir) {
    char path[FILE_PATH_MAX];
    int count[SPLITS] = {0};
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        Err ignored;
        if (!dataset_path(path, dir, s, &ignored) || !dataset_open(&d, path, &ignored)) return;
        count[s] = d.examples;
        dataset_close(&d);
    }
    const int *n = t->official;
    if (n[SPLIT_TRAIN] && memcmp(n, count, sizeof count) != 0)
        log_warn("%s: %d, %d and %d examples, where the official files have %d, %d and %d: these "
                 "are others, or not all",
                 dir, count[SPLIT_TRAIN], count[SPLIT_VAL], count[SPLIT_TEST], n[SPLIT_TRAIN],
                 n[SPLIT_VAL], n[SPLIT_TEST]);
}

bool task_import(const Task *task, const TaskRequest *r, Err *err) {
    const bool ok = check_request(task, r, true, err) && check_place(task, r->out, err) &&
                    task->import(task, r, err);
    if (ok) warn_of_others(task, r->out);
    return ok;
}

bool task_generate(const Task *task, const TaskRequest *r, Err *err) {
    TaskRequest full = *r;
    if (!check_request(task, r, false, err)) return false;
    if (!full.train) full.train = task->official[SPLIT_TRAIN];
    if (!full.val) full.val = task->official[SPLIT_VAL];
    if (!full.test) full.test = task->official[SPLIT_TEST];
    if (!full.train || !full.val || !full.test)
        return err_set(err, EX_USAGE,
                       "%s: --train, --val and --test are needed: no official files say how many",
                       task->name);
    const int64_t total = (int64_t)full.train + full.val + full.test;
    if (total > task->most)
        return err_set(err, EX_USAGE, "%s: %" PRId64 " examples in all, expected at most %d",
                       task->name, total, task->most);
    return check_place(task, r->out, err) && task->generate(task, &full, err);
}

/* Sets *found to whether all splits are there. Train is written last, so train without the others
 * is no interrupted preparation but something of the user's, which is not overwritten. */
static bool find_splits(const Task *task, const char *dir, bool *found, Err *err) {
    char path[SPLITS][FILE_PATH_MAX];
    bool there[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        if (!dataset_path(path[s], dir, s, err)) return false;
        there[s] = file_exists(path[s]);
    }
    *found = there[SPLIT_TRAIN] && there[SPLIT_VAL] && there[SPLIT_TEST];
    if (*found || !there[SPLIT_TRAIN]) return true;
    return err_set(err, EX_NOINPUT, "%s is there, but %s is missing: add it%s", path[SPLIT_TRAIN],
                   path[there[SPLIT_VAL] ? SPLIT_TEST : SPLIT_VAL],
                   task->import || task->generate ? ", or remove the first to have all made anew"
                                                  : "");
}

/* Val and test without train are a preparation that was stopped, if they are of what is to be made
 * now: imported from `from`, or generated. Others are the user's. */
static bool check_rest(const Task *t, const char *dir, const char *from, Err *err) {
    const char *ours = from ? t->imported : t->generated[0];
    bool same = true;
    for (int s = SPLIT_VAL; same && s <= SPLIT_TEST; s++) {
        char path[FILE_PATH_MAX];
        StFile f;
        Err ignored;
        if (!dataset_path(path, dir, s, err)) return false;
        if (!file_exists(path)) continue;
        const char *source = st_open(&f, path, &ignored) ? st_meta(&f, "source") : NULL;
        same = source && ours && !strncmp(source, ours, strlen(ours));
        if (!same)
            err_set(err, EX_NOINPUT,
                    "%s: is there without train.safetensors, and is not of what would be %s here "
                    "(its source: %.100s): bring train.safetensors back, or remove val and test",
                    path, from ? "imported" : "generated", source ? source : "not known");
        st_close(&f);
    }
    return same;
}

static bool make(const Task *task, const TaskRequest *r, Err *err) {
    log_info("%s: %s %s%s%s, once", r->out, r->from ? "importing" : "generating", task->name,
             r->from ? " from " : "", r->from ? r->from : "");
    return r->from ? task_import(task, r, err) : task_generate(task, r, err);
}

bool task_would_make(const Task *t, const char *dir) {
    return !dataset_is_whole(dir) && (t->generate || (t->import && getenv("CAST_DATA")));
}

/* Whether all splits are there, or from what they would be made: r->from, or generated. */
static bool find_way(const Task *task, bool *found, TaskRequest *r, char official[FILE_PATH_MAX],
                     Err *err) {
    char way[1024];
    if (file_exists(r->out) && !file_is_dir(r->out))
        return err_set(err, EX_NOINPUT,
                       "%s: is a file; data.dir is the directory that the splits are in", r->out);
    if (!find_splits(task, r->out, found, err)) return false;
    if (find_official(task, official)) r->from = official;
    if (*found) return true;
    if (r->from || task->generate) return check_rest(task, r->out, r->from, err);
    task_way(task, r->out, 0, way, sizeof way);
    return err_set(err, EX_NOINPUT,
                   "%s: no prepared data for %s, nor official files in $CAST_DATA/%s; %s", r->out,
                   task->name, task->name, way);
}

bool task_may_prepare(const Task *task, const char *dir, Err *err) {
    TaskRequest r = {.out = dir};
    char official[FILE_PATH_MAX];
    bool found;
    return find_way(task, &found, &r, official, err) && (found || check_place(task, dir, err));
}

bool task_prepare(const Task *task, const char *dir, Err *err) {
    TaskRequest r = {.out = dir, .seed = TASK_SEED};
    char official[FILE_PATH_MAX];
    bool found;
    if (!find_way(task, &found, &r, official, err)) return false;
    if (found) return true;
    if (!file_make_dirs(dir, err)) return false;
    DirLock lock;
    lock_wait(&lock, dir);
    const bool ok = find_splits(task, dir, &found, err) && (found || make(task, &r, err));
    lock_release(&lock);
    return ok;
}

bool task_join(char *buf, const char *dir, const char *name) {
    int n = snprintf(buf, FILE_PATH_MAX, "%s/%s", dir, name);
    return n < FILE_PATH_MAX && file_exists(buf);
}

bool task_locate(char *buf, const char *from, const char *const *folders, const char *name) {
    char probe[FILE_PATH_MAX];
    for (const char *folder = ""; folder; folder = *folders++) {
        int n = snprintf(buf, FILE_PATH_MAX, "%s%s%s", from, *folder ? "/" : "", folder);
        if (n < FILE_PATH_MAX && task_join(probe, buf, name)) return true;
    }
    return false;
}

bool task_place(const Task *t, char place[FILE_PATH_MAX], const char *from, Err *err) {
    if (!file_exists(from)) return err_set(err, EX_NOINPUT, "%s: no such file or directory", from);
    snprintf(place, FILE_PATH_MAX, "%s", from);
    return (t->unpacks && !file_is_dir(from)) || t->locate(place, from) ||
           err_set(err, EX_NOINPUT, "%s: holds no %s", from, t->holds);
}

int task_split(const TaskRequest *r, int i) {
    return i < r->test ? SPLIT_TEST : i < r->test + r->val ? SPLIT_VAL : SPLIT_TRAIN;
}

unsigned char *task_deal(int n, int val, int test, uint64_t seed, const char *name) {
    unsigned char *split = mem_alloc((size_t)n, 1);
    int *perm = mem_alloc((size_t)n, sizeof *perm);
    rng_permutation(perm, n, rng_subkey_name(rng_key(seed), name));
    for (int i = 0; i < n; i++)
        split[perm[i]] = i < val ? SPLIT_VAL : i < val + test ? SPLIT_TEST : SPLIT_TRAIN;
    mem_free(perm);
    return split;
}

void task_writers(DatasetWriter *w[SPLITS], const Task *t, const char *source, ...) {
    char text[256];
    va_list ap;
    va_start(ap, source);
    vsnprintf(text, sizeof text, source, ap);
    va_end(ap);
    for (int s = 0; s < SPLITS; s++)
        w[s] = dataset_writer(t->name, split_names[s], text, t->vocab, t->classes,
                              t->per_example == 2);
}

bool task_finish(DatasetWriter *w[SPLITS], bool ok, const char *dir, Err *err) {
    ok = ok && dataset_write_splits(w, dir, err);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
    return ok;
}
