/* cast_export: a trained model as files of its own, to be kept and handed on. */
#include <stdlib.h>

#include "core/option.h"
#include "export/export.h"
#include "train/stop.h"

typedef struct Options {
    CommandLine line;
    ExportRequest request;
} Options;

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"out", OPTION_TEXT, AT(request.out), "NAME",
     "of the files, with a directory where it has one"},
    {"last", OPTION_FLAG, AT(request.last), NULL, "of a RUN: last.safetensors [best.safetensors]"},
    {"python", OPTION_FLAG, AT(request.python), NULL,
     "also NAME_numpy.py and NAME_torch.py, which read and compute the model without this program: "
     "of cast, full and naive attention"},
    {0},
};

static const Program program = {
    "cast_export",
    "a trained model as files of its own",
    "usage: cast_export RUN|CHECKPOINT --out NAME [--last] [--python]\n\n"
    "A trained model as files of its own. NAME.safetensors has its weights alone, a third of a "
    "checkpoint, and its config: cast_eval, cast_viz and cast_train's train.init open it as they "
    "do a checkpoint. NAME.md is a card of it: task and data, how it was trained, how well it "
    "does, over seeds too where its run is one of a sweep.\n",
    options,
    .needs = "RUN or CHECKPOINT",
};

static bool run(Options *o, Err *err) {
    if (o->line.nwords > 1)
        return err_set(err, EX_USAGE, "one RUN or CHECKPOINT, and no '%s' behind it",
                       o->line.words[1]);
    if (!o->request.out)
        return err_set(err, EX_USAGE, "--out NAME is needed; 'cast_export --help' says more");
    o->request.place = o->line.words[0];
    return export_model(&o->request, err);
}

int main(int argc, char **argv) {
    Options o = {0};
    Err err = {0};
    stop_at_start();
    const bool ok = option_parse(&o.line, &o, &program, argc, argv, &err) && run(&o, &err) &&
                    err_check_stdout(&err);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
