/* cast_eval: how a trained model does on a split, as it is or with another attention swapped in. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/option.h"
#include "core/version.h"
#include "train/assess.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_eval --help' says more"

typedef struct Options {
    TrainedRequest request;
    const char *predict;
    bool json;
    int threads;
} Options;

static const char usage[] =
    "usage: cast_eval RUN|CHECKPOINT [key=value ...] [--split SPLIT] [--last] [--predict FILE]\n"
    "                 [--json] [--threads N]\n"
    "\n"
    "Accuracy and loss of a trained model on a split of its data, as cast_train measures them; "
    "what is taken\n"
    "for what; accuracy by length. RUN is a run's directory, CHECKPOINT one of the safetensors in "
    "it.\n"
    "\n"
    "key=value changes the config that it was trained under, where the weights allow it:\n"
    "  data.dir=DIR                          other data of the task\n"
    "  model.attention.type=full             exact attention with the weights of a CAST run\n"
    "  model.attention.mechanism=sa_topk, model.attention.cluster_size=200, "
    "model.attention.attention_fn=laplace,\n"
    "  model.attention.summaries=false, model.attention.intra=false\n"
    "\n"
    "  --split SPLIT   train, val or test                                   [test]\n"
    "  --last          of a RUN: last.safetensors                           [best.safetensors]\n"
    "  --predict FILE  also writes CSV: index (as in cast_viz),label,predicted and each class's\n"
    "                  probability\n"
    "  --json          prints one JSON object\n"
    "  --threads N     changes the speed, not a bit                         [the physical cores]\n"
    "  -h, --help      this text\n"
    "  --version       the version\n";

enum { OPT_SPLIT = 256, OPT_LAST, OPT_PREDICT, OPT_JSON, OPT_THREADS, OPT_VERSION };

static bool take_option(Options *o, int c, const char *text, char *const *argv, Err *err) {
    switch (c) {
    case OPT_SPLIT: return option_word("split", text, split_names, SPLITS, &o->request.split, err);
    case OPT_LAST: o->request.last = true; return true;
    case OPT_PREDICT: o->predict = text; return true;
    case OPT_JSON: o->json = true; return true;
    case OPT_THREADS: return option_int("threads", text, 1, OPTION_MOST_THREADS, &o->threads, err);
    default: return option_wrong("cast_eval", c, argv, optind, err);
    }
}

/* Sets *done when --help or --version was all that was wanted. */
static bool parse(Options *o, int argc, char **argv, bool *done, Err *err) {
    static const struct option longs[] = {
        {"split", required_argument, NULL, OPT_SPLIT},
        {"last", no_argument, NULL, OPT_LAST},
        {"predict", required_argument, NULL, OPT_PREDICT},
        {"json", no_argument, NULL, OPT_JSON},
        {"threads", required_argument, NULL, OPT_THREADS},
        {"version", no_argument, NULL, OPT_VERSION},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
        if (c == 'h') fputs(usage, stdout);
        if (c == OPT_VERSION) puts("cast_eval " CAST_VERSION);
        if ((*done = c == 'h' || c == OPT_VERSION)) return true;
        if (!take_option(o, c, optarg, argv, err)) return false;
    }
    if (optind == argc) return err_set(err, EX_USAGE, "which RUN or CHECKPOINT?" TRY_HELP);
    o->request.place = argv[optind];
    o->request.overrides = argv + optind + 1;
    o->request.noverrides = argc - optind - 1;
    return true;
}

static bool eval(const Options *o, Err *err) {
    Trained t;
    Assessment a;
    lanes_open(o->threads);
    gemm_open();
    stop_ignore_write_signals();
    if (!trained_open(&t, &o->request, err)) return false;
    const bool ok = assess(&a, &t, o->predict, err);
    if (ok) {
        (o->json ? assess_print_json : assess_print)(stdout, &a, &t);
        assess_free(&a);
    }
    trained_close(&t);
    return ok;
}

int main(int argc, char **argv) {
    Options o = {.request.split = SPLIT_TEST};
    Err err = {0};
    bool done = false;
    const bool ok = parse(&o, argc, argv, &done, &err) && (done || eval(&o, &err));
    return ok && err_check_stdout(&err) ? EXIT_SUCCESS : err_report("cast_eval", &err);
}
