#include "data/task.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/log.h"
#include "data/dataset.h"

extern const Task task_custom, task_image, task_listops, task_pathfinder, task_pathx,
    task_retrieval, task_text;

const Task *const task_table[] = {&task_listops,    &task_text,  &task_retrieval, &task_image,
                                  &task_pathfinder, &task_pathx, &task_custom,    NULL};

/* Data of one's own. */
const Task task_custom = {
    .name = "custom",
    .title = "data of your own in the prepared form; sizes are read from its metadata",
    .source = "none: data in the prepared form only",
};

const Task *task_find(const char *name) {
    for (int i = 0; task_table[i]; i++)
        if (strcmp(task_table[i]->name, name) == 0) return task_table[i];
    return NULL;
}

bool task_fits(const Task *task, int vocab, int classes, int per_example) {
    return task->vocab == 0 ||
           (task->vocab == vocab && task->classes == classes && task->per_example == per_example);
}

bool task_locate(char *buf, const char *from, const char *const *folders, const char *name) {
    char probe[FILE_PATH_MAX];
    for (const char *folder = ""; folder; folder = *folders++) {
        int n = snprintf(buf, FILE_PATH_MAX, "%s%s%s", from, *folder ? "/" : "", folder);
        int m = snprintf(probe, sizeof probe, "%s/%s", buf, name);
        if (n < FILE_PATH_MAX && m < FILE_PATH_MAX && file_exists(probe)) return true;
    }
    return false;
}

void task_way(const Task *t, const char *dir, char *buf, size_t size) {
    if (t->generate)
        snprintf(buf, size, "run 'cast_data generate %s --out %s'", t->name, dir);
    else if (t->import)
        snprintf(buf, size, "fetch %s and run 'cast_data import %s %s --out %s'", t->url, t->name,
                 t->archive, dir);
    else
        snprintf(buf, size,
                 "there is no importer: place data in the prepared form (safetensors with tokens, "
                 "offsets, labels and pairs) in data.dir, as train.safetensors, val.safetensors "
                 "and test.safetensors");
}

const char *task_setting(const TaskRequest *r, const char *name) {
    for (int i = r->nsettings - 1; i >= 0; i--)
        if (strcmp(r->settings[i].name, name) == 0) return r->settings[i].value;
    return NULL;
}

static const TaskOption *find_option(const Task *task, const char *name) {
    for (const TaskOption *o = task->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

static bool check_settings(const Task *task, const TaskRequest *r, bool import, Err *err) {
    for (int i = 0; i < r->nsettings; i++) {
        const TaskOption *o = find_option(task, r->settings[i].name);
        if (o && (o->import || !import)) continue;
        return err_set(err, EX_USAGE, "%s %s takes no --%s", import ? "import" : "generate",
                       task->name, r->settings[i].name);
    }
    return true;
}

bool task_import(const Task *task, const TaskRequest *r, Err *err) {
    char way[1024];
    if (!check_settings(task, r, true, err)) return false;
    if (task->import) return task->import(r, err);
    task_way(task, r->out, way, sizeof way);
    return err_set(err, EX_USAGE, "%s cannot be imported; %s", task->name, way);
}

bool task_generate(const Task *task, const TaskRequest *r, Err *err) {
    char way[1024];
    if (!check_settings(task, r, false, err)) return false;
    if (task->generate) return task->generate(r, err);
    task_way(task, r->out, way, sizeof way);
    return err_set(err, EX_USAGE, "%s cannot be generated; %s", task->name, way);
}

/* Sets *found to whether all splits are there. Train is written last, so train without the others
 * is no interrupted preparation but something of the user's, which is not overwritten. */
static bool find_splits(const char *dir, bool *found, Err *err) {
    char path[SPLITS][FILE_PATH_MAX];
    bool there[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        if (!dataset_path(path[s], dir, s, err)) return false;
        there[s] = file_exists(path[s]);
    }
    *found = there[SPLIT_TRAIN] && there[SPLIT_VAL] && there[SPLIT_TEST];
    if (*found || !there[SPLIT_TRAIN]) return true;
    return err_set(
        err, EX_NOINPUT,
        "%s is there, but %s is missing: add it, or remove the first to have all made anew",
        path[SPLIT_TRAIN], path[there[SPLIT_VAL] ? SPLIT_TEST : SPLIT_VAL]);
}

/* $CAST_DATA/<task> into buf, if official files are there. */
static bool find_official(const Task *t, char *buf, size_t size) {
    const char *root = getenv("CAST_DATA");
    if (!root || !*root || !t->import) return false;
    int n = snprintf(buf, size, "%s/%s", root, t->name);
    return n > 0 && (size_t)n < size && t->recognise(buf);
}

/* -1 where the file system has no such locks: preparing then goes on without. */
static int lock_dir(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    log_info("%s: another process is at work on it, waiting", dir);
    if (flock(fd, LOCK_EX) == 0) return fd;
    close(fd);
    return -1;
}

static bool make(const Task *task, const TaskRequest *r, Err *err) {
    log_info("%s: %s %s%s%s, once", r->out, r->from ? "importing" : "generating", task->name,
             r->from ? " from " : "", r->from ? r->from : "");
    return r->from ? task->import(r, err) : task->generate(r, err);
}

bool task_prepare(const Task *task, const char *dir, Err *err) {
    char official[FILE_PATH_MAX], way[1024];
    bool found;
    if (!find_splits(dir, &found, err)) return false;
    if (found) return true;
    TaskRequest r = {.out = dir, .seed = TASK_SEED};
    if (find_official(task, official, sizeof official)) r.from = official;
    if (!r.from && !task->generate) {
        task_way(task, dir, way, sizeof way);
        return err_set(err, EX_NOINPUT,
                       "%s: no prepared data for %s, nor official files in $CAST_DATA/%s; %s", dir,
                       task->name, task->name, way);
    }
    if (!file_make_dirs(dir, err)) return false;
    int lock = lock_dir(dir);
    bool ok = find_splits(dir, &found, err) && (found || make(task, &r, err));
    if (lock >= 0) close(lock);
    return ok;
}
