/* Nothing of the user's is in the script but as quoted words of a command, in characters that mean
 * nothing to a shell, or in the lines that are the user's own. */
#include "sweep/slurm.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/env.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/version.h"
#include "sweep/yours.h"

enum { SLURM_ARRAY_MOST = 1000 /* MaxArraySize is 1001 unless a cluster sets it */ };

/* cast_sweep leaves a run that is done alone; cast_train on several nodes would test it again. */
static bool has_task(const Plan *p, const SlurmJob *job, int run) {
    const PlanState state = p->runs[run].state;
    return state != PLAN_WRONG && !(job->nodes > 1 && state == PLAN_DONE);
}

static int tasks_of(const Plan *p, const SlurmJob *job) {
    int n = 0;
    for (int i = 0; i < p->grid.runs; i++) n += has_task(p, job, i);
    return n;
}

/* "1-4,6". */
static void print_array(FILE *f, const Plan *p, const SlurmJob *job) {
    for (int i = 0, n = 0, last; i < p->grid.runs; i = last + 1) {
        last = i;
        if (!has_task(p, job, i)) continue;
        while (last + 1 < p->grid.runs && has_task(p, job, last + 1)) last++;
        fprintf(f, last > i ? "%s%d-%d" : "%s%d", n++ ? "," : "", i + 1, last + 1);
    }
}

static bool plain(const char *path) {
    return !path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "+,-./=@_")];
}

/* Beside the runs, where its name needs no quotes: sbatch has rules of its own for these. */
static void print_output(FILE *f, const char *here, const char *dir) {
    if (plain(here) && plain(dir))
        fprintf(f, "#SBATCH --output=%s%s%s/slurm-%%A_%%a.log\n", *dir == '/' ? "" : here,
                *dir == '/' ? "" : "/", dir);
}

/* A script that Slurm signals gets TERM of scancel as well: it is warned by another signal. */
static void print_directives(FILE *f, const Plan *p, const SlurmJob *job, const char *here) {
    fputs("#!/bin/bash\n"
          "# Written by cast_sweep " CAST_VERSION
          ": an array job for Slurm, a task a run. To submit it: sbatch FILE\n"
          "# A task that reaches its time limit saves, and is queued again",
          f);
    fputs(job->nodes > 1 ? "; runs that were done have none.\n"
                         : ", and so does one that has to make room;\n"
                           "# one whose run is done ends at once.\n",
          f);
    fputs("#SBATCH --job-name=cast_sweep\n"
          "#SBATCH --array=",
          f);
    print_array(f, p, job);
    fprintf(f,
            "\n#SBATCH --cpus-per-task=%d\n"
            "#SBATCH --hint=nomultithread\n",
            lanes_open(job->threads));
    if (job->nodes > 1) fprintf(f, "#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=1\n", job->nodes);
    fprintf(f, "#SBATCH --signal=%s@120\n", job->nodes > 1 ? "B:USR1" : "TERM");
    fputs("#SBATCH --requeue\n"
          "#SBATCH --open-mode=append\n",
          f);
    print_output(f, here, p->dir);
}

/* Behind all other directives, of which the last counts, and before the first command, behind which
 * sbatch reads none. */
static void print_yours(FILE *f, const char *yours) {
    fputs(
        "# What your cluster asks for besides goes between the next two comments, or to sbatch: "
        "#SBATCH\n"
        "# lines (--time, --mem, --partition), then commands (module load). Other changes are lost "
        "when\n"
        "# this is written anew.\n",
        f);
    yours_print(f, yours);
}

/* A word of a command, quoted where it must be; nothing for NULL. */
static void add_word(FILE *f, const char *before, const char *word) {
    if (!word) return;
    fputs(before, f);
    option_print_word(f, word);
}

static void print_step(FILE *f, const PlanRequest *r, int threads, const char *program) {
    fputs("# In a step of the job, which is what Slurm signals.\n"
          "step=()\n"
          "if [ -n \"${SLURM_JOB_ID:-}\" ] && command -v srun >/dev/null; then\n"
          "    step=(srun --ntasks=1 --cpus-per-task=\"${SLURM_CPUS_PER_TASK:-1}\")\n"
          "fi\n"
          "\"${step[@]}\"",
          f);
    add_word(f, " ", program);
    add_word(f, " ", r->config);
    for (int i = 0; i < r->nlists; i++) add_word(f, " ", r->lists[i]);
    add_word(f, " --seeds ", r->seeds);
    if (threads) fprintf(f, " --threads %d", threads);
    add_word(f, " --out ", r->dir);
    fputs(" --only \"${SLURM_ARRAY_TASK_ID:?is set by sbatch}\"\n"
          "status=$?\n"
          "# Stopped and saved, or not begun yet: to be gone on with.\n"
          "if { [ $status -eq 75 ] || [ $status -eq 143 ]; }",
          f);
}

/* What is each run's own, by the number of its task. */
static void print_runs(FILE *f, const Plan *p, const SlurmJob *job) {
    char dir[FILE_PATH_MAX], **overrides = mem_alloc((size_t)p->grid.nkeys + 1, sizeof *overrides);
    fputs("case ${SLURM_ARRAY_TASK_ID:?is set by sbatch} in\n", f);
    for (int i = 0; i < p->grid.runs; i++) {
        if (!has_task(p, job, i)) continue;
        fprintf(f, "%d) run=(", i + 1);
        const int n = grid_overrides(&p->grid, i, overrides);
        for (int k = 0; k < n; k++) add_word(f, k ? " " : "", overrides[k]);
        plan_run_dir(p, i, dir);
        add_word(f, " --out ", dir);
        fputs(") ;;\n", f);
    }
    fputs("*) exit 64 ;;\nesac\n", f);
    mem_free(overrides);
}

