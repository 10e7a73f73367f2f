/* A run's config: a JSON file, overridden key by key on the command line, checked against the
 * tables of keys that task, model, mechanism and training declare. */
#ifndef TRAIN_CONFIG_H
#define TRAIN_CONFIG_H

#include "data/facts.h"
#include "data/task.h"
#include "model/model.h"
#include "optim/adamw.h"

typedef enum Objective { OBJECTIVE_CLASSIFY, OBJECTIVE_MASKED } Objective;

typedef struct TrainConf {
    int epochs, steps, batch, accumulate, warmup, schedule, eval_every, log_every, lanes, seed, nan;
    int objective, keep, patience, best, eval_limit;
    double mask; /* resolved: the share of tokens in masked training, 0 in classification */
    double lr, clip, minutes, petaflops, save_minutes, label_smoothing, ema;
    bool tensorboard;
    AdamwConf adamw;
    char init[KEY_TEXT_MAX]; /* "": none */
} TrainConf;

typedef struct Config {
    char path[KEY_TEXT_MAX]; /* the file, for messages */
    const Task *task;
    char data_dir[KEY_TEXT_MAX];
    bool augment;
    Augment augmentation; /* settings of the task's */
    double holdout;       /* of tasks that hold out, else 0 */
    int holdout_seed;
    Model model;
    Facts facts; /* of a set of one's own; none of the benchmark's tasks, which say it themselves */
    TrainConf train;
    cJSON *resolved; /* every key with its value */
} Config;

/* `overrides`: count strings "key=value". EX_NOINPUT, EX_USAGE or EX_CONFIG. Where the data say the
 * task's sizes, train.safetensors of data.dir is opened: EX_NOINPUT or EX_DATAERR. On error,
 * too, config_free is to be called. */
bool config_load(Config *c, const char *path, char *const *overrides, int count, Err *err);
/* The same of a config that has been read, which stays as it is; `where` names it in messages. Of
 * `weights`, where these say the task's sizes (data/facts.h), the data are not needed; or NULL. */
bool config_open(Config *c, const cJSON *root, const char *where, const StFile *weights,
                 char *const *overrides, int count, Err *err);
void config_free(Config *c);

/* What class k is called: the task's name for it, or that of the data; NULL: it has none. */
const char *config_class(const Config *c, int k);

/* runs/<name of the file>[-<hash of the overrides>], so that the same command finds the same run
 * again. */
void config_run_dir(char *dir, size_t size, const char *path, char *const *overrides, int count);

/* Whether a run of config `a` may go on under `b`. Keys that do not change what training computes
 * may differ: where the data lies, how often to report, validate and save, what is kept, what is
 * done about numbers that are not finite, and, under a schedule without an end, how long to train
 * (KEY_FREE in its tables). err lists the keys that differ. */
bool config_same(const cJSON *a, const cJSON *b, const char *where, Err *err);
/* Data may have moved: says so where `b`, which config_same took for `a`, has them elsewhere. */
void config_warn_data(const cJSON *a, const cJSON *b, const char *where);
/* Makes of a resolved config what this version would have written: one of an older version lacks
 * keys, which then had what is their default now. It is left as it is where its task is unknown. */
void config_complete(cJSON *config);

/* Appends to `list` ("", or what is in it) the keys of a that differ in b and may not, behind
 * `prefix`: "model.depth (2, now 3)". a and b may be a config's sections, as prefix says. */
void config_differences(const cJSON *a, const cJSON *b, const char *prefix, char *list,
                        size_t size);

/* The value that "key=value" sets (train/override.h); to be deleted. */
cJSON *config_value(const char *assignment);

/* Whether runs that differ in this key alone are runs of one experiment: "train.seed". */
bool config_key_is_incidental(const char *key);

/* All keys, for people. */
void config_help(FILE *f);

/* The tables of keys that it is read by: outside of sections, of "train", and of "data" as the task
 * has it, without its augmentation's. */
const ConfigKey *config_root_keys(void);
const ConfigKey *config_train_keys(void);
const ConfigKey *config_data_keys(const Task *task);

#endif
