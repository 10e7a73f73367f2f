/* cast_train: trains a config's model on its task. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/ranks.h"
#include "core/version.h"
#include "io/text.h"
#include "model/crew.h"
#include "train/config_file.h"
#include "train/config_schema.h"
#include "train/fast.h"
#include "train/helper.h"
#include "train/stop.h"
#include "train/train.h"

typedef struct Options {
    CommandLine line; /* CONFIG, key=value ... */
    const char *out;
    int threads;
    TrainRequest request;
} Options;

enum { MOST_UPDATES = 2000000000 };

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"out", OPTION_TEXT, AT(out), "DIR",
     "the run's directory: new, empty or a run's [runs/<CONFIG's name>[-<hash of key=value ...>]]"},
    {"threads", OPTION_INT, AT(threads), "N",
     "changes the speed, not a bit [OMP_NUM_THREADS, else the physical cores]", 1,
     OPTION_MOST_THREADS},
    {"stop-at", OPTION_INT, AT(request.stop_at), "S",
     "stop after update S, saved; the schedule stays that of the whole run", 1, MOST_UPDATES},
    {"fast", OPTION_FLAG, AT(request.fast), NULL,
     "a smoke run: does it all work? A few updates on a small set of its own, made here, in a "
     "directory of its own [runs/<...>-fast]; no run goes on there, and no report takes it for "
     "a result"},
    {"no-test", OPTION_FLAG, AT(request.no_test), NULL,
     "without the test at the end, which the same command without it makes"},
    {"accept-data", OPTION_FLAG, AT(request.accept_data), NULL,
     "go on though the data are not those that the run began with; metrics.jsonl tells it"},
    {"dry-run", OPTION_FLAG, AT(request.dry_run), NULL,
     "print parameters, memory, work and data on standard output, and touch nothing"},
    {"json", OPTION_FLAG, AT(request.json), NULL, "of --dry-run: the same as one JSON object"},
    {"schema", OPTION_SHOW, 0, NULL, "print what a config may say as a JSON schema, for editors",
     .show = config_schema_print},
    {0},
};

/* What a config may be about, by name. */
static void print_choices(FILE *f) {
    fputs("\ntasks      ", f);
    for (int i = 0; task_table[i]; i++) fprintf(f, " %s", task_table[i]->name);
    fputs("\nattention  ", f);
    for (int i = 0; attn_table[i]; i++) fprintf(f, " %s", attn_table[i]->name);
    fputs("\nconfigs     ", f);
    config_file_print_shipped(f, (int)strlen("configs     "));
    fputs("\nkeys        cast_train --help keys\n", f);
}

static void print_keys(FILE *f) {
    fputs("keys of a config, with what they may be and their defaults:\n", f);
    fputs("  base                             another config, by its path from this one's folder: "
          "this one has what differs (a string)\n",
          f);
    config_help(f);
}

static const Program program = {
    "cast_train",
    "trains a model of a config on its task",
    "usage: cast_train CONFIG|RUN [key=value ...] [--out DIR] [--threads N] [--stop-at S] "
    "[--no-test]\n"
    "                  [--accept-data] [--dry-run [--json]] [--fast]\n"
    "\n"
    "Trains the model of CONFIG, a JSON file or one that is named below, on its task; any key can "
    "be set by key=value; an object, section={...}, takes the place of the whole section. Data "
    "that can be generated is generated first. A run lives in a directory; where that holds a "
    "checkpoint of the same config, the run goes on from there, with the data that it was "
    "made with. RUN, a run's directory, goes on with that run, wherever it lies now. SIGINT "
    "(Ctrl-C), SIGTERM, SIGHUP and SIGUSR1 save and stop, with exit status 75; the same command "
    "goes on, with the same bits "
    "as if it had not been stopped. Before the first update, while data are made for "
    "example, they end it at once (143 for SIGTERM), and the same command starts again. SIGUSR2 "
    "saves and goes on; before the first update, as soon as that is made.\n",
    options,
    "In the progress line: updates done / total, ep epochs, loss (in masked training bits a "
    "token) and acc accuracy of training "
    "(means of the last train.log_every updates and those before), lr learning rate, |g| norm of "
    "the gradients, examples and tokens a second, useful floating-point operations a second and "
    "what share that is of the measured peak of the threads, time left. In a file or a pipe, a "
    "line "
    "every 10 seconds at most.\n",
    .more = print_choices,
    .keys = print_keys,
    .needs = "CONFIG or RUN",
    .ranks = true,
};

/* ---- the command that goes on ---- */

/* Whether argument i is --stop-at, which may be shortened; *words: of it and its value. */
static bool is_stop_at(char *const *argv, int i, int *words) {
    const size_t n = strcspn(argv[i], "=");
    *words = argv[i][n] == '=' ? 1 : 2;
    return n >= strlen("--s") && !strncmp(argv[i], "--stop-at", n);
}

/* The command line without it, to be freed with the program. Before getopt permutes argv. */
static char *without_stop_at(int argc, char *const *argv) {
    char **rest = mem_alloc((size_t)argc, sizeof *rest);
    int n = 0;
    for (int i = 0, words; i < argc; i += words)
        if (!is_stop_at(argv, i, &words)) {
            words = 1;
            rest[n++] = argv[i];
        }
    char *text = option_command(n, rest);
    mem_free(rest);
    return text;
}

