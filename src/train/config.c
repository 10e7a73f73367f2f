#include "train/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/dataset.h"
#include "io/json.h"
#include "io/text.h"
#include "optim/schedule.h"
#include "train/config_file.h"
#include "train/guard.h"
#include "train/kept.h"
#include "train/override.h"
#include "train/score.h"

static const char *task_name(int i) { return task_table[i] ? task_table[i]->name : NULL; }

/* Read into the task's place in the table. */
static const ConfigKey root_keys[] = {
    {"task", KEY_CHOICE, 0, NULL, 0, 0, NULL, "what to learn", .choice = task_name},
    {0},
};

/* What is said of a key in its row. A run may go on with another value of what does not change what
 * training computes; with another length where the schedule has no end. Runs that differ in what is
 * incidental alone are runs of one experiment: not those of other data, or validated more often,
 * which gives another best. */
enum { KEY_FREE = 1, KEY_LENGTH = 2, KEY_INCIDENTAL = 4 };

/* The first two are of tasks that hold out, and unknown to others. */
static const ConfigKey all_data_keys[] = {
    {"holdout", KEY_REAL, offsetof(Config, holdout), "0.1", 0, 0.5, NULL,
     "text only: share of the training split that validates; 0: val.safetensors, the test set"},
    {"holdout_seed", KEY_INT, offsetof(Config, holdout_seed), "1", 0, 2147483647, NULL,
     "text only: of the choice of these examples"},
    {"augment", KEY_BOOL, offsetof(Config, augment), "false", 0, 0, NULL,
     "training examples are varied in the task's own way"},
    {"dir", KEY_TEXT, offsetof(Config, data_dir), "\"\"", 0, 0, NULL,
     "where the prepared splits are; empty: data/<task>", .also = "path", .flags = KEY_FREE},
    {0},
};

const ConfigKey *config_data_keys(const Task *task) {
    return all_data_keys + (task->holds_out ? 0 : 2);
}

static const ConfigKey no_keys[] = {{0}};
/* Of the task's augmentation, in the same section. */
static const ConfigKey *augment_keys(const Task *task) {
    return task->augment_keys ? task->augment_keys : no_keys;
}

