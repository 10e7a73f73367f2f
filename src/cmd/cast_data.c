/* cast_data: makes, imports, shows and verifies prepared datasets. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/version.h"
#include "data/dataset.h"
#include "data/summary.h"
#include "data/task.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_data --help' says more"

typedef struct Options {
    TaskRequest request;
    int threads, index; /* index: -1 where none was given */
    const char *words[3];
    int nwords;
    unsigned given; /* a bit for each of the options below that was given */
} Options;

static const char usage[] =
    "usage: cast_data generate TASK --out DIR [--seed S] [--train N --val N --test N] [--threads "
    "N]\n"
    "                 [the task's own options]\n"
    "       cast_data import TASK FROM --out DIR [--seed S] [the task's own options]\n"
    "       cast_data show DIR|FILE [--index I [--png FILE]]\n"
    "       cast_data verify DIR|FILE\n"
    "\n"
    "generate  makes a task's data by its rules; the same seed makes the same data\n"
    "import    reads a task's official files: an archive or the directory it unpacks to\n"
    "show      prints counts, lengths, labels and ids, or one example\n"
    "verify    checks every token, label and checksum, and recomputes labels where that is "
    "possible\n"
    "\n"
    "  --out DIR       where train.safetensors, val.safetensors and test.safetensors go\n"
    "  --seed S        of what is drawn                                      [1]\n"
    "  --train N       examples to generate, likewise --val and --test       [the task's own]\n"
    "  --threads N     threads to generate with                              [physical cores]\n"
    "  --index I       the example to show, from 0; of a DIR, in its train split\n"
    "  --png FILE      show: writes that example's picture there\n"
    "  -h, --help      this text\n"
    "  --version       the version\n";

static void print_help(void) {
    fputs(usage, stdout);
    printf("\ntasks:\n");
    for (int i = 0; task_table[i]; i++) {
        const Task *t = task_table[i];
        printf("  %-10s %s\n", t->name, t->title);
        if (t->generate) printf("%13sgenerate\n", "");
        if (t->import) printf("%13simport %s\n", "", t->url ? t->url : t->archive);
        if (!t->generate && !t->import) printf("%13sprepared form only\n", "");
        if (i > 0 && t->options && t->options == task_table[i - 1]->options) {
            printf("%13swith the options of %s\n", "", task_table[i - 1]->name);
            continue;
        }
        for (const TaskOption *o = t->options; o && o->name; o++) {
            char form[64];
            snprintf(form, sizeof form, "--%s %s", o->name, o->value ? o->value : "");
            printf("%13s%-22s%s\n", "", form, o->help);
        }
    }
}

enum {
    OPT_OUT = 256,
    OPT_SEED,
    OPT_TRAIN,
    OPT_VAL,
    OPT_TEST,
    OPT_THREADS,
    OPT_INDEX,
    OPT_VERSION,
    OPT_TASKS = 1024, /* the tasks' own, by their place in the list */
    OPTIONS_MAX = 64
};

#define BIT(option) (1u << ((option)-OPT_OUT))

static const struct option fixed_options[] = {
    {"out", required_argument, NULL, OPT_OUT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"train", required_argument, NULL, OPT_TRAIN},
    {"val", required_argument, NULL, OPT_VAL},
    {"test", required_argument, NULL, OPT_TEST},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"index", required_argument, NULL, OPT_INDEX},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
};
enum { FIXED_OPTIONS = sizeof fixed_options / sizeof *fixed_options };

/* The fixed ones and those of all tasks, each name once; the last has none. */
static void list_options(struct option list[OPTIONS_MAX + 1]) {
    int n = FIXED_OPTIONS;
    memcpy(list, fixed_options, sizeof fixed_options);
    for (int i = 0; task_table[i]; i++) {
        for (const TaskOption *o = task_table[i]->options; o && o->name; o++) {
            int k = FIXED_OPTIONS;
            while (k < n && strcmp(list[k].name, o->name) != 0) k++;
            if (k < n) continue;
            REQUIRE(n < OPTIONS_MAX, "more than %d options", OPTIONS_MAX);
            int argument = o->value ? required_argument : no_argument;
            list[n++] = (struct option){o->name, argument, NULL, OPT_TASKS + k};
        }
    }
    list[n] = (struct option){NULL, 0, NULL, 0};
}

static bool take_setting(TaskRequest *r, const char *name, const char *value, Err *err) {
    if (r->nsettings == TASK_SETTINGS_MAX)
        return err_set(err, EX_USAGE, "--%s: more than %d options of a task", name,
                       TASK_SETTINGS_MAX);
    r->settings[r->nsettings++] = (TaskSetting){name, value ? value : ""};
    return true;
}