/* Nothing goes on from a smoke run. */
static bool may_run_in(const char *dir, bool fast, Err *err) {
    if (fast) return fast_clear(dir, err);
    return !fast_is_run(dir) ||
           err_set(err, EX_CANTCREAT,
                   "%s is of a smoke run (--fast), which nothing goes on from: remove it, or use "
                   "another --out",
                   dir);
}

static void tell_overrides(char *const *overrides, int n) {
    char *text;
    size_t size;
    if (n == 0) return;
    FILE *f = text_stream(&text, &size);
    for (int i = 0; i < n; i++) {
        fputs(i ? " " : "", f);
        option_print_word(f, overrides[i]);
    }
    fclose(f);
    log_info("changed  %s", text);
    mem_free(text);
}

static bool check_options(const Options *o, Err *err) {
    if (o->request.json && !o->request.dry_run)
        return err_set(err, EX_USAGE, "--json is of --dry-run");
    return !o->request.fast || !o->request.dry_run ||
           err_set(err, EX_USAGE,
                   "--fast and --dry-run exclude each other: one makes a small set, "
                   "the other touches nothing");
}

/* What was asked for, and has no say. */
static void warn_epochs(const Config *c, char *const *overrides, int n) {
    for (int i = 0; i < n && c->train.steps; i++)
        if (!strncmp(overrides[i], "train.epochs=", strlen("train.epochs=")))
            log_warn(
                "%s has no say, as there are %d updates (train.steps); train.steps=0 leaves it "
                "to train.epochs",
                overrides[i], c->train.steps);
}

/* Whether the word is a run's directory, or its config.json there: then these are the run, and its
 * config. */
static bool names_run(const char *word, char run[FILE_PATH_MAX], char config[FILE_PATH_MAX]) {
    const char *slash = strrchr(word, '/');
    const bool is_dir = file_is_dir(word);
    char other[FILE_PATH_MAX];
    if (!is_dir && strcmp(slash ? slash + 1 : word, "config.json") != 0) return false;
    if (is_dir)
        snprintf(run, FILE_PATH_MAX, "%s", word);
    else
        snprintf(run, FILE_PATH_MAX, "%.*s", slash ? (int)(slash - word) : 1, slash ? word : ".");
    for (size_t n = strlen(run); n > 1 && run[n - 1] == '/';) run[--n] = '\0';
    return task_join(config, run, "config.json") &&
           (task_join(other, run, "env.json") || task_join(other, run, "last.safetensors"));
}

static bool train(Options *o, TrainEnd *end, Err *err) {
    char dir[FILE_PATH_MAX], run[FILE_PATH_MAX], own[FILE_PATH_MAX];
    char *const *overrides = o->line.words + 1;
    const bool of_run = names_run(o->line.words[0], run, own);
    const char *config = of_run ? own : o->line.words[0];
    const int n = o->line.nwords - 1;
    Config c = {0};
    if (o->out && !*o->out) return err_set(err, EX_USAGE, "--out: a directory without a name");
    if (o->request.dry_run && !o->request.json) log_to_stdout();
    ranks_warn(lanes_open(o->threads));
    if (!lanes_start(err)) return false;
    gemm_open();
    config_run_dir(dir, sizeof dir, config, overrides, n);
    if (o->request.fast) format_add(dir, sizeof dir, "-fast");
    o->request.dir = o->out ? o->out : of_run && !o->request.fast ? run : dir;
    bool ok = may_run_in(o->request.dir, o->request.fast, err) &&
              (o->request.fast ? fast_load : config_load)(&c, config, overrides, n, err);
    if (ok) log_headed(LOG_BOLD, "cast_train " CAST_VERSION, "  %s", config);
    if (ok) tell_overrides(overrides, n);
    if (ok) warn_epochs(&c, overrides, n);
    ok = ok && train_run(&c, &o->request, end, err);
    config_free(&c);
    return ok;
}

/* A rank that helps: silent, but for warnings of another host than those before it. */
static int help(int argc, char **argv) {
    Options o = {0};
    Err err = {0};
    if (!freopen("/dev/null", "w", stdout)) return EX_OSERR;
    if (!option_parse(&o.line, &o, &program, argc, argv, &err) || !check_options(&o, &err))
        return helper_refuse(program.name, &err);
    return helper_main(program.name, o.threads);
}

int main(int argc, char **argv) {
    stop_on_save_signal();
    stop_at_start();
    crew_command(argc, argv);
    if (ranks_will_be() > 0) return help(argc, argv);
    Options o = {0};
    Err err = {0};
    TrainEnd end = TRAIN_DONE;
    char *command = option_command(argc, argv), *rest = without_stop_at(argc, argv);
    o.request.command = rest;
    const bool ok = option_parse(&o.line, &o, &program, argc, argv, &err) &&
                    check_options(&o, &err) && ranks_open(lanes_processors(), &err) &&
                    train(&o, &end, &err) && (!o.request.dry_run || err_check_stdout(&err));
    const int status = ok ? EXIT_SUCCESS : err_report(program.name, &err);
    if (ok && end == TRAIN_DONE && o.request.no_test && !o.request.dry_run)
        log_info("not tested, as --no-test has it; the same command without it tests");
    if (status == EX_TEMPFAIL && !o.request.fast) log_info("to go on: %s", command);
    if (ok && end == TRAIN_STOPPED && !o.request.fast) log_info("to go on: %s", rest);
    helper_end();
    ranks_close();
    mem_free(command);
    mem_free(rest);
    return status;
}