#define AT(field) offsetof(TrainConf, field)
static const ConfigKey train_keys[] = {
    {"objective", KEY_CHOICE, AT(objective), "\"classify\"", 0, 0, "classify masked",
     "what is learned: the labels; or which tokens stand where some are masked, without labels"},
    {"mask", KEY_REAL, AT(mask), "0", 0, 0.95, NULL,
     "share of tokens that masked training hides; 0: the task's, 0.5 of pictures, 0.15 of text, "
     "0.1 of listops; custom has none"},
    {"epochs", KEY_INT, AT(epochs), "1", 1, 1e6, NULL, "passes over the training split",
     .also = "num_epochs", .flags = KEY_LENGTH},
    {"steps", KEY_INT, AT(steps), "0", 0, 2e9, NULL, "updates to make; 0: as many as epochs give",
     .also = "updates iterations max_steps", .flags = KEY_LENGTH},
    {"petaflops", KEY_REAL, AT(petaflops), "0", 0, 1e9, NULL,
     "10^15 operations of all updates together, in place of epochs and steps: as many updates as "
     "come next to it; 0: not by operations",
     .also = "flops pflops", .flags = KEY_LENGTH},
    {"minutes", KEY_REAL, AT(minutes), "0", 0, 1e7, NULL,
     "minutes of training after which it ends, validation and tests not counted; 0: no limit. Of "
     "schedules without an end",
     .flags = KEY_LENGTH},
    {"batch", KEY_INT, AT(batch), "32", 1, 1 << 20, NULL, "samples a micro-batch",
     .also = "batch_size"},
    {"accumulate", KEY_INT, AT(accumulate), "1", 1, 1 << 16, NULL, "micro-batches an update"},
    {"lr", KEY_REAL, AT(lr), "0.001", 0, 1e3, NULL, "learning rate after warm-up",
     .also = "learning_rate"},
    {"schedule", KEY_CHOICE, AT(schedule), "\"constant\"", 0, 0, NULL, "learning rate over updates",
     .choice = schedule_name, .also = "scheduler"},
    {"warmup", KEY_INT, AT(warmup), "0", 0, 2e9, NULL, "updates of linear warm-up",
     .also = "warmup_steps"},
    {"weight_decay", KEY_REAL, AT(adamw.weight_decay), "0", 0, 10, NULL,
     "AdamW's decoupled weight decay", .also = "wd"},
    {"beta1", KEY_REAL, AT(adamw.beta1), "0.9", 0, 0.99999, NULL, "AdamW's first decay rate"},
    {"beta2", KEY_REAL, AT(adamw.beta2), "0.999", 0, 0.99999, NULL, "AdamW's second decay rate"},
    {"eps", KEY_REAL, AT(adamw.eps), "1e-8", 1e-30, 1, NULL, "AdamW's epsilon"},
    {"clip", KEY_REAL, AT(clip), "0", 0, 1e9, NULL, "largest norm of the gradients; 0: no clipping",
     .also = "clip_norm grad_clip grad_clip_norm gradient_clipping max_grad_norm"},
    {"label_smoothing", KEY_REAL, AT(label_smoothing), "0", 0, 0.999999, NULL,
     "share of a training label's mass that lies evenly on all classes; 0: none"},
    {"ema", KEY_REAL, AT(ema), "0", 0, 0.9999999, NULL,
     "decay of averaged weights, which are what is validated, tested and used later; in update t "
     "min(ema, (1 + t) / (10 + t)); 0: none"},
    {"seed", KEY_INT, AT(seed), "1", 0, 2147483647, NULL,
     "of initial weights, data order, augmentation, masks and dropout", .flags = KEY_INCIDENTAL},
    {"init", KEY_TEXT, AT(init), "\"\"", 0, 0, NULL,
     "a run's directory, a checkpoint or other safetensors that weights are taken from, by name, "
     "when the run begins; empty: none"},
    {"lanes", KEY_INT, AT(lanes), "32", 1, 4096, NULL,
     "gradient sums a batch is dealt to; part of what fixes the bits; threads beyond them help "
     "with long documents"},
    {"nan", KEY_CHOICE, AT(nan), "\"stop\"", 0, 0, GUARD_CHOICES,
     "an update that is not finite: the run stops; skips it, 100 times in a row at most; or goes "
     "back to its last validation, at half the learning rate, 3 times at most",
     .flags = KEY_FREE},
    {"eval_every", KEY_INT, AT(eval_every), "0", 0, 2e9, NULL,
     "updates between validations; 0: an epoch", .flags = KEY_FREE},
    {"eval_limit", KEY_INT, AT(eval_limit), "0", 0, 2e9, NULL,
     "examples that validate, and that are tested, the first ones; 0: all"},
    {"log_every", KEY_INT, AT(log_every), "10", 1, 1e9, NULL,
     "updates between lines of metrics.jsonl", .flags = KEY_FREE | KEY_INCIDENTAL},
    {"save_minutes", KEY_REAL, AT(save_minutes), "5", 0.01, 1e6, NULL,
     "minutes between checkpoints, besides those at validations",
     .flags = KEY_FREE | KEY_INCIDENTAL},
    {"best", KEY_CHOICE, AT(best), "\"accuracy\"", 0, 0, SCORE_BY_CHOICES,
     "the validation that best.safetensors is of: the one of the highest accuracy, or of the "
     "lowest loss"},
    {"patience", KEY_INT, AT(patience), "0", 0, 1e9, NULL,
     "validations in a row without a new best that end the run; 0: none do"},
    {"keep", KEY_INT, AT(keep), "0", 0, KEPT_MOST, NULL,
     "checkpoints of the last validations to keep, for cast_eval --average; 0: none",
     .flags = KEY_FREE | KEY_INCIDENTAL},
    {"tensorboard", KEY_BOOL, AT(tensorboard), "false", 0, 0, NULL,
     "scalars for TensorBoard too, in the run's directory", .flags = KEY_FREE | KEY_INCIDENTAL},
    {0},
};

