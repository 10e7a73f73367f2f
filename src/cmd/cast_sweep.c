/* cast_sweep: a config's runs over lists of values and seeds, one after the other. */
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/ranks.h"
#include "sweep/sweep.h"
#include "train/stop.h"

#define TRY_HELP "; 'cast_sweep --help' says more"

#define AT(field) offsetof(SweepRequest, field)
static const Option options[] = {
    {"seeds", OPTION_TEXT, AT(plan.seeds), "LIST",
     "train.seed: 1..5 or 1,3,9; every combination once for the first seed, then for the next"},
    {"out", OPTION_TEXT, AT(plan.dir), "DIR",
     "where the runs' directories are made: new, empty, or of runs and sweeps alone"},
    {"threads", OPTION_INT, AT(threads), "N",
     "changes the speed, not a bit [OMP_NUM_THREADS, else the physical cores]", 1,
     OPTION_MOST_THREADS},
    {"only", OPTION_INT, AT(only), "I",
     "run number I alone, as --dry-run counts them: for jobs side by side", 1, GRID_MOST_RUNS},
    {"slurm", OPTION_TEXT, AT(slurm), "FILE",
     "run nothing, but write a job script for Slurm: sbatch FILE makes each run a task; lines of "
     "yours between two comments in it (--time, --mem, module load) stay when it is written "
     "anew"},
    {"nodes", OPTION_INT, AT(nodes), "N",
     "of --slurm: nodes a run, each with a rank of cast_train (of a build with MPI=1) [1]", 1,
     65536},
    {"dry-run", OPTION_FLAG, AT(dry_run), NULL,
     "print the runs and how far they are, and touch nothing"},
    {0},
};

static const Program program = {
    "cast_sweep",
    "training runs of every combination of values",
    "usage: cast_sweep CONFIG [key=v1,v2,...] [key=value ...] [--seeds LIST] --out DIR\n"
    "                  [--threads N] [--only I] [--slurm FILE [--nodes N]] [--dry-run]\n\n"
    "Makes a run of every combination of values and seeds, one after the other, each as cast_train "
    "would, in a directory of its own: DIR/clusters=16,seed=2. All keys of cast_train can be set; "
    "values with commas are JSON: '[1,2]', '{\"type\":\"full\",\"a\":1}', '\"a,b\"'. A value that "
    "its key cannot have is refused. Of several model.attention.type a key of model.attention goes "
    "to those that have it. All combinations are checked before the first is made, with "
    "their memory and data; one that cannot be run is told, and the others are made.\n\n"
    "Stopped at any moment, by whatever, the same command goes on where it was; runs that are done "
    "are not repeated. SIGUSR2 makes the run at hand save and go on. One that fails is told, tried "
    "again by the next call, and holds up no other. DIR/sweep.json says what was swept; more "
    "values, keys or seeds may follow in the same DIR, of the same base config. Under mpirun each "
    "of n processes makes every n-th run. Their status is 0 even where runs failed or a signal "
    "came, which they tell: any other would make mpirun end them all. Open MPI binds each process "
    "to a core or so: give it --bind-to none, and the sweep --threads N.\n",
    options,
    "Exit status: 0 all runs are done, or that of --only, or none was to be made (--dry-run, "
    "--slurm); 1 some failed or cannot be run; 75 stopped by a signal, and saved; others as "
    "cast_train's, where nothing could be begun. 'cast_train --help' lists the keys. 'cast_report "
    "DIR' shows what came of it.\n",
    .needs = "CONFIG",
    .ranks = true,
};

static bool parse(SweepRequest *r, int argc, char **argv, Err *err) {
    CommandLine line;
    if (!option_parse(&line, r, &program, argc, argv, err)) return false;
    if (!r->plan.dir || !*r->plan.dir)
        return err_set(err, EX_USAGE, "--out DIR is missing" TRY_HELP);
    if (r->only && r->slurm) return err_set(err, EX_USAGE, "either --only or --slurm, not both");
    if (r->nodes && !r->slurm) return err_set(err, EX_USAGE, "--nodes is of --slurm" TRY_HELP);
    if (r->only && r->ranks > 1)
        return err_set(err, EX_USAGE, "--only is of one process, and mpirun has started %d",
                       r->ranks);
    static char config[FILE_PATH_MAX];
    r->plan.elsewhere = r->slurm != NULL;
    r->plan.config = option_path(config, sizeof config, line.words[0]);
    r->plan.lists = line.words + 1;
    r->plan.nlists = line.nwords - 1;
    return true;
}

int main(int argc, char **argv) {
    SweepRequest r = {0};
    Err err = {0};
    int failed = 0;
    char *command = option_command(argc, argv);
    stop_on_save_signal();
    stop_at_start();
    r.command = command;
    r.rank = ranks_will_be();
    r.ranks = ranks_started();
    bool ok = parse(&r, argc, argv, &err);
    if (ok) {
        if (r.dry_run) log_to_stdout();
        ok = sweep_run(&r, &failed, &err) && (!r.dry_run || err_check_stdout(&err));
    }
    int status = !ok ? err_report(program.name, &err) : failed ? EXIT_FAILURE : EXIT_SUCCESS;
    if (r.ranks > 1 && (ok || status == EX_TEMPFAIL)) status = EXIT_SUCCESS; /* as the help says */
    mem_free(command);
    return status;
}