/* cast_train on several nodes, which finds the run as cast_sweep would make it. Slurm signals this
 * script alone, which hands it on. */
static void print_ranks(FILE *f, const Plan *p, const SlurmJob *job, const char *program) {
    print_runs(f, p, job);
    fputs("# A rank a node, of a build with MPI=1, with time to save. Of MPICH: mpirun -ppn 1 "
          "-bind-to none.\n"
          "mpirun=(mpirun --map-by ppr:1:node --bind-to none --mca odls_base_sigkill_timeout 30)\n"
          "export SRUN_CPUS_PER_TASK=\"${SLURM_CPUS_PER_TASK:-1}\"\n"
          "# USR1: the time is almost up. TERM: scancel, after which nothing is queued again.\n"
          "stopped='' job=''\n"
          "trap 'stopped=time; [ -z \"$job\" ] || kill -TERM \"$job\"' USR1\n"
          "trap 'stopped=cancelled; [ -z \"$job\" ] || kill -TERM \"$job\"' TERM\n"
          "\"${mpirun[@]}\" -n",
          f);
    fprintf(f, " %d", job->nodes);
    add_word(f, " ", program);
    add_word(f, " ", p->config);
    fputs(" \"${run[@]}\"", f);
    if (job->threads) fprintf(f, " --threads %d", job->threads);
    fputs(" &\n"
          "job=$!\n"
          "[ -z \"$stopped\" ] || kill -TERM \"$job\"\n"
          "wait $job; status=$?\n"
          "while kill -0 $job 2>/dev/null; do wait $job; status=$?; done\n"
          "# Stopped and saved: to be gone on with.\n"
          "if [ $status -ne 0 ] && [ \"$stopped\" != cancelled ] &&\n"
          "    { [ $status -eq 75 ] || [ -n \"$stopped\" ]; }",
          f);
}

static void print_task(FILE *f, const Plan *p, const PlanRequest *r, const SlurmJob *job,
                       const char *here, const char *program) {
    add_word(f, "set -u\ncd ", here);
    fputs(" || exit 66\n", f);
    if (job->nodes > 1)
        print_ranks(f, p, job, program);
    else
        print_step(f, r, job->threads, program);
    fputs(" && [ -n \"${SLURM_ARRAY_JOB_ID:-}\" ]; then\n"
          "    scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\n"
          "fi\n"
          "exit $status\n",
          f);
}

/* This program's path, or that of cast_train beside it. */
static bool find_program(char path[FILE_PATH_MAX], bool trains) {
    static const char train[] = "cast_train";
    const ssize_t n = readlink("/proc/self/exe", path, FILE_PATH_MAX - sizeof train);
    if (n < 0) return false;
    path[n] = '\0';
    char *name = strrchr(path, '/');
    if (trains && name) memcpy(name + 1, train, sizeof train);
    return true;
}

/* The script that is there may not lack what was the user's in it. */
static bool open_script(AtomicFile *a, char **yours, const char *path, Err *err) {
    if (!atomic_open(a, path, KIND_SCRIPT, err)) return false;
    const bool ok = yours_read(yours, a->path, err);
    if (!ok) atomic_abandon(a);
    return ok;
}

bool slurm_may_write(const char *path, Err *err) {
    AtomicFile a;
    char *yours;
    if (!open_script(&a, &yours, path, err)) return false;
    atomic_abandon(&a);
    mem_free(yours);
    return true;
}

static void tell(const char *path, const Plan *p, const SlurmJob *job, const char *yours) {
    if (p->grid.runs > SLURM_ARRAY_MOST)
        log_warn("%d runs: many clusters take arrays up to %d only", p->grid.runs,
                 SLURM_ARRAY_MOST);
    if (!job->threads)
        log_info("slurm    %d CPUs a task, as %s: --threads N asks for others", lanes_open(0),
                 env_positive("OMP_NUM_THREADS") ? "OMP_NUM_THREADS says here"
                                                 : "many as there are cores here");
    if (*yours) log_info("slurm    your own lines in %s were kept", path);
    char *submit = option_command(2, (char *[]){(char *)"sbatch", (char *)path});
    log_info("slurm    to submit it: %s", submit);
    mem_free(submit);
}

static bool write_script(const char *path, const Plan *p, const PlanRequest *r, const SlurmJob *job,
                         Err *err) {
    char here[FILE_PATH_MAX], program[FILE_PATH_MAX], *yours;
    AtomicFile a;
    if (!find_program(program, job->nodes > 1) || !getcwd(here, sizeof here))
        return err_set(err, EX_OSERR, "the program's own place is not known: %s", err_words(errno));
    if (!open_script(&a, &yours, path, err)) return false;
    print_directives(a.f, p, job, here);
    print_yours(a.f, yours);
    print_task(a.f, p, r, job, here, program);
    fchmod(fileno(a.f), 0755);
    const bool ok = atomic_commit(&a, err);
    if (ok) tell(path, p, job, yours);
    mem_free(yours);
    return ok;
}

bool slurm_write(const char *path, const Plan *p, const PlanRequest *r, const SlurmJob *job,
                 Err *err) {
    if (tasks_of(p, job) > 0) return write_script(path, p, r, job, err);
    log_info("slurm    no script: %s", plan_count(p, PLAN_WRONG)
                                           ? "the runs that are not done cannot be run"
                                           : "all runs are done");
    return true;
}