const ConfigKey *config_root_keys(void) { return root_keys; }
const ConfigKey *config_train_keys(void) { return train_keys; }

static bool find_task(Config *c, const cJSON *root, Err *err) {
    int task;
    if (!schema_read(&task, root_keys, root, c->path, "", "$schema base data model train", err))
        return false;
    c->task = task_table[task];
    return true;
}

/* The keys of `others` in it are read by another call. */
static bool read_section(void *out, const ConfigKey *keys, const ConfigKey *others,
                         const cJSON *root, const char *name, const char *where, Err *err) {
    char skip[256] = "";
    const cJSON *section = cJSON_GetObjectItemCaseSensitive(root, name);
    for (; others->name; others++) format_add(skip, sizeof skip, "%s ", others->name);
    return schema_read(out, keys, section, where, name, skip, err);
}

static bool check_augment(const Config *c, const cJSON *root, Err *err) {
    const Task *t = c->task;
    if (c->augment && !t->augment)
        return err_set(err, EX_CONFIG, "%s: data.augment: task %s has no augmentation", c->path,
                       t->name);
    if (c->augment && t->augment_masks && c->train.objective == OBJECTIVE_MASKED)
        return err_set(err, EX_CONFIG,
                       "%s: data.augment of task %s masks tokens, which is what "
                       "train.objective=masked does by itself: use one of the two",
                       c->path, t->name);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(root, "data");
    for (const ConfigKey *k = augment_keys(t); k->name && !c->augment; k++)
        if (cJSON_GetObjectItemCaseSensitive(data, k->name))
            return err_set(err, EX_CONFIG, "%s: data.%s says nothing without data.augment=true",
                           c->path, k->name);
    return true;
}

static bool read_data(Config *c, const cJSON *root, Err *err) {
    const ConfigKey *keys = config_data_keys(c->task), *own = augment_keys(c->task);
    if (!read_section(c, keys, own, root, "data", c->path, err) ||
        !read_section(&c->augmentation, own, keys, root, "data", c->path, err))
        return false;
    if (!c->data_dir[0]) snprintf(c->data_dir, sizeof c->data_dir, "data/%s", c->task->name);
    return true;
}

static bool no_sizes(const Task *t, Err *err) {
    char here[FILE_PATH_MAX];
    err_set(err, err->code, "task %s reads its sizes from the data: %s", t->name, err->text);
    if (err->code != EX_NOINPUT) return false;
    return err_set(err, err->code,
                   "%s. It is looked for from %s; say where it is by data.dir=DIR, or make it "
                   "(data/README.md, data of your own)",
                   err->text, file_here(here));
}

static bool find_objective(Config *c, Err *err) {
    TrainConf *t = &c->train;
    const bool masked = t->objective == OBJECTIVE_MASKED;
    if (!masked && t->mask > 0)
        return err_set(
            err, EX_CONFIG,
            "%s: train.mask = %g is of masked training alone, and train.objective is \"classify\"",
            c->path, t->mask);
    if (masked && t->mask == 0) t->mask = c->task->masked;
    return !masked || t->mask > 0 ||
           err_set(err, EX_CONFIG,
                   "%s: train.objective \"masked\" on task %s needs train.mask, the share of "
                   "tokens to mask, say 0.15",
                   c->path, c->task->name);
}

