/* cast_report: tables, curves and pages of runs. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/option.h"
#include "core/version.h"
#include "report/curve_plot.h"
#include "report/page.h"
#include "report/papers.h"
#include "report/results.h"
#include "report/scaling.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_report --help' says more"

static const char usage[] =
    "usage: cast_report RUN... [--format md|latex|csv] [--papers] [--each]\n"
    "       cast_report RUN... --plot FILE.svg|FILE.png [--what loss|accuracy|clusters] [--x "
    "AXIS]\n"
    "       cast_report RUN... --html FILE\n"
    "       cast_report BENCH... --what length [--plot FILE.svg|FILE.png]\n"
    "\n"
    "Reports on training runs. RUN is a run's directory, or a directory of them, one level or two. "
    "Runs that differ\n"
    "in nothing but their seed are one row, or one line with a band; columns are the config's keys "
    "that differ. What\n"
    "is no run, or cannot be read, is told and left out. BENCH is a file that "
    "'cast_bench CONFIG --lengths N,M\n"
    "--mechanisms A,B --json' printed, or a CSV with its names.\n"
    "\n"
    "  --format F   the table on standard output: md, latex (booktabs) or csv  [md]\n"
    "  --papers     published accuracies by task, and ours of each mechanism, of best and last "
    "weights, instead\n"
    "  --each       each run by itself, by its name\n"
    "  --plot FILE  a plot instead of the table, drawn by gnuplot (Debian: gnuplot-nox)\n"
    "  --what W     of what: loss, accuracy (training as lines, validation as points), clusters "
    "(test accuracy\n"
    "               over their number) or length (speed and memory, of BENCH)  [loss]\n"
    "  --x AXIS     loss and accuracy over steps, time or tokens  [steps]\n"
    "  --band B     around the mean of several runs: range (least to most) or sd  [range]\n"
    "  --keep       keeps what gnuplot was given, as FILE.gnuplot\n"
    "  --html FILE  a page of its own: table, curves, pictures (viz*.png, viz*.html), configs, "
    "environments\n"
    "  -h, --help   this text\n"
    "  --version    the version\n"
    "\n"
    "A table is printed as well as a plot or page where --format, or --papers beside --plot, asks "
    "for it.\n";

typedef enum What { WHAT_LOSS, WHAT_ACCURACY, WHAT_CLUSTERS, WHAT_LENGTH } What;

typedef struct Options {
    int format, what, axis, band; /* -1: not said */
    bool papers, each, keep;
    const char *plot, *html;
    char *const *paths;
    int npaths;
} Options;

static const char *const formats[] = {"md", "latex", "csv"};
static const char *const whats[] = {"loss", "accuracy", "clusters", "length"};
static const char *const axes[] = {"steps", "time", "tokens"};
static const char *const bands[] = {"range", "sd"};

/* The place of the option's value among an array of words. */
#define WORD(option, words, out)                                                                   \
    option_word(option, optarg, words, (int)(sizeof(words) / sizeof *(words)), out, err)

static bool take_file(const char *option, const char **file, Err *err) {
    if (*file) return err_set(err, EX_USAGE, "--%s is given twice" TRY_HELP, option);
    *file = optarg;
    return true;
}

static bool take_option(Options *o, int c, char *const *argv, Err *err) {
    switch (c) {
    case 'f': return WORD("format", formats, &o->format);
    case 'w': return WORD("what", whats, &o->what);
    case 'x': return WORD("x", axes, &o->axis);
    case 'b': return WORD("band", bands, &o->band);
    case 'p': return take_file("plot", &o->plot, err) && plot_check_path(optarg, err);
    case 'H': return take_file("html", &o->html, err);
    case 'P': o->papers = true; return true;
    case 'e': o->each = true; return true;
    case 'k': o->keep = true; return true;
    default: return option_wrong("cast_report", c, argv, optind, err);
    }
}

/* What was asked for must be of use. */
static bool check(const Options *o, Err *err) {
    const bool length = o->what == WHAT_LENGTH;
    if (o->npaths == 0) return err_set(err, EX_USAGE, "which RUN?" TRY_HELP);
    if (o->papers && o->each)
        return err_set(err, EX_USAGE, "--papers shows means over seeds: not with --each" TRY_HELP);
    if (length && (o->html || o->papers || o->each))
        return err_set(err, EX_USAGE, "--what length takes no --html, --papers or --each" TRY_HELP);
    if (!o->plot && (o->keep || (o->what >= 0 && !length)))
        return err_set(err, EX_USAGE, "%s is of --plot FILE" TRY_HELP,
                       o->keep ? "--keep" : "--what");
    const bool band = o->html || (o->plot && !length),
               axis = o->html || (o->plot && !length && o->what != WHAT_CLUSTERS);
    if (o->axis >= 0 && !axis)
        return err_set(err, EX_USAGE,
                       "--x is of --html and of plots of loss and accuracy" TRY_HELP);
    if (o->band >= 0 && !band)
        return err_set(err, EX_USAGE, "--band is of --html and of plots of runs" TRY_HELP);
    return true;
}

