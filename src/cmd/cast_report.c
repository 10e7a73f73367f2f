/* cast_report: tables, curves and pages of runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/option.h"
#include "io/text.h"
#include "report/compare.h"
#include "report/cores.h"
#include "report/curve_plot.h"
#include "report/formats.h"
#include "report/keys.h"
#include "report/lines.h"
#include "report/page.h"
#include "report/papers.h"
#include "report/points.h"
#include "report/results.h"
#include "report/scaling.h"
#include "report/terminal.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_report --help' says more"

typedef enum What {
    WHAT_LOSS,
    WHAT_ACCURACY,
    WHAT_CLUSTERS,
    WHAT_LINES,
    WHAT_LENGTH,
    WHAT_GROWTH,
    WHAT_POINTS,
    WHAT_CORES
} What;

typedef struct Options {
    int format, what, axis, band; /* -1: not said */
    bool papers, each, keep, compare, across;
    const char *plot, *over, *html, *columns, *sort, *caption, *label;
    double width, height; /* millimetres; 0: not said */
    CommandLine line;     /* RUN... */
} Options;

static const char *const formats[] = {"md", "latex", "csv", "terminal", NULL};
static const TableFormat format_of[] = {TABLE_MD, TABLE_LATEX, TABLE_CSV, TABLE_TERMINAL};
static const char *const whats[] = {"loss",   "accuracy", "clusters", "lines", "length",
                                    "growth", "points",   "cores",    NULL};
static const char *const axes[] = {"steps", "time", "tokens", NULL};
static const char *const bands[] = {"range", "sd", NULL};

static bool take_file(void *value, const char *name, const char *text, Err *err) {
    const char **file = value;
    if (*file) return err_set(err, EX_USAGE, "--%s is given twice" TRY_HELP, name);
    *file = text;
    return true;
}

static bool take_plot(void *value, const char *name, const char *text, Err *err) {
    return take_file(value, name, text, err) && plot_check_path(text, err);
}

#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {"format", OPTION_WORD, AT(format), "F",
     "the table on standard output: md, latex (booktabs, the best of a task bold), csv or "
     "terminal, which leaves out what a line has no room for [on a terminal: terminal, else md]",
     .words = formats},
    {"columns", OPTION_TEXT, AT(columns), "LIST",
     "these columns of the table (with --html of the page's, with --papers beside published "
     "figures), in this order: 'clusters,test_best_percent'; keys of configs too, whether they "
     "differ or not; with a RUN, help lists them"},
    {"sort", OPTION_TEXT, AT(sort), "COLUMN",
     "the rows by one of the columns, which need not be shown: the best first, else the least; "
     "names by the alphabet; rows without a value last"},
    {"caption", OPTION_TEXT, AT(caption), "TEXT",
     "of --format latex, which is a table environment then"},
    {"label", OPTION_TEXT, AT(label), "NAME", "the same, for \\ref: tab:clusters"},
    {"across", OPTION_FLAG, AT(across), NULL,
     "of --format latex: for a page of two columns, as wide as both (table*)"},
    {"width", OPTION_REAL, AT(width), "MM",
     "of a plot, with letters of 8 points; with --format latex of the page: a wider table is "
     "warned of [86, --across 178]"},
    {"height", OPTION_REAL, AT(height), "MM", "of a plot"},
    {"papers", OPTION_FLAG, AT(papers), NULL,
     "published accuracies by task, and ours of each mechanism, of best and last weights, instead"},
    {"compare", OPTION_FLAG, AT(compare), NULL,
     "of two RUNs, each a run or seeds of one recipe, or of all runs of two recipes, a sweep's, "
     "say: the difference of their tests, with standard errors, its 95 % interval and p "
     "(Student's t) and which is higher; of more recipes, each beside that of the first run, by p "
     "of all together (Holm)"},
    {"each", OPTION_FLAG, AT(each), NULL, "each run by itself, by its name"},
    {"plot", OPTION_OWN, AT(plot), "FILE",
     "a plot instead of the table, as .svg, .png or .pdf, drawn by gnuplot (Debian: gnuplot-nox)",
     .take = take_plot},
    {"what", OPTION_WORD, AT(what), "W",
     "of what: loss, accuracy (training as lines, smoothed over 2 % of their length on either "
     "side, "
     "validation as points), clusters (test accuracy over their number; --over takes any key), or "
     "lines (a table of what "
     "metrics tell, for other programs: docs/metrics.md); of BENCH length (speed "
     "and "
     "memory), growth (their exponents) or cores (efficiency, of --scaling); of ROWS points (what "
     "attentions come to at what cost) [loss]",
     .words = whats},
    {"x", OPTION_WORD, AT(axis), "AXIS", "loss and accuracy over steps, time or tokens [steps]",
     .words = axes},
    {"over", OPTION_TEXT, AT(over), "KEY",
     "test accuracy over a key of the configs that has numbers, by its whole name or its last part "
     "(rank, train.lr), instead of curves; clusters are 'model.attention.clusters'"},
    {"band", OPTION_WORD, AT(band), "B",
     "around the mean of several runs: range (least to most) or sd [range]", .words = bands},
    {"keep", OPTION_FLAG, AT(keep), NULL, "keeps what gnuplot was given, as FILE.gnuplot"},
    {"html", OPTION_OWN, AT(html), "FILE",
     "a page of its own: table, curves, pictures (viz*.png, viz*.html), configs, environments",
     .take = take_file},
    {0},
};