/* What weights say of the set that they are of, else what it says itself. */
static bool read_facts(Config *c, const StFile *weights, Err *err) {
    char path[FILE_PATH_MAX];
    Dataset d;
    if (weights && !facts_read(&c->facts, weights, err)) return false;
    if (c->facts.text) return true;
    if (!dataset_path(path, c->data_dir, SPLIT_TRAIN, err) || !dataset_open(&d, path, err))
        return no_sizes(c->task, err);
    facts_of_set(&c->facts, &d);
    dataset_close(&d);
    return true;
}

/* What the model is to read and to tell apart: the task's sizes, or those of its set. */
static bool find_sizes(Config *c, const StFile *weights, ModelTask *sizes, Err *err) {
    const Task *t = c->task;
    const Facts *s = &c->facts;
    *sizes = (ModelTask){t->vocab, t->classes, t->per_example, t->max_length, 0, false};
    if (t->vocab) return true;
    if (!read_facts(c, weights, err)) return false;
    *sizes = (ModelTask){s->vocab, s->classes, s->per_example, s->longest, 0, false};
    c->task = task_of_kind(t, s->ids, s->per_example);
    return true;
}

/* In key=~/data the shell leaves it as it is, and in a file nobody looks for it. */
static bool check_home(const Config *c, Err *err) {
    const char *const path[] = {c->data_dir, c->train.init}, *home = getenv("HOME");
    static const char *const key[] = {"data.dir", "train.init"};
    for (int i = 0; i < 2; i++)
        if (!strncmp(path[i], "~/", 2)) {
            err_set(err, EX_CONFIG,
                    "%s: key '%s': %s: ~ is not known here; write the whole path, "
                    "%s%s",
                    c->path, key[i], path[i], home ? home : "...", path[i] + 1);
            return err_blame(err, key[i]);
        }
    return true;
}

static bool read_all(Config *c, const cJSON *root, const StFile *weights, Err *err) {
    if (!cJSON_IsObject(root))
        return err_set(err, EX_CONFIG, "%s: a config must be an object { ... }", c->path);
    if (!find_task(c, root, err)) return false;
    if (!read_data(c, root, err) ||
        !read_section(&c->train, train_keys, no_keys, root, "train", c->path, err) ||
        !check_augment(c, root, err) || !check_home(c, err))
        return false;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    ModelTask sizes;
    if (!find_objective(c, err) || !find_sizes(c, weights, &sizes, err)) return false;
    sizes.masked = c->train.mask;
    sizes.masks = sizes.masked > 0 || (c->augment && c->task->augment_masks);
    return model_open(&c->model, model, &sizes, c->path, err);
}

static cJSON *resolve(const Config *c) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "task", c->task->name);
    cJSON *data = cJSON_AddObjectToObject(root, "data");
    schema_write(c, config_data_keys(c->task), data);
    if (c->augment) schema_write(&c->augmentation, augment_keys(c->task), data);
    model_write(&c->model, cJSON_AddObjectToObject(root, "model"));
    schema_write(&c->train, train_keys, cJSON_AddObjectToObject(root, "train"));
    return root;
}

/* Whether the learning rate does not depend on when training ends. */
static bool endless(const cJSON *config) {
    const char *s = json_string(config, "train.schedule");
    for (int i = 0; s && schedule_name(i); i++)
        if (!strcmp(s, schedule_name(i))) return !schedule_ends(i);
    return false;
}

/* The names of schedules without an end. */
static void list_endless(char *names, size_t size, const char *between) {
    *names = '\0';
    for (int i = 0; schedule_name(i); i++)
        if (!schedule_ends(i))
            format_add(names, size, "%s%s", *names ? between : "", schedule_name(i));
}

static bool check_minutes(const Config *c, Err *err) {
    if (c->train.minutes <= 0 || !schedule_ends(c->train.schedule)) return true;
    char names[128];
    list_endless(names, sizeof names, " or ");
    return err_set(err, EX_CONFIG,
                   "%s: train.minutes = %g goes with a train.schedule that has no end, %s; others "
                   "are laid out over all updates",
                   c->path, c->train.minutes, names);
}

