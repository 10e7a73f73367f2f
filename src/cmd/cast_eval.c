/* cast_eval: how a trained model does on a split, as it is or with another attention swapped in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/option.h"
#include "io/json_print.h"
#include "train/approximate.h"
#include "train/assess.h"
#include "train/predict.h"
#include "train/stop.h"

typedef struct Options {
    TrainedRequest request;
    const char *predict;
    bool json, approximation;
    int threads, limit;
} Options;

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"split", OPTION_WORD, AT(request.split), "SPLIT", "train, val or test [test]",
     .words = split_names},
    {"last", OPTION_FLAG, AT(request.last), NULL, "of a RUN: last.safetensors [best.safetensors]"},
    {"average", OPTION_FLAG, AT(request.average), NULL,
     "of a RUN: the mean of the weights that train.keep kept"},
    {"input", OPTION_TEXT, AT(request.input), "FILE|DIR|-",
     "instead of a split, examples of one's own, without labels: texts and PNG pictures (a file "
     "each), "
     "expressions of ListOps, pairs of texts between TABs and numbers (a line each), or a prepared "
     "split; - is standard input"},
    {"lines", OPTION_FLAG, AT(request.lines), NULL, "of --input: each line is a text"},
    {"predict", OPTION_TEXT, AT(predict), "FILE",
     "also writes CSV: index (as in cast_viz),label,predicted and each class's probability; of "
     "--input "
     "without labels, and with where each is from"},
    {"approximation", OPTION_FLAG, AT(approximation), NULL,
     "instead, how near the attention that key=value names comes to exact attention, head by head, "
     "on what the trained attention reads"},
    {"limit", OPTION_INT, AT(limit), "N", "of the split's first N examples [all]", 1, INT_MAX},
    {"json", OPTION_FLAG, AT(json), NULL,
     "prints one JSON object, with checksums of the weights and the split, which tell those of "
     "--predict too"},
    {"threads", OPTION_INT, AT(threads), "N",
     "changes the speed, not a bit [OMP_NUM_THREADS, else the physical cores]", 1,
     OPTION_MOST_THREADS},
    {0},
};

static const Program program = {
    "cast_eval",
    "accuracy and predictions of a trained model",
    "usage: cast_eval RUN|CHECKPOINT [key=value ...] [--split SPLIT] [--last | --average]\n"
    "                 [--limit N] [--predict FILE] [--json] [--threads N]\n"
    "       cast_eval RUN|CHECKPOINT [key=value ...] --input FILE|DIR|- [--lines]\n"
    "                 [--split SPLIT] [--last | --average] [--predict FILE] [--json] [--threads "
    "N]\n"
    "       cast_eval RUN|CHECKPOINT [key=value ...] --approximation [--split SPLIT]\n"
    "                 [--last | --average] [--limit N] [--json] [--threads N]\n\n"
    "Accuracy, with its standard error, and loss of a trained model on a split of its data, as "
    "cast_train measures them; what is taken for what; accuracy by length. With --input, what it "
    "takes examples of one's own "
    "for. RUN is a run's directory, CHECKPOINT one of the "
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

static bool check_options(Options *o, Err *err) {
    if (o->request.last && o->request.average)
        return err_set(err, EX_USAGE, "--last and --average exclude each other");
    if (o->request.input && (o->approximation || o->limit))
        return err_set(err, EX_USAGE, "--input takes no --approximation or --limit");
    const bool said = option_given(&o->request.line, options, "split");
    o->request.input_split = said ? o->request.split : -1;
    if (o->request.lines && !o->request.input)
        return err_set(err, EX_USAGE, "--lines is of --input");
    return !o->approximation || !o->predict ||
           err_set(err, EX_USAGE, "--approximation and --predict exclude each other");
}

/* ---- accuracy ---- */

static bool show_accuracy(const Options *o, Trained *t, Err *err) {
    Assessment a;
    if (!assess(&a, t, o->predict, o->limit, err)) return false;
    (o->json ? assess_print_json : assess_print)(stdout, &a, t);
    assess_free(&a);
    return true;
}

/* ---- examples of one's own ---- */

static bool show_predictions(const Options *o, Trained *t, Err *err) {
    Predictions p;
    if (!predict(&p, t, o->predict, err)) return false;
    (o->json ? predictions_print_json : predictions_print)(stdout, &p, t);
    predictions_free(&p);
    return true;
}

/* ---- beside exact attention ---- */

static void print_approximation(const Trained *t, const Approximation *a) {
    trained_print(stdout, t);
    putchar('\n');
    approximation_print(stdout, a);
}

static void print_approximation_json(const Trained *t, const Approximation *a) {
    cJSON *o = trained_json(t);
    approximation_json(o, a);
    cJSON_AddItemToObject(o, "config", cJSON_Duplicate(t->config.resolved, true));
    json_print_line(stdout, o);
    cJSON_Delete(o);
}

/* model.KEY=VALUE, or model={...}. */
static bool is_of_model(const char *word) {
    return !strncmp(word, "model.", 6) || !strncmp(word, "model=", 6);
}

/* The weights once more, with the model as it was trained: a request without keys of the model. */
static bool open_as_trained(Trained *t, const TrainedRequest *r, Err *err) {
    TrainedRequest plain = *r;
    char **words = mem_alloc((size_t)r->line.nwords + 1, sizeof *words);
    plain.line.nwords = 0;
    for (int i = 0; i < r->line.nwords; i++)
        if (i == 0 || !is_of_model(r->line.words[i])) words[plain.line.nwords++] = r->line.words[i];
    plain.line.words = words;
    const bool ok = trained_open(t, &plain, err);
    mem_free(words);
    return ok;
}

static bool show_approximation(const Options *o, const Trained *t, Err *err) {
    Trained as_trained;
    Approximation a;
    if (!open_as_trained(&as_trained, &o->request, err)) return false;
    const bool ok = approximate(&a, &as_trained, t, o->limit, err);
    if (ok) {
        (o->json ? print_approximation_json : print_approximation)(t, &a);
        approximation_free(&a);
    }
    trained_close(&as_trained);
    return ok;
}

/* A directory of several runs is a mistake that a loop mends. */
static bool tell_of_all(const Options *o, Err *err) {
    char why[sizeof err->text];
    const char *place = o->request.line.words[0];
    if (!run_are_in(place)) return false;
    snprintf(why, sizeof why, "%s", err->text);
    return err_set(err, err->code,
                   "%s; for all of them: for run in \"%s\"/*/; do cast_eval \"$run\" --json "
                   ">>rows.jsonl; done; cast_report rows.jsonl --what points",
                   why, place);
}

static bool eval(Options *o, Err *err) {
    Trained t;
    const int threads = lanes_open(o->threads);
    if (!lanes_start(err)) return false;
    gemm_open();
    /* What attention reads takes memory: as many examples at a time as are computed at a time. */
    if (o->approximation) o->request.batch = threads;
    if (!trained_open(&t, &o->request, err)) return tell_of_all(o, err);
    const bool ok = o->approximation   ? show_approximation(o, &t, err)
                    : o->request.input ? show_predictions(o, &t, err)
                                       : show_accuracy(o, &t, err);
    trained_close(&t);
    return ok;
}

int main(int argc, char **argv) {
    Options o = {.request.split = SPLIT_TEST};
    Err err = {0};
    stop_at_start();
    const bool ok = option_parse(&o.request.line, &o, &program, argc, argv, &err) &&
                    check_options(&o, &err) && eval(&o, &err) && err_check_stdout(&err);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
