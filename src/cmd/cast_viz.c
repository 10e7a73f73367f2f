/* cast_viz: what the clusters of a trained CAST model hold, as pictures and as figures. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/option.h"
#include "train/stop.h"
#include "viz/cluster_stats.h"
#include "viz/viz_print.h"
#include "viz/viz_write.h"

#define TRY_HELP "; 'cast_viz --help' says more"

enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

typedef struct Options {
    TrainedRequest request;
    const char *out;
    int index, layer, head, limit, colour,
        threads; /* index, layer, head: -1 where none was given */
    bool stats, json, kept;
} Options;

static const char *const colour_names[] = {"auto", "always", "never", NULL};

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"split", OPTION_WORD, AT(request.split), "SPLIT", "train, val or test [test]",
     .words = split_names},
    {"index", OPTION_INT, AT(index), "I", "the example to show, from 0", 0, INT_MAX},
    {"layer", OPTION_INT, AT(layer), "L", "this layer alone, from 0 as in blocks.0 [all]", 0,
     INT_MAX},
    {"head", OPTION_INT, AT(head), "H",
     "where each head has groups of its own: this head alone, from 0 [all]", 0, INT_MAX},
    {"out", OPTION_TEXT, AT(out), "DIR",
     "where the files go [the RUN's directory; of a CHECKPOINT, here]"},
    {"color", OPTION_WORD, AT(colour), "WHEN",
     "auto, always or never: colours on the terminal [auto; NO_COLOR and CLICOLOR_FORCE are "
     "heeded]",
     .words = colour_names},
    {"stats", OPTION_FLAG, AT(stats), NULL, "figures over a split"},
    {"limit", OPTION_INT, AT(limit), "N", "of its first N examples [all]", 1, INT_MAX},
    {"kept", OPTION_FLAG, AT(kept), NULL,
     "also the weight that exact attention has on the tokens that a token sees; takes time that "
     "grows as their number squared"},
    {"json", OPTION_FLAG, AT(json), NULL, "the figures as one JSON object"},
    {"last", OPTION_FLAG, AT(request.last), NULL, "of a RUN: last.safetensors [best.safetensors]"},
    {"threads", OPTION_INT, AT(threads), "N",
     "changes the speed, not a bit [OMP_NUM_THREADS, else the physical cores]", 1,
     OPTION_MOST_THREADS},
    {0},
};

static const Program program = {
    "cast_viz",
    "what the clusters of a trained model hold",
    "usage: cast_viz RUN|CHECKPOINT [key=value ...] --index I [--split SPLIT] [--layer L]\n"
    "                [--head H] [--out DIR] [--color WHEN] [--last] [--threads N]\n"
    "       cast_viz RUN|CHECKPOINT [key=value ...] --stats [--kept] [--split SPLIT]\n"
    "                [--limit N] [--json] [--last] [--threads N]\n\n"
    "Which tokens the clusters of a trained CAST model hold; or of each head the groups of "
    "clustered, "
    "i-clustered, lsh or smyrf attention. RUN is a run's directory, CHECKPOINT "
    "one of the safetensors in it, or what cast_export wrote; key=value changes its config, as in "
    "cast_eval.\n\n"
    "--index I shows one example. Of a picture it writes, for each layer,\n"
    "    viz-<I>-layer<L>-clusters.png  tokens in their clusters' colours, and each cluster by "
    "itself\n"
    "    viz-<I>-layer<L>-affinity.png  the affinity A_g of every token to each cluster\n"
    "and of a text viz-<I>.html and its affinities; of another split than test its name is before "
    "<I>: viz-train-3.html. On the terminal it prints the clusters too.\n"
    "--stats prints, for each layer and over a whole split: sizes of clusters, tokens in none and "
    "in several, entropy of the affinities, cosine similarity of the surrogate tokens, compactness "
    "in the plane or along the text.\n",
    options,
    .needs = "RUN or CHECKPOINT",
};

static bool check_options(const Options *o, Err *err) {
    if (o->stats ? o->index >= 0 : o->index < 0)
        return err_set(err, EX_USAGE, "either --index I or --stats" TRY_HELP);
    if (o->stats && (o->out || o->layer >= 0 || o->head >= 0 || o->colour != COLOUR_AUTO))
        return err_set(err, EX_USAGE,
                       "--stats takes no --out, --layer, --head or --color" TRY_HELP);
    if (!o->stats && (o->json || o->limit || o->kept))
        return err_set(err, EX_USAGE, "--json, --limit and --kept are of --stats" TRY_HELP);
    return true;
}

static bool colours(const Options *o) {
    return o->colour == COLOUR_AUTO ? log_takes_colour(STDOUT_FILENO) : o->colour == COLOUR_ALWAYS;
}

static bool show_stats(const Options *o, Trained *t, Err *err) {
    LayerStats *stats = mem_alloc((size_t)cluster_stats_rows(t), sizeof *stats);
    const bool ok = cluster_stats(stats, t, o->limit, o->kept, err);
    if (ok) (o->json ? cluster_stats_print_json : cluster_stats_print)(stdout, stats, t);
    mem_free(stats);
    return ok;
}

static bool show_example(const Options *o, Trained *t, Err *err) {
    Viz v;
    const char *here = t->from.run.dir[0] ? t->from.run.dir : ".";
    const int depth = t->config.model.conf.depth;
    if (o->layer >= depth)
        return err_set(err, EX_USAGE, "--layer: the model has layers 0 to %d, got %d", depth - 1,
                       o->layer);
    if (!viz_open(&v, t, o->index, o->layer, o->head, err)) return false;
    trained_warn(t);
    viz_print(stdout, &v, colours(o));
    fflush(stdout); /* main tells if that fails: the files are of use all the same */
    const bool ok = viz_write(&v, o->out ? o->out : here, err);
    viz_close(&v);
    return ok;
}

static bool viz(Options *o, Err *err) {
    Trained t;
    const int threads = lanes_open(o->threads);
    if (!lanes_start(err)) return false;
    gemm_open();
    /* Traces take memory: as many examples at a time as are computed at a time. */
    o->request.batch = o->stats ? threads : 1;
    if (!trained_open(&t, &o->request, err)) return false;
    const bool ok = (o->stats ? show_stats : show_example)(o, &t, err);
    trained_close(&t);
    return ok;
}

int main(int argc, char **argv) {
    Options o = {.request.split = SPLIT_TEST, .index = -1, .layer = -1, .head = -1};
    Err err = {0};
    stop_at_start();
    const bool ok = option_parse(&o.request.line, &o, &program, argc, argv, &err) &&
                    check_options(&o, &err) && viz(&o, &err) && err_check_stdout(&err);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
