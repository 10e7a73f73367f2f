/* The table of tasks. Adding one is a file that defines a Task, and a row in task.c. */
#ifndef DATA_TASK_H
#define DATA_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/augment.h"
#include "data/dataset.h"

/* An option that a task has beside those of all: --name VALUE. */
typedef struct TaskOption {
    const char *name;
    const char *value; /* what --help calls its value; NULL: it takes none */
    const char *help;
    bool import; /* import takes it too, not generate alone */
} TaskOption;

/* One that was given; its value is "" where it takes none. */
typedef struct TaskSetting {
    const char *name, *value;
} TaskSetting;
enum { TASK_SETTINGS_MAX = 16 };

/* What `cast_data generate` and `import` were asked for. Every call leaves
 * out/{train,val,test}.safetensors. */
typedef struct TaskRequest {
    const char *from; /* import: file or directory */
    const char *out;
    uint64_t seed;
    int train, val, test; /* generate: examples a split; 0: as many as the official files have */
    TaskSetting settings[TASK_SETTINGS_MAX];
    int nsettings;
} TaskRequest;

/* What an id is, where `words` does not say it. */
typedef enum TaskTokens { TOKENS_VALUES, TOKENS_BYTES, TOKENS_PIXELS } TaskTokens;

enum { TASK_SEED = 1 };      /* what task_prepare uses, and cast_data unless told otherwise */
enum { TASK_GENERATED = 2 }; /* sets of parameters that are the benchmark's, at most */

typedef struct Task Task;
struct Task {
    const char *name;   /* "listops" */
    const char *title;  /* one line for --help */
    int vocab, classes; /* of prepared data; 0: the data say it, and all up to max_length */
    int per_example;    /* documents an example: 1, or 2 for pairs */
    int max_length;     /* what training reads of a sequence by default */
    int shortest;       /* no example of the benchmark's has fewer tokens; 0: some may have one */
    double masked;      /* masked training's share of tokens; 0: the config must say it */
    double chance;      /* the share of the commonest class; 0: of each, 1 / classes */
    bool holds_out;     /* validation is a part of train, chosen when training (data.holdout) */
    int official[3];    /* examples of train, val and test in the official files; 0: none */
    int most;           /* examples that generate makes, in all */
    /* How the source of a set begins that generate made with the benchmark's parameters, if any. */
    const char *generated[TASK_GENERATED];
    const char *imported;      /* and of one that import made; NULL where import is */
    const char *archive, *url; /* what is imported, and where it is; NULL where import is */
    const TaskOption *options; /* its own ones; the last has no name; NULL: none */
    TaskTokens tokens;         /* bytes: data/bytes.h; pixels: grey, row by row of a square */
    const char *const *words;  /* what each id stands for; NULL: the id is a value */
    const char *const *labels; /* what each class stands for; NULL: the class is a value */
    bool (*import)(const Task *t, const TaskRequest *r, Err *err);   /* NULL: cannot be imported */
    bool (*generate)(const Task *t, const TaskRequest *r, Err *err); /* NULL: cannot be generated */
    /* Where at or under the directory `from` this task's official files are, into `place` of
     * FILE_PATH_MAX bytes; false where they are not. NULL where import is. */
    bool (*locate)(char *place, const char *from);
    const char *holds;             /* what it looks for, as in "holds no ..." */
    bool unpacks;                  /* import reads an archive as it is */
    AugmentFn *augment;            /* of data.augment; NULL: there is none */
    const ConfigKey *augment_keys; /* its settings, in "data" too; NULL: it has none */
    bool augment_masks;            /* some tokens become TOKEN_MASKED */
    /* Whether the label follows from the tokens; err says why not. NULL where that cannot be
     * computed. */
    bool (*check)(const int *tokens, int length, int label, Err *err);
};

/* Ends with NULL. */
extern const Task *const task_table[];
const Task *task_find(const char *name);

/* The task as a set says what its ids are (dataset_kind), where the task leaves that to it. */
const Task *task_of_kind(const Task *t, const char *kind, int per_example);

/* What class k is called: by the task (NULL: not known) or else by the set; NULL: it has no name.
 */
const char *task_class(const Task *t, const ClassNames *own, int k);

/* Whether data of these sizes are the task's. */
bool task_fits(const Task *task, int vocab, int classes, int per_example);

/* Where training finds a prepared split: `dir`/<split>.safetensors if it is there; else
 * $CAST_DATA/<task> is imported into `dir`; else, where the task can be generated, it is generated
 * into `dir` with progress (0 examples: the task's defaults). Otherwise EX_NOINPUT with the command
 * that makes it, or where val or test is there and is not of what would be made. Processes that
 * prepare the same directory take turns: the first one does it, the others find it done. */
bool task_prepare(const Task *task, const char *dir, Err *err);

/* Whether it could: the same errors, and nothing is made. */
bool task_may_prepare(const Task *task, const char *dir, Err *err);

/* Whether that would have to make the data, and might be able to. */
bool task_would_make(const Task *t, const char *dir);

/* How the task's data comes into `dir`, in words: "run 'cast_data generate ...'". Of a model for no
 * more than `most` tokens (0: any), whether others than the benchmark's are needed. */
void task_way(const Task *task, const char *dir, int most, char *buf, size_t size);

/* The value of an option that was given (the last one, if twice), else NULL. */
const char *task_setting(const TaskRequest *r, const char *name);

/* Refuses with what to do instead (EX_USAGE) where the task has no importer, or no generator, and
 * settings of options that it has not. */
bool task_import(const Task *task, const TaskRequest *r, Err *err);
bool task_generate(const Task *task, const TaskRequest *r, Err *err);

/* ---- for importers and generators ---- */

/* buf = dir/name, of FILE_PATH_MAX bytes; whether that is there. */
bool task_join(char *buf, const char *dir, const char *name);

/* The first of `from` and `from`/<folder> (folders end with NULL) that holds the file `name`, into
 * `buf` of FILE_PATH_MAX bytes. */
bool task_locate(char *buf, const char *from, const char *const *folders, const char *name);

/* The task's `locate` on what import was given, or that itself where it is an archive that the task
 * unpacks; else EX_NOINPUT. */
bool task_place(const Task *t, char place[FILE_PATH_MAX], const char *from, Err *err);

/* The split of generated example i. Test takes the first ones, validation the next, train the rest:
 * a smaller training set has the same test set. */
int task_split(const TaskRequest *r, int i);

/* The split of each of n examples, to be freed: those that a permutation keyed by the seed
 * and `name` puts first are of validation, `test` more of test, the rest of train. */
unsigned char *task_deal(int n, int val, int test, uint64_t seed, const char *name);

/* Writers of the task's splits; and their end: writes them into `dir` if all went well so far
 * (`ok`), frees them, and returns whether it still does. */
void task_writers(DatasetWriter *w[SPLITS], const Task *t, const char *source, ...)
    __attribute__((format(printf, 3, 4)));
bool task_finish(DatasetWriter *w[SPLITS], bool ok, const char *dir, Err *err);

#endif