static bool take_option(Options *o, int c, const char *text, Err *err) {
    TaskRequest *r = &o->request;
    switch (c) {
    case OPT_OUT: r->out = text; return true;
    case OPT_SEED: return option_seed("seed", text, &r->seed, err);
    case OPT_TRAIN: return option_int("train", text, 1, INT_MAX, &r->train, err);
    case OPT_VAL: return option_int("val", text, 1, INT_MAX, &r->val, err);
    case OPT_TEST: return option_int("test", text, 1, INT_MAX, &r->test, err);
    case OPT_THREADS: return option_int("threads", text, 1, OPTION_MOST_THREADS, &o->threads, err);
    case OPT_INDEX: return option_int("index", text, 0, INT_MAX, &o->index, err);
    default: return err_set(err, EX_USAGE, "wrong option" TRY_HELP);
    }
}

/* Sets *done when --help or --version was all that was wanted. */
static bool parse_options(Options *o, int argc, char **argv, bool *done, Err *err) {
    struct option list[OPTIONS_MAX + 1];
    list_options(list);
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", list, NULL)) != -1;) {
        if (c == 'h' || c == OPT_VERSION) {
            if (c == 'h')
                print_help();
            else
                puts("cast_data " CAST_VERSION);
            *done = true;
            return true;
        }
        if (c == ':' || c == '?') return option_wrong("cast_data", c, argv, optind, err);
        if (c >= OPT_TASKS) {
            if (!take_setting(&o->request, list[c - OPT_TASKS].name, optarg, err)) return false;
            continue;
        }
        if (!take_option(o, c, optarg, err)) return false;
        o->given |= BIT(c);
    }
    for (; optind < argc; optind++) {
        if (o->nwords == 3)
            return err_set(err, EX_USAGE, "'%s' is one argument too many" TRY_HELP, argv[optind]);
        o->words[o->nwords++] = argv[optind];
    }
    return true;
}

static bool want_words(const Options *o, int n, const char *form, Err *err) {
    if (o->nwords == n) return true;
    return err_set(err, EX_USAGE, "expected: cast_data %s" TRY_HELP, form);
}

static const Task *want_task(const char *name, Err *err) {
    const Task *t = task_find(name);
    if (t) return t;
    char names[256] = "";
    for (int i = 0; task_table[i]; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", task_table[i]->name);
    }
    err_set(err, EX_USAGE, "%s: no such task; there are %s", name, names);
    return NULL;
}

static void report_official(const Task *t, const int count[SPLITS]) {
    const int *n = t->official;
    if (n[SPLIT_TRAIN] && memcmp(n, count, SPLITS * sizeof *n) != 0)
        log_warn("the official files have %d, %d and %d: these are others, or not all",
                 n[SPLIT_TRAIN], n[SPLIT_VAL], n[SPLIT_TEST]);
}

static bool report_splits(const Task *t, const char *dir, bool imported, Err *err) {
    int count[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        char path[FILE_PATH_MAX];
        Dataset d;
        if (!dataset_path(path, dir, s, err) || !dataset_open(&d, path, err)) return false;
        count[s] = d.examples;
        dataset_close(&d);
    }
    log_info("%s: %d train, %d val, %d test examples", dir, count[SPLIT_TRAIN], count[SPLIT_VAL],
             count[SPLIT_TEST]);
    if (imported) report_official(t, count);
    return true;
}

static bool run_generate(Options *o, Err *err) {
    if (!want_words(o, 2, "generate TASK --out DIR", err)) return false;
    const Task *t = want_task(o->words[1], err);
    if (!t) return false;
    if (!o->request.out) return err_set(err, EX_USAGE, "generate: --out DIR is missing" TRY_HELP);
    return task_generate(t, &o->request, err) && report_splits(t, o->request.out, false, err);
}

static bool run_import(Options *o, Err *err) {
    if (!want_words(o, 3, "import TASK FROM --out DIR", err)) return false;
    const Task *t = want_task(o->words[1], err);
    if (!t) return false;
    if (!o->request.out) return err_set(err, EX_USAGE, "import: --out DIR is missing" TRY_HELP);
    o->request.from = o->words[2];
    return task_import(t, &o->request, err) && report_splits(t, o->request.out, true, err);
}

