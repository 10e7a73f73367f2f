/* Nothing of the user's is in the script but as quoted words of a command, or in characters that
 * mean nothing to a shell. */
#include "sweep/slurm.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "core/version.h"

enum { SLURM_ARRAY_MOST = 1000 /* MaxArraySize is 1001 unless a cluster sets it */ };

/* "1-4,6": the runs that can be made. */
static void print_array(FILE *f, const Plan *p) {
    for (int i = 0, n = 0, last; i < p->grid.runs; i = last + 1) {
        last = i;
        if (p->runs[i].state == PLAN_WRONG) continue;
        while (last + 1 < p->grid.runs && p->runs[last + 1].state != PLAN_WRONG) last++;
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

static void print_directives(FILE *f, const Plan *p, int threads, const char *here) {
    fputs(
        "#!/bin/bash\n"
        "# Written by cast_sweep " CAST_VERSION ": an array job for Slurm, a task a run. To submit "
        "it: sbatch FILE\n"
        "# A task that reaches its time limit or has to make room saves, and is queued again; one "
        "whose run is done\n"
        "# ends at once. What your cluster asks for besides (--time, --mem, --partition) goes "
        "here, or to sbatch.\n"
        "#SBATCH --job-name=cast_sweep\n"
        "#SBATCH --array=",
        f);
    print_array(f, p);
    fprintf(f, "\n#SBATCH --cpus-per-task=%d\n", lanes_open(threads));
    fputs("#SBATCH --signal=TERM@120\n"
          "#SBATCH --requeue\n"
          "#SBATCH --open-mode=append\n",
          f);
    print_output(f, here, p->dir);
}

/* A word of a command, quoted where it must be; nothing for NULL. */
static void add_word(FILE *f, const char *before, const char *word) {
    if (!word) return;
    fputs(before, f);
    option_print_word(f, word);
}

static void print_task(FILE *f, const PlanRequest *r, int threads, const char *here,
                       const char *program) {
    add_word(f, "set -u\ncd ", here);
    fputs(" || exit 66\n"
          "# In a step of the job, which is what Slurm signals.\n"
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
          "# Stopped and saved: to be gone on with.\n"
          "if [ $status -eq 75 ] && [ -n \"${SLURM_ARRAY_JOB_ID:-}\" ]; then\n"
          "    scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\n"
          "fi\n"
          "exit $status\n",
          f);
}

bool slurm_write(const char *path, const Plan *p, const PlanRequest *r, int threads, Err *err) {
    char here[FILE_PATH_MAX], program[FILE_PATH_MAX];
    AtomicFile a;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0 || !getcwd(here, sizeof here))
        return err_set(err, EX_OSERR, "the program's own place is not known: %s", err_words(errno));
    program[n] = '\0';
    if (!atomic_open(&a, path, KIND_SCRIPT, err)) return false;
    print_directives(a.f, p, threads, here);
    print_task(a.f, r, threads, here, program);
    fchmod(fileno(a.f), 0755);
    if (!atomic_commit(&a, err)) return false;
    if (p->grid.runs > SLURM_ARRAY_MOST)
        log_warn("%d runs: many clusters take arrays up to %d only", p->grid.runs,
                 SLURM_ARRAY_MOST);
    char *submit = option_command(2, (char *[]){(char *)"sbatch", (char *)path});
    log_info("slurm    to submit it: %s", submit);
    mem_free(submit);
    return true;
}
