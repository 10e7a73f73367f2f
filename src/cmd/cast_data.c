/* cast_data: makes, imports, shows and verifies prepared datasets. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/nearest.h"
#include "core/option.h"
#include "data/dataset.h"
#include "data/summary.h"
#include "data/task.h"
#include "io/text.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_data --help' says more"

typedef struct Options {
    TaskRequest request;
    int threads;
    SummaryExample example; /* index: -1 where none was given */
    char *const *words;     /* the verb and its arguments */
    int nwords;
} Options;

static bool take_setting(void *request, const char *name, const char *text, Err *err) {
    TaskRequest *r = request;
    if (r->nsettings == TASK_SETTINGS_MAX)
        return err_set(err, EX_USAGE, "--%s: more than %d options of a task", name,
                       TASK_SETTINGS_MAX);
    r->settings[r->nsettings++] = (TaskSetting){name, text ? text : ""};
    return true;
}

enum { GENERATE = 1, IMPORT = 2, SHOW = 4, VERIFY = 8, OPTIONS_MAX = 63 };

#define AT(field) offsetof(Options, field)
static const Option fixed_options[] = {
    {"out", OPTION_TEXT, AT(request.out), "DIR",
     "where train.safetensors, val.safetensors and test.safetensors go",
     .verbs = GENERATE | IMPORT},
    {"seed", OPTION_SEED, AT(request.seed), "S",
     "of what is drawn: generated examples, which pictures of an import validate, show's augment "
     "[1]",
     .verbs = GENERATE | IMPORT | SHOW},
    {"train", OPTION_INT, AT(request.train), "N",
     "examples of training to generate [the task's own]", 1, INT_MAX, .verbs = GENERATE},
    {"val", OPTION_INT, AT(request.val), "N", "of validation", 1, INT_MAX, .verbs = GENERATE},
    {"test", OPTION_INT, AT(request.test), "N", "of test", 1, INT_MAX, .verbs = GENERATE},
    {"threads", OPTION_INT, AT(threads), "N",
     "threads to generate with [OMP_NUM_THREADS, else the physical cores]", 1, OPTION_MOST_THREADS,
     .verbs = GENERATE},
    {"index", OPTION_INT, AT(example.index), "I",
     "the example to show, from 0; of a DIR, in its train split", 0, INT_MAX, .verbs = SHOW},
    {"augment", OPTION_FLAG, AT(example.augment), NULL,
     "show: as the first epoch with data.augment=true and train.seed=S sees that example",
     .verbs = SHOW},
    {"png", OPTION_OWN, AT(request), "FILE", "show: writes that example's picture there",
     .take = take_setting, .verbs = SHOW},
};
enum { FIXED_OPTIONS = sizeof fixed_options / sizeof *fixed_options };

/* The fixed ones and those of all tasks, each name once; the last has none. */
static void list_options(Option list[OPTIONS_MAX + 1]) {
    int n = FIXED_OPTIONS;
    memcpy(list, fixed_options, sizeof fixed_options);
    for (int i = 0; task_table[i]; i++) {
        for (const TaskOption *o = task_table[i]->options; o && o->name; o++) {
            int k = 0;
            while (k < n && strcmp(list[k].name, o->name) != 0) k++;
            REQUIRE(k < OPTIONS_MAX, "more than %d options", OPTIONS_MAX);
            if (k == n)
                list[n++] =
                    (Option){o->name, OPTION_OWN, AT(request), o->value, .take = take_setting};
            list[k].verbs |= GENERATE | IMPORT;
        }
    }
    list[n] = (Option){0};
}

static void print_tasks(FILE *f) {
    fprintf(f, "tasks:\n");
    for (int i = 0; task_table[i]; i++) {
        const Task *t = task_table[i];
        fprintf(f, "  %-10s %s\n", t->name, t->title);
        if (t->generate) fprintf(f, "%13sgenerate\n", "");
        if (t->import) fprintf(f, "%13simport %s\n%15sof %s\n", "", t->archive, "", t->url);
        if (!t->generate && !t->import) fprintf(f, "%13sprepared form only\n", "");
        if (i > 0 && t->options && t->options == task_table[i - 1]->options) {
            fprintf(f, "%13swith the options of %s\n", "", task_table[i - 1]->name);
            continue;
        }
        for (const TaskOption *o = t->options; o && o->name; o++) {
            char form[64];
            snprintf(form, sizeof form, "--%s %s", o->name, o->value ? o->value : "");
            fprintf(f, "%13s%-20s%s\n", "", form, o->help);
        }
    }
}