/* Sets *done when --help or --version was all that was wanted. */
static bool parse(Options *o, int argc, char **argv, bool *done, Err *err) {
    static const struct option longs[] = {
        {"format", 1, NULL, 'f'},  {"what", 1, NULL, 'w'}, {"x", 1, NULL, 'x'},
        {"band", 1, NULL, 'b'},    {"plot", 1, NULL, 'p'}, {"html", 1, NULL, 'H'},
        {"papers", 0, NULL, 'P'},  {"each", 0, NULL, 'e'}, {"keep", 0, NULL, 'k'},
        {"version", 0, NULL, 'v'}, {"help", 0, NULL, 'h'}, {0}};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
        if (c == 'h') fputs(usage, stdout);
        if (c == 'v') puts("cast_report " CAST_VERSION);
        if ((*done = c == 'h' || c == 'v')) return true;
        if (!take_option(o, c, argv, err)) return false;
    }
    o->paths = argv + optind;
    o->npaths = argc - optind;
    return check(o, err);
}

static int or_first(int choice) { return choice < 0 ? 0 : choice; }

/* Whether the table goes to standard output. */
static bool wants_table(const Options *o) {
    return o->format >= 0 || (o->plot ? o->papers : !o->html);
}

static bool plot_runs(const Options *o, const Groups *g, Err *err) {
    const CurveBand band = (CurveBand)or_first(o->band);
    const What what = (What)or_first(o->what);
    Plot p;
    const bool ok = what == WHAT_CLUSTERS
                        ? curve_plot_clusters(&p, g, band, err)
                        : curve_plot(&p, g, what == WHAT_LOSS ? RUN_LOSS : RUN_ACCURACY,
                                     (CurveAxis)or_first(o->axis), band, err);
    if (!ok) return false;
    const bool drawn = plot_write(&p, o->plot, o->keep, err);
    plot_free(&p);
    return drawn;
}

static bool write_page(const Options *o, const Groups *g, const Table *results, const Table *beside,
                       Err *err) {
    const Page page = {.groups = g,
                       .table = {results, beside},
                       .heading = {"Results", o->papers ? "Beside published figures" : NULL},
                       .paths = o->paths,
                       .npaths = o->npaths,
                       .axis = (CurveAxis)or_first(o->axis),
                       .band = (CurveBand)or_first(o->band)};
    return page_write(&page, o->html, err);
}

static bool report(const Options *o, const Groups *g, Err *err) {
    Table results = {0}, beside = {0};
    if (o->html || (wants_table(o) && !o->papers)) results_table(&results, g);
    if (o->papers) papers_table(&beside, g);
    if (wants_table(o))
        table_write(o->papers ? &beside : &results, (TableFormat)or_first(o->format), stdout);
    const bool ok = (!o->plot || plot_runs(o, g, err)) &&
                    (!o->html || write_page(o, g, &results, &beside, err));
    table_free(&results);
    table_free(&beside);
    return ok;
}

static bool report_runs(const Options *o, Err *err) {
    RunSet set;
    Groups g;
    const bool curves = o->html || (o->plot && o->what != WHAT_CLUSTERS);
    if (!runs_read(&set, o->paths, o->npaths, curves, err)) return false;
    groups_make(&g, &set, o->each);
    const bool ok = report(o, &g, err);
    groups_free(&g);
    runs_free(&set);
    return ok;
}

static bool report_lengths(const Options *o, Err *err) {
    Scaling s;
    Table t;
    Plot p;
    bool ok = true;
    if (!scaling_read(&s, o->paths, o->npaths, err)) return false;
    if (wants_table(o)) {
        scaling_table(&t, &s);
        table_write(&t, (TableFormat)or_first(o->format), stdout);
        table_free(&t);
    }
    if (o->plot) {
        scaling_plot(&p, &s);
        ok = plot_write(&p, o->plot, o->keep, err);
        plot_free(&p);
    }
    scaling_free(&s);
    return ok;
}

int main(int argc, char **argv) {
    Err err = {0};
    Options o = {.format = -1, .what = -1, .axis = -1, .band = -1};
    bool done = false;
    stop_ignore_write_signals();
    bool ok = parse(&o, argc, argv, &done, &err);
    if (ok && !done) ok = o.what == WHAT_LENGTH ? report_lengths(&o, &err) : report_runs(&o, &err);
    return ok && err_check_stdout(&err) ? EXIT_SUCCESS : err_report("cast_report", &err);
}
