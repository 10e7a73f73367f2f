/* cast_eval: how a trained model does on a split, as it is or with another attention swapped in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/option.h"
#include "train/assess.h"
#include "train/stop.h"

typedef struct Options {
    TrainedRequest request;
    const char *predict;
    bool json;
    int threads;
} Options;

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"split", OPTION_WORD, AT(request.split), "SPLIT", "train, val or test [test]",
     .words = split_names},
    {"last", OPTION_FLAG, AT(request.last), NULL, "of a RUN: last.safetensors [best.safetensors]"},
    {"average", OPTION_FLAG, AT(request.average), NULL,
     "of a RUN: the mean of the weights that train.keep kept"},
    {"predict", OPTION_TEXT, AT(predict), "FILE",
     "also writes CSV: index (as in cast_viz),label,predicted and each class's probability"},
    {"json", OPTION_FLAG, AT(json), NULL, "prints one JSON object"},
    {"threads", OPTION_INT, AT(threads), "N", "changes the speed, not a bit [the physical cores]",
     1, OPTION_MOST_THREADS},
    {0},
};

static const Program program = {
    "cast_eval",
    "usage: cast_eval RUN|CHECKPOINT [key=value ...] [--split SPLIT] [--last | --average]\n"
    "                 [--predict FILE] [--json] [--threads N]\n\n"
    "Accuracy and loss of a trained model on a split of its data, as cast_train measures them; "
    "what is taken for what; accuracy by length. RUN is a run's directory, CHECKPOINT one of the "
    "safetensors in it, or what cast_export wrote.\n\n"
    "key=value changes the config that it was trained under, where the weights allow it:\n"
    "  data.dir=DIR                other data of the task\n"
    "  model.attention.type=full   exact attention with the weights of a CAST run\n"
    "  model.attention.mechanism=sa_topk, model.attention.cluster_size=200,\n"
    "  model.attention.attention_fn=laplace, model.attention.summaries=false,\n"
    "  model.attention.intra=false\n",
    options,
    .needs = "RUN or CHECKPOINT",
};

static bool check_options(const Options *o, Err *err) {
    return !o->request.last || !o->request.average ||
           err_set(err, EX_USAGE, "--last and --average exclude each other");
}

static bool eval(Options *o, Err *err) {
    Trained t;
    Assessment a;
    stop_ignore_write_signals();
    lanes_open(o->threads);
    if (!lanes_start(err)) return false;
    gemm_open();
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
    const bool ok = option_parse(&o.request.line, &o, &program, argc, argv, &err) &&
                    check_options(&o, &err) && eval(&o, &err) && err_check_stdout(&err);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