static const Program program = {
    "cast_report",
    "tables, curves and pages of training runs",
    "usage: cast_report RUN... [--format F] [--columns LIST] [--sort COLUMN]\n"
    "                   [--papers] [--each]\n"
    "       cast_report RUN... --compare [--format F]\n"
    "       cast_report RUN... --plot FILE [--what loss|accuracy|clusters] [--x AXIS]\n"
    "       cast_report RUN... --plot FILE --over KEY\n"
    "       cast_report RUN... --html FILE\n"
    "       cast_report RUN... --what lines [--format csv]\n"
    "       cast_report BENCH... --what length [--plot FILE]\n"
    "       cast_report BENCH... --what growth\n"
    "       cast_report BENCH... --what cores [--plot FILE]\n"
    "       cast_report ROWS... --what points [--plot FILE]\n\n"
    "Reports on training runs. RUN is a run's directory, or a directory of them, one level or two. "
    "Runs that differ in nothing but their seed are one row, or one line with a band; columns are "
    "the config's keys that differ. What is no run, or cannot be read, is told and left out. BENCH "
    "is a file that 'cast_bench CONFIG --lengths N,M --mechanisms A,B --json' printed, or a CSV "
    "with its names, or for cores 'cast_bench CONFIG --scaling --json'; ROWS one with an object a "
    "line as 'cast_eval RUN --json' has it, 'cast_eval "
    "RUN --approximation --json' or 'cast_bench CONFIG --approximation --json'; rows of one config "
    "with the weights of several seeds are one point.\n",
    options,
    "A table is printed as well as a plot or page where --format, or --papers beside --plot, asks "
    "for it.\n",
    .needs = "RUN",
};

/* Whether they are files of rows, and no runs. */
static bool of_rows(const Options *o) { return o->what >= (int)WHAT_LENGTH; }

/* Whether a plot has test accuracies, and no curves. */
static bool over_key(const Options *o) { return o->over || o->what == WHAT_CLUSTERS; }

/* Whether the names of the table's columns are all that is wanted. */
static bool lists(const Options *o) { return o->columns && !strcmp(o->columns, "help"); }

/* Whether the table goes to standard output. */
static bool wants_table(const Options *o) {
    return o->format >= 0 || (o->plot ? o->papers : !o->html);
}

