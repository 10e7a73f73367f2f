/* cast_train: trains a config's model on its task. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/option.h"
#include "core/version.h"
#include "train/stop.h"
#include "train/train.h"

#define TRY_HELP "; 'cast_train --help' says more"

typedef struct Options {
    const char *config, *out;
    int threads;
    TrainRequest request;
    char *const *overrides;
    int noverrides;
} Options;

static const char usage[] =
    "usage: cast_train CONFIG [key=value ...] [--out DIR] [--threads N] [--stop-at S] [--dry-run]\n"
    "\n"
    "Trains the model of CONFIG, a JSON file, on its task; any key can be set by key=value. Data "
    "that can be\n"
    "generated is generated first. A run lives in a directory; where that holds a checkpoint of "
    "the same config,\n"
    "the run goes on from there. SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGUSR1 save and stop, with "
    "exit status 75;\n"
    "the same command goes on, with the same bits as if it had not been stopped.\n"
    "\n"
    "  --out DIR       the run's directory            [runs/<CONFIG's name>[-<hash of key=value "
    "...>]]\n"
    "  --threads N     changes the speed, not a bit   [OMP_NUM_THREADS, else the physical cores]\n"
    "  --stop-at S     stop after update S, saved; the schedule stays that of the whole run\n"
    "  --dry-run       print parameters, memory, work and data, and touch nothing\n"
    "  -h, --help      this text\n"
    "  --version       the version\n"
    "\n"
    "In the progress line: updates made and to make, ep epochs, loss and acc accuracy of training "
    "(means of the\n"
    "last train.log_every updates and those before), lr learning rate, |g| norm of the gradients, "
    "examples and\n"
    "tokens a second, useful floating-point operations a second and what share that is of the "
    "measured peak of\n"
    "the threads, time left.\n"
    "\n"
    "keys, with what they may be and their defaults:\n";

static void print_help(void) {
    fputs(usage, stdout);
    config_help(stdout);
}

enum { OPT_OUT = 256, OPT_THREADS, OPT_STOP_AT, OPT_DRY_RUN, OPT_VERSION };

static const struct option long_options[] = {
    {"out", required_argument, NULL, OPT_OUT},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"stop-at", required_argument, NULL, OPT_STOP_AT},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};
enum { MOST_UPDATES = 2000000000 };

static bool take_option(Options *o, int option, const char *text, char *const *argv, Err *err) {
    switch (option) {
    case OPT_OUT: o->out = text; return true;
    case OPT_DRY_RUN: o->request.dry_run = true; return true;
    case OPT_THREADS: return option_int("threads", text, 1, OPTION_MOST_THREADS, &o->threads, err);
    case OPT_STOP_AT: return option_int("stop-at", text, 1, MOST_UPDATES, &o->request.stop_at, err);
    default: return option_wrong("cast_train", option, argv, optind, err);
    }
}

/* Sets *done when --help or --version was all that was wanted. */
static bool parse(Options *o, int argc, char **argv, bool *done, Err *err) {
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1;) {
        if (c == 'h') print_help();
        if (c == OPT_VERSION) puts("cast_train " CAST_VERSION);
        if ((*done = c == 'h' || c == OPT_VERSION)) return true;
        if (!take_option(o, c, optarg, argv, err)) return false;
    }
    if (optind == argc) return err_set(err, EX_USAGE, "which CONFIG?" TRY_HELP);
    o->config = argv[optind];
    o->overrides = argv + optind + 1;
    o->noverrides = argc - optind - 1;
    return true;
}

/* ---- the command that goes on ---- */

/* Whether argument i is --stop-at, which getopt_long lets people shorten; *words: it and its value.
 */
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

static bool train(Options *o, TrainEnd *end, Err *err) {
    char dir[FILE_PATH_MAX];
    Config c;
    lanes_open(o->threads);
    gemm_open();
    stop_ignore_write_signals();
    config_run_dir(dir, sizeof dir, o->config, o->overrides, o->noverrides);
    o->request.dir = o->out ? o->out : dir;
    bool ok = config_load(&c, o->config, o->overrides, o->noverrides, err);
    if (ok)
        log_info("%scast_train " CAST_VERSION "%s  %s", log_style("1"), log_style("0"), o->config);
    ok = ok && train_run(&c, &o->request, end, err);
    config_free(&c);
    return ok;
}

int main(int argc, char **argv) {
    Options o = {0};
    Err err = {0};
    TrainEnd end = TRAIN_DONE;
    bool done = false;
    char *command = option_command(argc, argv), *rest = without_stop_at(argc, argv);
    o.request.command = command;
    bool ok = parse(&o, argc, argv, &done, &err);
    if (ok && !done) ok = train(&o, &end, &err);
    if (ok && done) ok = err_check_stdout(&err);
    const int status = ok ? EXIT_SUCCESS : err_report("cast_train", &err);
    if (status == EX_TEMPFAIL) log_info("to go on: %s", command);
    if (ok && end == TRAIN_STOPPED) log_info("to go on: %s", rest);
    mem_free(command);
    mem_free(rest);
    return status;
}