static const char usage[] =
    "usage: cast_data generate TASK --out DIR [--seed S] [--train N --val N --test N]\n"
    "                 [--threads N] [the task's own options]\n"
    "       cast_data import TASK FROM --out DIR [--seed S] [--side N]\n"
    "       cast_data show DIR|FILE [--index I [--augment [--seed S]] [--png FILE]]\n"
    "       cast_data verify DIR|FILE\n\n"
    "generate  makes a task's data by its rules; the same seed makes the same data\n"
    "import    reads a task's official files: an archive or the directory it unpacks to\n"
    "show      prints counts, lengths, labels and ids, or one example\n"
    "verify    checks every token, label and checksum, and recomputes labels where that is "
    "possible\n\n"
    "A set that is there is replaced when all of the new one is on the disk: a disk that is full "
    "(status 74) leaves the old one, a signal (143 for SIGTERM) too, or none in the moment of the "
    "exchange.\n";

enum { TASKS_MOST = 32 };

static const Task *want_task(const char *name, Err *err) {
    const Task *t = task_find(name);
    if (t) return t;
    char names[256] = "";
    const char *words[TASKS_MOST + 1] = {NULL};
    for (int i = 0; task_table[i] && i < TASKS_MOST; i++) {
        format_add(names, sizeof names, "%s%s", i ? ", " : "", task_table[i]->name);
        words[i] = task_table[i]->name;
    }
    const char *other = nearest_word(name, words);
    err_set(err, EX_USAGE, "%s: no such task; %s%s%sthere are %s", name,
            other ? "did you mean '" : "", other ? other : "", other ? "'? " : "", names);
    return NULL;
}

/* A split of the directory, or the file. */
static bool open_dataset(Dataset *d, const char *place, int split, Err *err) {
    char path[FILE_PATH_MAX];
    const bool dir = file_is_dir(place);
    return (!dir || dataset_path(path, place, split, err)) &&
           dataset_open(d, dir ? path : place, err);
}

static bool report_splits(const char *dir, Err *err) {
    int count[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        if (!open_dataset(&d, dir, s, err)) return false;
        count[s] = d.examples;
        dataset_close(&d);
    }
    log_info("%s: %d train, %d val, %d test examples", dir, count[SPLIT_TRAIN], count[SPLIT_VAL],
             count[SPLIT_TEST]);
    return true;
}

/* Generates, or imports what a third word names. */
static bool run_make(Options *o, Err *err) {
    const bool import = o->nwords == 3;
    const Task *t = want_task(o->words[1], err);
    if (!t) return false;
    if (!o->request.out || !*o->request.out)
        return err_set(err, EX_USAGE, "%s: --out DIR is missing" TRY_HELP, o->words[0]);
    o->request.from = o->words[2];
    return (import ? task_import : task_generate)(t, &o->request, err) &&
           report_splits(o->request.out, err);
}

/* Calls visit for the file, or for each split of the directory; `first`: the first one. */
typedef bool Visit(const Dataset *d, const Dataset *first, Err *err);
static bool visit_datasets(const char *place, Visit *visit, Err *err) {
    const int n = file_is_dir(place) ? SPLITS : 1;
    Dataset split[SPLITS] = {0};
    bool ok = true;
    for (int s = 0; ok && s < n; s++)
        ok = open_dataset(&split[s], place, s, err) && visit(&split[s], &split[0], err);
    for (int s = 0; s < n; s++) dataset_close(&split[s]);
    return ok;
}

static bool show_summary(const Dataset *d, const Dataset *first, Err *err) {
    (void)first, (void)err;
    summary_print(d);
    putchar('\n');
    return true;
}

static bool show_example(const char *place, const SummaryExample *e, const char *png, Err *err) {
    Dataset d;
    if (!open_dataset(&d, place, SPLIT_TRAIN, err)) return false;
    bool ok = e->index < d.examples;
    if (!ok)
        err_set(err, EX_USAGE, "--index: %s has examples 0 to %d, got %d", d.file.path,
                d.examples - 1, e->index);
    ok = ok && (png ? summary_write_png(&d, e, png, err) : summary_print_example(&d, e, err));
    dataset_close(&d);
    return ok;
}

static bool run_show(Options *o, Err *err) {
    const char *png = task_setting(&o->request, "png");
    o->example.seed = o->request.seed;
    if (o->example.index >= 0) return show_example(o->words[1], &o->example, png, err);
    if (png || o->example.augment)
        return err_set(err, EX_USAGE, "--%s: of which example? --index says it" TRY_HELP,
                       png ? "png" : "augment");
    return visit_datasets(o->words[1], show_summary, err);
}