/* What was asked for must be of use: of tables and kinds of report, then of plots. */
static bool check_tables(const Options *o, Err *err) {
    const bool latex = o->format >= 0 && format_of[o->format] == TABLE_LATEX;
    if (o->compare && (o->papers || o->each || o->plot || o->html || o->what >= 0))
        return err_set(err, EX_USAGE,
                       "--compare takes no --papers, --each, --plot, --html or --what" TRY_HELP);
    if (o->papers && o->each)
        return err_set(err, EX_USAGE, "--papers shows means over seeds: not with --each" TRY_HELP);
    if (of_rows(o) && (o->html || o->papers || o->each))
        return err_set(err, EX_USAGE, "--what %s takes no --html, --papers or --each" TRY_HELP,
                       whats[o->what]);
    if ((o->columns || o->sort) && !wants_table(o) && !o->html)
        return err_set(err, EX_USAGE, "--%s is of a table; --format prints one" TRY_HELP,
                       o->columns ? "columns" : "sort");
    if (lists(o) && (o->plot || o->html))
        return err_set(err, EX_USAGE, "--columns help goes without --plot and --html" TRY_HELP);
    if ((o->caption || o->label || o->across) && !latex)
        return err_set(err, EX_USAGE, "--%s is of --format latex" TRY_HELP,
                       o->caption ? "caption"
                       : o->label ? "label"
                                  : "across");
    if (o->label && strpbrk(o->label, "%#{}\\~^$&"))
        return err_set(err, EX_USAGE,
                       "--label: '%s' has a character that means something to LaTeX" TRY_HELP,
                       o->label);
    if (o->width > 0 && !latex && !o->plot)
        return err_set(err, EX_USAGE, "--width is of --plot and of --format latex" TRY_HELP);
    return true;
}

/* Of what is printed on paper. */
static bool check_size(const char *option, double millimetres, Err *err) {
    const double least = 20, most = 2000;
    return millimetres == 0 || (millimetres >= least && millimetres <= most) ||
           err_set(err, EX_USAGE, "--%s: expected %g to %g millimetres, got %g", option, least,
                   most, millimetres);
}

static bool check_plots(const Options *o, Err *err) {
    const bool rows = of_rows(o), of_runs = o->html || (o->plot && !rows);
    if (o->what == WHAT_GROWTH && o->plot)
        return err_set(err, EX_USAGE,
                       "--what growth is a table; --what length has a plot" TRY_HELP);
    if (o->what == WHAT_LINES && (o->plot || o->html || o->papers || o->each))
        return err_set(
            err, EX_USAGE,
            "--what lines is a table, without --plot, --html, --papers and --each" TRY_HELP);
    if (o->over && o->what >= 0 && o->what != WHAT_ACCURACY)
        return err_set(err, EX_USAGE, "--over KEY plots accuracy: without --what %s" TRY_HELP,
                       whats[o->what]);
    if (!o->plot &&
        (o->keep || o->over || o->height > 0 || (o->what >= 0 && o->what < (int)WHAT_LINES)))
        return err_set(err, EX_USAGE, "%s is of --plot FILE" TRY_HELP,
                       o->keep         ? "--keep"
                       : o->over       ? "--over"
                       : o->height > 0 ? "--height"
                                       : "--what");
    if (o->axis >= 0 && !(of_runs && (o->html || !over_key(o))))
        return err_set(err, EX_USAGE,
                       "--x is of --html and of plots of loss and accuracy" TRY_HELP);
    if (o->band >= 0 && !of_runs)
        return err_set(err, EX_USAGE, "--band is of --html and of plots of runs" TRY_HELP);
    return true;
}

static bool check(const Options *o, Err *err) {
    return check_size("width", o->width, err) && check_size("height", o->height, err) &&
           check_tables(o, err) && check_plots(o, err);
}

static int or_first(int choice) { return choice < 0 ? 0 : choice; }

static TableFormat table_format(const Options *o) {
    if (o->format >= 0) return format_of[o->format];
    return isatty(STDOUT_FILENO) ? TABLE_TERMINAL : TABLE_MD;
}

static void list_columns(const Table *t) {
    for (int c = 0; c < t->n; c++)
        text_print(stdout, "%-30s %s\n", t->columns[c].key, t->columns[c].title);
}

/* Rows first, since what they are sorted by need not be shown. */
static bool arrange(const Options *o, Table *t, Err *err) {
    if (lists(o)) return true;
    if (o->sort && !table_sort(t, o->sort, err)) return false;
    if (o->columns) return table_select(t, o->columns, err);
    table_hide(t);
    return true;
}

/* Prints the table as it was asked for; with --columns help the list of its columns alone. */
static void write_table(const Options *o, const Table *t) {
    const double page = o->across ? 178 : 86; /* of A4, in two columns */
    const TableStyle style = {.format = table_format(o),
                              .letters = terminal_letters(),
                              .latex = {.width = o->width > 0 ? o->width : page,
                                        .caption = o->caption,
                                        .label = o->label,
                                        .across = o->across}};
    if (lists(o))
        list_columns(t);
    else
        table_write(t, &style, stdout);
}

