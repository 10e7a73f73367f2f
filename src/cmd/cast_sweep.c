/* cast_sweep: a config's runs over lists of values and seeds, one after the other. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/option.h"
#include "core/version.h"
#include "sweep/sweep.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_sweep --help' says more"

static const char usage[] =
    "usage: cast_sweep CONFIG key=v1,v2,... [key=value ...] [--seeds LIST] --out DIR [--threads "
    "N]\n"
    "                  [--only I] [--slurm FILE] [--dry-run]\n"
    "\n"
    "Makes a run of every combination of values and seeds, one after the other, each as cast_train "
    "would, in a\n"
    "directory of its own: DIR/clusters=16,seed=2. All keys of cast_train can be set; values with "
    "commas are\n"
    "JSON: '[1,2]', '{\"type\":\"full\",\"a\":1}', '\"a,b\"'. All combinations are checked first.\n"
    "\n"
    "Stopped at any moment, by whatever, the same command goes on where it was; runs that are done "
    "are not\n"
    "repeated. One that fails is told, tried again by the next call, and holds up no other. "
    "DIR/sweep.json says\n"
    "what was swept; more values, keys or seeds may follow in the same DIR, of the same base "
    "config.\n"
    "\n"
    "  --seeds LIST    train.seed: 1..5 or 1,3,9; every combination once for the first seed, then "
    "for the next\n"
    "  --out DIR       where the runs' directories are made\n"
    "  --threads N     changes the speed, not a bit   [OMP_NUM_THREADS, else the physical cores]\n"
    "  --only I        run number I alone, as --dry-run counts them: for jobs side by side\n"
    "  --slurm FILE    run nothing, but write a job script for Slurm: sbatch FILE makes each run a "
    "task\n"
    "  --dry-run       print the runs and how far they are, and touch nothing\n"
    "  -h, --help      this text\n"
    "  --version       the version\n"
    "\n"
    "Exit status: 0 all runs are done; 1 some failed; 75 stopped by a signal, and saved; others as "
    "cast_train's,\n"
    "where nothing could be begun. 'cast_train --help' lists the keys. 'cast_report DIR' shows "
    "what "
    "came of it.\n";

enum { OPT_SEEDS = 256, OPT_OUT, OPT_THREADS, OPT_ONLY, OPT_SLURM, OPT_DRY_RUN, OPT_VERSION };

static const struct option long_options[] = {
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"out", required_argument, NULL, OPT_OUT},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"only", required_argument, NULL, OPT_ONLY},
    {"slurm", required_argument, NULL, OPT_SLURM},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool take_option(SweepRequest *r, int option, const char *text, char *const *argv,
                        Err *err) {
    switch (option) {
    case OPT_SEEDS: r->plan.seeds = text; return true;
    case OPT_OUT: r->plan.dir = text; return true;
    case OPT_SLURM: r->slurm = text; return true;
    case OPT_DRY_RUN: r->dry_run = true; return true;
    case OPT_THREADS: return option_int("threads", text, 1, OPTION_MOST_THREADS, &r->threads, err);
    case OPT_ONLY: return option_int("only", text, 1, GRID_MOST_RUNS, &r->only, err);
    default: return option_wrong("cast_sweep", option, argv, optind, err);
    }
}

/* Sets *done when --help or --version was all that was wanted. */
static bool parse(SweepRequest *r, int argc, char **argv, bool *done, Err *err) {
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1;) {
        if (c == 'h') fputs(usage, stdout);
        if (c == OPT_VERSION) puts("cast_sweep " CAST_VERSION);
        if ((*done = c == 'h' || c == OPT_VERSION)) return true;
        if (!take_option(r, c, optarg, argv, err)) return false;
    }
    if (optind == argc) return err_set(err, EX_USAGE, "which CONFIG?" TRY_HELP);
    if (!r->plan.dir || !*r->plan.dir)
        return err_set(err, EX_USAGE, "--out DIR is missing" TRY_HELP);
    if (r->only && r->slurm) return err_set(err, EX_USAGE, "either --only or --slurm, not both");
    r->plan.config = argv[optind];
    r->plan.lists = argv + optind + 1;
    r->plan.nlists = argc - optind - 1;
    return true;
}

int main(int argc, char **argv) {
    SweepRequest r = {0};
    Err err = {0};
    bool done = false;
    int failed = 0;
    char *command = option_command(argc, argv);
    r.command = command;
    bool ok = parse(&r, argc, argv, &done, &err);
    if (ok && !done) {
        stop_ignore_write_signals();
        ok = sweep_run(&r, &failed, &err);
    }
    if (ok && done) ok = err_check_stdout(&err);
    const int status = !ok ? err_report("cast_sweep", &err) : failed ? EXIT_FAILURE : EXIT_SUCCESS;
    mem_free(command);
    return status;
}