static bool check_labels(const Dataset *d, const Task *task, Err *err) {
    bool ok = true;
    for (int i = 0; ok && i < d->examples; i++) {
        int document = dataset_document(d, i, 0), n = dataset_length(d, document);
        int *ids = mem_alloc((size_t)n, sizeof *ids);
        dataset_tokens(d, document, n, ids);
        ok = task->check(ids, n, d->labels[i], err);
        if (!ok) err_set(err, err->code, "%s: example %d: %s", d->file.path, i, err->text);
        mem_free(ids);
    }
    return ok;
}

static bool is_alike(const Dataset *d, const Dataset *first, Err *err) {
    if (d->vocab == first->vocab && d->classes == first->classes &&
        d->per_example == first->per_example)
        return classes_agree(&d->class_names, &first->class_names, d->file.path,
                             "another split of the set", d->classes, err);
    return err_set(err, EX_DATAERR,
                   "%s: vocabulary %d, %d classes, %d documents an example are not those of the "
                   "other splits: %d, %d, %d",
                   d->file.path, d->vocab, d->classes, d->per_example, first->vocab, first->classes,
                   first->per_example);
}

static bool verify(const Dataset *d, const Dataset *first, Err *err) {
    const Task *task = summary_task(d);
    const char *name = st_meta(&d->file, "task");
    if (!dataset_check_hash(d, err) || !is_alike(d, first, err)) return false;
    if (name && !task && task_find(name))
        return err_set(err, EX_DATAERR,
                       "%s: vocabulary %d, %d classes, %d documents an example are not those of %s",
                       d->file.path, d->vocab, d->classes, d->per_example, name);
    bool recompute = task && task->check;
    if (recompute && !check_labels(d, task, err)) return false;
    text_print(stdout, "%s: %d examples, %" PRId64 " tokens: OK%s\n", d->file.path, d->examples,
               d->offsets[d->documents], recompute ? ", and so is every label, recomputed" : "");
    return true;
}

static bool run_verify(Options *o, Err *err) { return visit_datasets(o->words[1], verify, err); }

typedef struct Command {
    const char *name;
    unsigned verb;
    int words;
    const char *form; /* of the words, for people */
    bool (*run)(Options *o, Err *err);
} Command;

static const Command commands[] = {
    {"generate", GENERATE, 2, "generate TASK --out DIR", run_make},
    {"import", IMPORT, 3, "import TASK FROM --out DIR", run_make},
    {"show", SHOW, 2, "show DIR|FILE", run_show},
    {"verify", VERIFY, 2, "verify DIR|FILE", run_verify},
};

static const Command *find_command(const Options *o, Err *err) {
    const char *name = o->nwords > 0 ? o->words[0] : "";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(name, commands[i].name)) return &commands[i];
    static const char *const verbs[] = {"generate", "import", "show", "verify", NULL};
    const char *other = nearest_word(name, verbs);
    err_set(err, EX_USAGE, "%s%s%s%s%sexpected generate, import, show or verify" TRY_HELP, name,
            o->nwords > 0 ? ": " : "", other ? "did you mean '" : "", other ? other : "",
            other ? "'? " : "");
    return NULL;
}

static const Command *parse(Options *o, int argc, char **argv, Err *err) {
    Option list[OPTIONS_MAX + 1];
    CommandLine line;
    list_options(list);
    const Program program = {"cast_data", "makes, reads and shows datasets", usage, list,
                             .more = print_tasks};
    if (!option_parse(&line, o, &program, argc, argv, err)) return NULL;
    o->words = line.words;
    o->nwords = line.nwords;
    if (o->nwords > 3) {
        err_set(err, EX_USAGE, "'%s' is one argument too many" TRY_HELP, o->words[3]);
        return NULL;
    }
    const Command *c = find_command(o, err);
    for (int i = 0; c && list[i].name; i++) {
        if (!(line.given >> i & 1) || list[i].verbs & c->verb) continue;
        err_set(err, EX_USAGE, "%s: takes no --%s" TRY_HELP, c->name, list[i].name);
        return NULL;
    }
    if (c && o->nwords != c->words)
        err_set(err, EX_USAGE, "expected: cast_data %s" TRY_HELP, c->form);
    else if (c && c->verb == SHOW && option_given(&line, list, "seed") && !o->example.augment)
        err_set(err, EX_USAGE, "show: --seed is of --augment" TRY_HELP);
    else
        return c;
    return NULL;
}

int main(int argc, char **argv) {
    Options o = {.request = {.seed = TASK_SEED}, .example.index = -1};
    Err err;
    stop_at_start();
    const Command *c = parse(&o, argc, argv, &err);
    lanes_open(o.threads);
    const bool ok = c && lanes_start(&err) && c->run(&o, &err) && err_check_stdout(&err);
    return ok ? EXIT_SUCCESS : err_report("cast_data", &err);
}