static PlotSize plot_size(const Options *o) { return (PlotSize){o->width, o->height}; }

/* Both free what they write. */
static bool give_table(const Options *o, Table *t, Err *err) {
    const bool ok = arrange(o, t, err);
    if (ok) write_table(o, t);
    table_free(t);
    return ok;
}
static bool give_plot(const Options *o, Plot *p, Err *err) {
    const bool ok = plot_write(p, o->plot, o->keep, err);
    plot_free(p);
    return ok;
}

/* The table, then the plot, whichever is asked for. */
static bool give_both(const Options *o, Table *t, Plot *p, Err *err) {
    const bool ok = !wants_table(o) || arrange(o, t, err);
    if (ok && wants_table(o)) write_table(o, t);
    table_free(t);
    if (ok && o->plot) return give_plot(o, p, err);
    plot_free(p);
    return ok;
}

static bool plot_over(const Options *o, Plot *p, const Groups *g, CurveBand band, Err *err) {
    const char *key = o->over ? keys_find(g, o->over, "over", err) : "model.attention.clusters";
    return key && curve_plot_over(p, plot_size(o), g, key, band, err);
}

static bool plot_runs(const Options *o, const Groups *g, Err *err) {
    const CurveBand band = (CurveBand)or_first(o->band);
    const int key = or_first(o->what) == WHAT_LOSS ? RUN_LOSS : RUN_ACCURACY;
    Plot p;
    const bool ok =
        over_key(o) ? plot_over(o, &p, g, band, err)
                    : curve_plot(&p, plot_size(o), g, key, (CurveAxis)or_first(o->axis), band, err);
    return ok && give_plot(o, &p, err);
}

static bool write_page(const Options *o, const Groups *g, const Table *results, const Table *beside,
                       Err *err) {
    const Page page = {.groups = g,
                       .table = {results, beside},
                       .heading = {"Results", o->papers ? "Beside published figures" : NULL},
                       .paths = o->line.words,
                       .npaths = o->line.nwords,
                       .axis = (CurveAxis)or_first(o->axis),
                       .band = (CurveBand)or_first(o->band)};
    return page_write(&page, o->html, err);
}

static bool report(const Options *o, const Groups *g, Err *err) {
    Table results = {0}, beside = {0};
    if (o->html || (wants_table(o) && !o->papers))
        results_table(&results, g, (o->columns || o->sort) && !o->papers);
    if (o->papers) papers_table(&beside, g);
    Table *own = o->papers ? &beside : &results;
    bool ok = !(o->html || wants_table(o)) || arrange(o, own, err);
    if (ok && results.n) results_notes(&results, g);
    if (ok && wants_table(o)) write_table(o, own);
    ok = ok && (!o->plot || plot_runs(o, g, err)) &&
         (!o->html || write_page(o, g, &results, &beside, err));
    table_free(&results);
    table_free(&beside);
    return ok;
}

static bool report_runs(const Options *o, Err *err) {
    RunSet set;
    Groups g;
    const bool curves = o->html || (o->plot && !over_key(o));
    if (!runs_read(&set, o->line.words, o->line.nwords, curves, err)) return false;
    groups_make(&g, &set, o->each);
    const bool ok = report(o, &g, err);
    groups_free(&g);
    runs_free(&set);
    return ok;
}

static bool report_lines(const Options *o, Err *err) {
    RunSet set;
    Table t;
    if (!runs_read(&set, o->line.words, o->line.nwords, true, err)) return false;
    lines_table(&t, &set);
    const bool ok = give_table(o, &t, err);
    runs_free(&set);
    return ok;
}

/* Which of two groups has the first run; those that are copies of others are in none. */
static bool begins_with(const RunSet *set, const Group *a, const Group *b) {
    int i = 0;
    while (i < set->n && !group_has(a, &set->run[i]) && !group_has(b, &set->run[i])) i++;
    return i < set->n && group_has(a, &set->run[i]);
}