/* Calls visit for the file, or for each split of the directory. */
typedef bool Visit(const Dataset *d, Err *err);
static bool visit_datasets(const char *place, Visit *visit, Err *err) {
    bool dir = file_is_dir(place);
    for (int s = 0; s < (dir ? SPLITS : 1); s++) {
        char path[FILE_PATH_MAX];
        Dataset d;
        if (dir && !dataset_path(path, place, s, err)) return false;
        if (!dataset_open(&d, dir ? path : place, err)) return false;
        bool ok = visit(&d, err);
        dataset_close(&d);
        if (!ok) return false;
    }
    return true;
}

static bool show_summary(const Dataset *d, Err *err) {
    (void)err;
    summary_print(d);
    putchar('\n');
    return true;
}

static bool show_example(const char *place, int index, const char *png, Err *err) {
    char path[FILE_PATH_MAX];
    Dataset d;
    bool dir = file_is_dir(place);
    if (dir && !dataset_path(path, place, SPLIT_TRAIN, err)) return false;
    if (!dataset_open(&d, dir ? path : place, err)) return false;
    bool ok = index < d.examples;
    if (ok && png)
        ok = summary_write_png(&d, index, png, err);
    else if (ok)
        summary_print_example(&d, index);
    else
        err_set(err, EX_USAGE, "--index: %s has examples 0 to %d, got %d", d.file.path,
                d.examples - 1, index);
    dataset_close(&d);
    return ok;
}

static bool run_show(Options *o, Err *err) {
    if (!want_words(o, 2, "show DIR|FILE", err)) return false;
    const char *png = task_setting(&o->request, "png");
    if (o->index >= 0) return show_example(o->words[1], o->index, png, err);
    if (png) return err_set(err, EX_USAGE, "--png: of which example? --index says it" TRY_HELP);
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

static bool verify(const Dataset *d, Err *err) {
    const Task *task = summary_task(d);
    const char *name = st_meta(&d->file, "task");
    if (!dataset_check_hash(d, err)) return false;
    if (name && !task && task_find(name))
        return err_set(err, EX_DATAERR,
                       "%s: vocabulary %d, %d classes, %d documents an example are not those of %s",
                       d->file.path, d->vocab, d->classes, d->per_example, name);
    bool recompute = task && task->check;
    if (recompute && !check_labels(d, task, err)) return false;
    printf("%s: %d examples, %" PRId64 " tokens: right%s\n", d->file.path, d->examples,
           d->offsets[d->documents], recompute ? ", and so is every label, recomputed" : "");
    return true;
}

static bool run_verify(Options *o, Err *err) {
    return want_words(o, 2, "verify DIR|FILE", err) && visit_datasets(o->words[1], verify, err);
}

typedef struct Command {
    const char *name;
    bool (*run)(Options *o, Err *err);
    bool of_task; /* takes the task's own options too */
    unsigned options;
    const char *shared; /* an option of tasks that it takes without a task */
} Command;

static const Command commands[] = {
    {"generate", run_generate, true,
     BIT(OPT_OUT) | BIT(OPT_SEED) | BIT(OPT_TRAIN) | BIT(OPT_VAL) | BIT(OPT_TEST) |
         BIT(OPT_THREADS),
     NULL},
    {"import", run_import, true, BIT(OPT_OUT) | BIT(OPT_SEED), NULL},
    {"show", run_show, false, BIT(OPT_INDEX), "png"},
    {"verify", run_verify, false, 0, NULL},
};

static bool run(Options *o, Err *err) {
    const Command *c = NULL;
    if (o->nwords == 0)
        return err_set(err, EX_USAGE, "expected generate, import, show or verify" TRY_HELP);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(o->words[0], commands[i].name) == 0) c = &commands[i];
    if (!c)
        return err_set(err, EX_USAGE, "%s: expected generate, import, show or verify" TRY_HELP,
                       o->words[0]);
    for (const struct option *l = fixed_options; l->val >= OPT_OUT; l++)
        if (o->given & ~c->options & BIT(l->val))
            return err_set(err, EX_USAGE, "%s: takes no --%s" TRY_HELP, c->name, l->name);
    for (int i = 0; i < o->request.nsettings; i++) {
        const char *name = o->request.settings[i].name;
        if (c->of_task || (c->shared && strcmp(c->shared, name) == 0)) continue;
        return err_set(err, EX_USAGE, "%s: takes no --%s" TRY_HELP, c->name, name);
    }
    lanes_open(o->threads);
    return c->run(o, err);
}

int main(int argc, char **argv) {
    Options o = {.request = {.seed = TASK_SEED}, .index = -1};
    bool done = false;
    Err err;
    stop_ignore_write_signals();
    const bool ok = parse_options(&o, argc, argv, &done, &err) && (done || run(&o, &err));
    return ok && err_check_stdout(&err) ? EXIT_SUCCESS : err_report("cast_data", &err);
}
