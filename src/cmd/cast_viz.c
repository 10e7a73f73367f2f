/* cast_viz: what the clusters of a trained CAST model hold, as pictures and as figures. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/option.h"
#include "core/version.h"
#include "train/stop.h"
#include "viz/cluster_stats.h"
#include "viz/viz_print.h"
#include "viz/viz_write.h"

#define TRY_HELP "; 'cast_viz --help' says more"

enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER, COLOURS };

typedef struct Options {
    TrainedRequest request;
    const char *out;
    int index, layer, limit, colour, threads; /* index, layer: -1 where none was given */
    bool stats, json;
} Options;

static const char usage[] =
    "usage: cast_viz RUN|CHECKPOINT [key=value ...] --index I [--split SPLIT] [--layer L] [--out "
    "DIR]\n"
    "       cast_viz RUN|CHECKPOINT [key=value ...] --stats [--split SPLIT] [--limit N] [--json]\n"
    "\n"
    "Which tokens the clusters of a trained CAST model hold. RUN is a run's directory, CHECKPOINT "
    "one of the\n"
    "safetensors in it; key=value changes its config, as in cast_eval.\n"
    "\n"
    "--index I shows one example. Of a picture it writes, for each layer,\n"
    "    viz-<I>-layer<L>-clusters.png  tokens in their clusters' colours, and each cluster by "
    "itself\n"
    "    viz-<I>-layer<L>-affinity.png  the affinity A_g of every token to each cluster\n"
    "and of a text viz-<I>.html and its affinities. On the terminal it prints the clusters too.\n"
    "--stats prints, for each layer and over a whole split: sizes of clusters, tokens in none and "
    "in several,\n"
    "entropy of the affinities, cosine similarity of the surrogate tokens, compactness in the "
    "plane or along\n"
    "the text.\n"
    "\n"
    "  --split SPLIT   train, val or test                                   [test]\n"
    "  --index I       the example to show, from 0\n"
    "  --layer L       this layer alone, from 0 as in blocks.0              [all]\n"
    "  --out DIR       where the files go         [the RUN's directory; of a CHECKPOINT, here]\n"
    "  --color WHEN    auto, always or never: colours on the terminal       [auto; NO_COLOR is "
    "heeded]\n"
    "  --stats         figures over a split\n"
    "  --limit N       of its first N examples                              [all]\n"
    "  --json          the figures as one JSON object\n"
    "  --last          of a RUN: last.safetensors                           [best.safetensors]\n"
    "  --threads N     changes the speed, not a bit                         [the physical cores]\n"
    "  -h, --help      this text\n"
    "  --version       the version\n";

enum {
    OPT_SPLIT = 256,
    OPT_INDEX,
    OPT_LAYER,
    OPT_OUT,
    OPT_COLOUR,
    OPT_STATS,
    OPT_LIMIT,
    OPT_JSON,
    OPT_LAST,
    OPT_THREADS,
    OPT_VERSION
};
static const struct option long_options[] = {
    {"split", required_argument, NULL, OPT_SPLIT},
    {"index", required_argument, NULL, OPT_INDEX},
    {"layer", required_argument, NULL, OPT_LAYER},
    {"out", required_argument, NULL, OPT_OUT},
    {"color", required_argument, NULL, OPT_COLOUR},
    {"stats", no_argument, NULL, OPT_STATS},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"json", no_argument, NULL, OPT_JSON},
    {"last", no_argument, NULL, OPT_LAST},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool take_option(Options *o, int c, const char *text, char *const *argv, Err *err) {
    static const char *const colours[COLOURS] = {"auto", "always", "never"};
    switch (c) {
    case OPT_SPLIT: return option_word("split", text, split_names, SPLITS, &o->request.split, err);
    case OPT_INDEX: return option_int("index", text, 0, INT_MAX, &o->index, err);
    case OPT_LAYER: return option_int("layer", text, 0, INT_MAX, &o->layer, err);
    case OPT_OUT: o->out = text; return true;
    case OPT_COLOUR: return option_word("color", text, colours, COLOURS, &o->colour, err);
    case OPT_STATS: o->stats = true; return true;
    case OPT_LIMIT: return option_int("limit", text, 1, INT_MAX, &o->limit, err);
    case OPT_JSON: o->json = true; return true;
    case OPT_LAST: o->request.last = true; return true;
    case OPT_THREADS: return option_int("threads", text, 1, OPTION_MOST_THREADS, &o->threads, err);
    default: return option_wrong("cast_viz", c, argv, optind, err);
    }
}