/* The two of a set. That of the first run is the first. */
static bool compare_two(Table *t, const Groups *g, const RunSet *set, Err *err) {
    const bool turned = !begins_with(set, &g->group[0], &g->group[1]);
    const Groups side[2] = {{.group = &g->group[turned], .n = 1},
                            {.group = &g->group[!turned], .n = 1}};
    char *names[2] = {group_label(g, side[0].group, NULL), group_label(g, side[1].group, NULL)};
    const bool ok = compare_table(t, &side[0], &side[1], names, err);
    for (int i = 0; i < 2; i++) mem_free(names[i]);
    return ok;
}

/* Runs of several recipes, named one by one. */
static bool compare_groups(const Options *o, Err *err) {
    RunSet set;
    Groups g;
    Table t;
    if (!runs_read(&set, o->line.words, o->line.nwords, false, err)) return false;
    groups_make(&g, &set, false);
    bool ok = g.n > 1 ||
              err_set(err, EX_USAGE,
                      "--compare is of two recipes or sets of data, and these runs have %d", g.n);
    ok = ok && (g.n == 2 ? compare_two : compare_family)(&t, &g, &set, err) &&
         give_table(o, &t, err);
    groups_free(&g);
    runs_free(&set);
    return ok;
}

static bool compare_pair(const Options *o, Err *err) {
    RunSet set[2] = {{0}, {0}};
    Groups g[2] = {{0}, {0}};
    Table t;
    bool ok = true;
    for (int i = 0; ok && i < 2; i++) {
        ok = runs_read(&set[i], o->line.words + i, 1, false, err);
        if (ok) groups_make(&g[i], &set[i], false);
    }
    ok = ok && compare_table(&t, &g[0], &g[1], o->line.words, err) && give_table(o, &t, err);
    for (int i = 0; i < 2; i++) {
        groups_free(&g[i]);
        runs_free(&set[i]);
    }
    return ok;
}

static bool is_within(const char *run, const char *dir) {
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') n--;
    return !strncmp(run, dir, n) && run[n] == '/';
}

/* A run and the directory that it is in are no two sides. */
static bool compare_runs(const Options *o, Err *err) {
    char *const *words = o->line.words;
    const bool two = o->line.nwords == 2 && !is_within(words[0], words[1]);
    return (two ? compare_pair : compare_groups)(o, err);
}

static bool report_lengths(const Options *o, Err *err) {
    Scaling s;
    Table t;
    Plot p = {0};
    if (!scaling_read(&s, o->line.words, o->line.nwords, err)) return false;
    (o->what == WHAT_GROWTH ? scaling_growth : scaling_table)(&t, &s);
    if (o->plot) scaling_plot(&p, plot_size(o), &s);
    const bool ok = give_both(o, &t, &p, err);
    scaling_free(&s);
    return ok;
}

static bool report_points(const Options *o, Err *err) {
    Points s;
    Table t;
    Plot p = {0};
    if (!points_read(&s, o->line.words, o->line.nwords, err)) return false;
    bool ok = !o->plot || points_plot(&p, plot_size(o), &s, err);
    if (ok) {
        points_table(&t, &s);
        ok = give_both(o, &t, &p, err);
    }
    points_free(&s);
    return ok;
}

static bool report_cores(const Options *o, Err *err) {
    Cores s;
    Table t;
    Plot p = {0};
    if (!cores_read(&s, o->line.words, o->line.nwords, err)) return false;
    cores_table(&t, &s);
    if (o->plot) cores_plot(&p, plot_size(o), &s);
    const bool ok = give_both(o, &t, &p, err);
    cores_free(&s);
    return ok;
}

static bool report_as_asked(const Options *o, Err *err) {
    if (o->compare) return compare_runs(o, err);
    if (o->what == WHAT_POINTS) return report_points(o, err);
    if (o->what == WHAT_CORES) return report_cores(o, err);
    if (o->what == WHAT_LINES) return report_lines(o, err);
    return (of_rows(o) ? report_lengths : report_runs)(o, err);
}

int main(int argc, char **argv) {
    Err err = {0};
    Options o = {.format = -1, .what = -1, .axis = -1, .band = -1};
    stop_at_start();
    const bool ok = option_parse(&o.line, &o, &program, argc, argv, &err) && check(&o, &err) &&
                    report_as_asked(&o, &err) && err_check_stdout(&err);
    return ok ? EXIT_SUCCESS : err_report(program.name, &err);
}