static bool check_petaflops(const Config *c, Err *err) {
    const TrainConf *t = &c->train;
    return t->petaflops <= 0 || t->steps == 0 ||
           err_set(err, EX_CONFIG,
                   "%s: train.petaflops = %g and train.steps = %d exclude each other: both say how "
                   "many updates there are. Set one to 0",
                   c->path, t->petaflops, t->steps);
}

static const Section sections[] = {
    {"train", train_keys}, {"model", model_keys}, {"data", all_data_keys}, {0}};

cJSON *config_value(const char *assignment) { return override_value(sections, assignment); }

bool config_open(Config *c, const cJSON *root, const char *where, const StFile *weights,
                 char *const *overrides, int count, Err *err) {
    *c = (Config){0};
    snprintf(c->path, sizeof c->path, "%s", where);
    cJSON *own = cJSON_Duplicate(root, true);
    bool ok = override_apply(own, sections, overrides, count, err);
    if (ok &&
        !(read_all(c, own, weights, err) && check_minutes(c, err) && check_petaflops(c, err))) {
        override_blame(err, c->path, own, sections, overrides, count);
        ok = false;
    }
    if (ok) c->resolved = resolve(c);
    cJSON_Delete(own);
    return ok;
}

bool config_load(Config *c, const char *path, char *const *overrides, int count, Err *err) {
    char where[FILE_PATH_MAX];
    *c = (Config){0};
    cJSON *root = config_file_read(path, where, err);
    const bool ok = root && config_open(c, root, where, NULL, overrides, count, err);
    if (root && !ok) config_file_blame(err, where);
    cJSON_Delete(root);
    return ok;
}

void config_complete(cJSON *config) {
    const char *name = json_string(config, "task");
    const Task *task = name ? task_find(name) : NULL;
    if (!task) return;
    schema_complete(config_data_keys(task), config, "data");
    if (cJSON_IsTrue(json_at(config, "data.augment")))
        schema_complete(augment_keys(task), config, "data");
    model_complete(config);
    schema_complete(train_keys, config, "train");
}

void config_free(Config *c) {
    if (c->model.mech) model_close(&c->model);
    facts_close(&c->facts);
    cJSON_Delete(c->resolved);
    *c = (Config){0};
}

const char *config_class(const Config *c, int k) {
    return task_class(c->task, &c->facts.class_names, k);
}

void config_run_dir(char *dir, size_t size, const char *path, char *const *overrides, int count) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int len = (int)strlen(name) - (text_ends(name, ".json") ? (int)strlen(".json") : 0);
    if (count == 0) {
        snprintf(dir, size, "runs/%.*s", len, name);
        return;
    }
    char **sorted = mem_alloc((size_t)count, sizeof *sorted);
    memcpy(sorted, overrides, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, text_order);
    uLong hash = crc32(0, NULL, 0);
    for (int i = 0; i < count; i++)
        hash = crc32(hash, (const Bytef *)sorted[i], (uInt)strlen(sorted[i]) + 1);
    mem_free(sorted);
    snprintf(dir, size, "runs/%.*s-%08lx", len, name, hash);
}

/* ---- comparison ---- */

/* 0 of a key that is in no table here. */
static unsigned key_flags(const char *key) {
    const ConfigKey *k = !strncmp(key, "data.", 5)    ? schema_find(all_data_keys, key + 5)
                         : !strncmp(key, "train.", 6) ? schema_find(train_keys, key + 6)
                                                      : NULL;
    return k ? k->flags : 0;
}

bool config_key_is_incidental(const char *key) { return key_flags(key) & KEY_INCIDENTAL; }