static bool check_options(const Options *o, Err *err) {
    if (!o->request.place) return err_set(err, EX_USAGE, "which RUN or CHECKPOINT?" TRY_HELP);
    if (o->stats ? o->index >= 0 : o->index < 0)
        return err_set(err, EX_USAGE, "either --index I or --stats" TRY_HELP);
    if (o->stats && (o->out || o->layer >= 0))
        return err_set(err, EX_USAGE, "--stats takes neither --out nor --layer" TRY_HELP);
    if (!o->stats && (o->json || o->limit))
        return err_set(err, EX_USAGE, "--json and --limit are of --stats" TRY_HELP);
    return true;
}

/* Sets *done when --help or --version was all that was wanted. */
static bool parse(Options *o, int argc, char **argv, bool *done, Err *err) {
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1;) {
        if (c == 'h') fputs(usage, stdout);
        if (c == OPT_VERSION) puts("cast_viz " CAST_VERSION);
        if ((*done = c == 'h' || c == OPT_VERSION)) return true;
        if (!take_option(o, c, optarg, argv, err)) return false;
    }
    if (optind < argc) o->request.place = argv[optind++];
    o->request.overrides = argv + optind;
    o->request.noverrides = argc - optind;
    return check_options(o, err);
}

static bool colours(const Options *o) {
    return o->colour == COLOUR_AUTO ? log_takes_colour(STDOUT_FILENO) : o->colour == COLOUR_ALWAYS;
}

static bool show_stats(const Options *o, Trained *t, Err *err) {
    LayerStats *stats = mem_alloc((size_t)t->config.model.conf.depth, sizeof *stats);
    const bool ok = cluster_stats(stats, t, o->limit, err);
    if (ok) (o->json ? cluster_stats_print_json : cluster_stats_print)(stdout, stats, t);
    mem_free(stats);
    return ok;
}

static bool show_example(const Options *o, Trained *t, Err *err) {
    Viz v;
    const char *here = t->run.dir[0] ? t->run.dir : ".";
    const int depth = t->config.model.conf.depth;
    if (o->layer >= depth)
        return err_set(err, EX_USAGE, "--layer: the model has layers 0 to %d, got %d", depth - 1,
                       o->layer);
    if (!viz_open(&v, t, o->index, o->layer, err)) return false;
    viz_print(stdout, &v, colours(o));
    fflush(stdout); /* main tells if that fails: the files are of use all the same */
    const bool ok = viz_write(&v, o->out ? o->out : here, err);
    viz_close(&v);
    return ok;
}

static bool viz(Options *o, Err *err) {
    Trained t;
    const int threads = lanes_open(o->threads);
    gemm_open();
    stop_ignore_write_signals();
    /* Taps take memory: as many examples at a time as are computed at a time. */
    o->request.batch = o->stats ? threads : 1;
    if (!trained_open(&t, &o->request, err)) return false;
    const bool ok = (o->stats ? show_stats : show_example)(o, &t, err);
    trained_close(&t);
    return ok;
}

int main(int argc, char **argv) {
    Options o = {.request.split = SPLIT_TEST, .index = -1, .layer = -1};
    Err err = {0};
    bool done = false;
    const bool ok = parse(&o, argc, argv, &done, &err) && (done || viz(&o, &err));
    return ok && err_check_stdout(&err) ? EXIT_SUCCESS : err_report("cast_viz", &err);
}