/* Keys with one of the flags `may` may differ. */
static void differences(const cJSON *a, const cJSON *b, const char *prefix, unsigned may,
                        char *list, size_t size) {
    for (const cJSON *x = a->child; x; x = x->next) {
        char key[512];
        snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", x->string);
        const cJSON *y = cJSON_GetObjectItemCaseSensitive(b, x->string);
        if (y && cJSON_IsObject(x) && cJSON_IsObject(y)) {
            differences(x, y, key, may, list, size);
            continue;
        }
        if ((y && cJSON_Compare(x, y, true)) || key_flags(key) & may) continue;
        char *was = cJSON_PrintUnformatted(x), *now = y ? cJSON_PrintUnformatted(y) : NULL;
        format_add(list, size, "%s%s (%s, now %s)", *list ? ", " : "", key, was,
                   now ? now : "absent");
        cJSON_free(was);
        cJSON_free(now);
    }
}

void config_differences(const cJSON *a, const cJSON *b, const char *prefix, char *list,
                        size_t size) {
    const unsigned length = endless(a) && endless(b) ? KEY_LENGTH : 0;
    differences(a, b, prefix, KEY_FREE | length, list, size);
}

void config_warn_data(const cJSON *a, const cJSON *b, const char *where) {
    const char *was = json_string(a, "data.dir"), *now = json_string(b, "data.dir");
    if (was && now && strcmp(was, now) != 0)
        log_warn("%s: was made with the data in %s, which are now looked for in %s", where, was,
                 now);
}

/* Where nothing but the length of a run differs, which may under another schedule; else "". */
static void length_note(const cJSON *a, const cJSON *b, char *buf, size_t size) {
    char others[768] = "", names[128];
    differences(a, b, "", KEY_FREE | KEY_LENGTH, others, sizeof others);
    list_endless(names, sizeof names, " or ");
    snprintf(buf, size, "; only a run that began with train.schedule %s can be made longer", names);
    if (others[0]) *buf = '\0';
}

bool config_same(const cJSON *a, const cJSON *b, const char *where, Err *err) {
    char list[768] = "", note[256];
    config_differences(a, b, "", list, sizeof list);
    if (!list[0]) return true;
    length_note(a, b, note, sizeof note);
    return err_set(err, EX_CONFIG,
                   "%s holds a run of another config: %s. Use another --out, or delete it%s", where,
                   list, note);
}

/* Where several tasks share an augmentation, it is told once. */
static void help_augment(FILE *f, const Task *task) {
    const char *between = "";
    for (int i = 0; task_table[i] != task; i++)
        if (task_table[i]->augment == task->augment) return;
    if (!task->augment_keys) return;
    fputs("\n  with data.augment=true, task ", f);
    for (int i = 0; task_table[i]; i++) {
        if (task_table[i]->augment != task->augment) continue;
        fprintf(f, "%s%s", between, task_table[i]->name);
        between = " or ";
    }
    fputs(":\n", f);
    schema_help(f, task->augment_keys, "data");
}

static void list_flagged(FILE *f, const ConfigKey *keys, const char *section, unsigned flag,
                         const char *between) {
    for (; keys->name; keys++) {
        if (!(keys->flags & flag)) continue;
        fprintf(f, "%s%s.%s", between, section, keys->name);
        between = ", ";
    }
}

void config_help(FILE *f) {
    schema_help(f, root_keys, "");
    schema_help(f, all_data_keys, "data");
    schema_help(f, train_keys, "train");
    model_help(f);
    for (int i = 0; task_table[i]; i++) help_augment(f, task_table[i]);
    char names[128];
    list_endless(names, sizeof names, ", ");
    fprintf(f,
            "\nA run may go on, in its --out, with other values of these, the last ones with a\n"
            "schedule without an end (%s):",
            names);
    list_flagged(f, all_data_keys, "data", KEY_FREE, "\n  ");
    list_flagged(f, train_keys, "train", KEY_FREE, ", ");
    list_flagged(f, train_keys, "train", KEY_LENGTH, "\n  ");
    fputs("\n", f);
}
