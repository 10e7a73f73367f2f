#include "sweep/sweep.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/child.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/option.h"
#include "io/json.h"
#include "io/lock.h"
#include "sweep/slurm.h"
#include "train/config.h"
#include "train/stop.h"
#include "train/train.h"

/* How long a sweep waits for a killed one's last run to save and end; and a task of a job, or a
 * rank, for each of the others that looks for sweep.json. */
static const double lock_seconds = 5, task_lock_seconds = 60;

typedef struct Sweep {
    const SweepRequest *r;
    Plan plan;
    DirLock lock;
    bool brief; /* the tables were shown */
} Sweep;

/* Whether other processes make runs of this sweep, too. */
static bool is_shared(const Sweep *s) { return s->r->only || s->r->ranks > 1; }

static bool is_ours(const Sweep *s, int run) {
    if (s->r->only) return run == s->r->only - 1;
    return s->r->ranks < 2 || run % s->r->ranks == s->r->rank;
}

/* ---- the process of a run ---- */

/* The command that makes this run alone, to be freed. */
static char *alone_command(const Sweep *s, char *const *overrides, int n, const char *dir) {
    char **words = mem_alloc((size_t)n + 4, sizeof *words);
    words[0] = (char *)"cast_train";
    words[1] = (char *)s->r->plan.config;
    memcpy(words + 2, overrides, (size_t)n * sizeof *words);
    words[n + 2] = (char *)"--out";
    words[n + 3] = (char *)dir;
    char *text = option_command(n + 4, words);
    mem_free(words);
    return text;
}

static void place_of(const Sweep *s, int run, MeterAmong *a) {
    *a = (MeterAmong){.number = run + 1, .count = s->plan.grid.runs};
    for (int i = 0; i < s->plan.grid.runs; i++) {
        const PlanRun *r = &s->plan.runs[i];
        if (i == run)
            a->own = r->work;
        else if (r->state == PLAN_DONE || r->state == PLAN_FAILED)
            a->before += r->work;
        else if (r->state != PLAN_WRONG)
            a->after += r->work * (1 - r->made);
    }
}

static bool train_alone(const Sweep *s, int run, Err *err) {
    const Grid *g = &s->plan.grid;
    char **overrides = mem_alloc((size_t)g->nkeys + 1, sizeof *overrides), dir[FILE_PATH_MAX];
    Config c = {0};
    TrainEnd end;
    MeterAmong among;
    const int n = grid_overrides(g, run, overrides);
    plan_run_dir(&s->plan, run, dir);
    place_of(s, run, &among);
    char *command = alone_command(s, overrides, n, dir);
    const TrainRequest request = {
        .dir = dir, .command = command, .brief = s->brief, .among = is_shared(s) ? NULL : &among};
    lanes_open(s->r->threads);
    bool ok = lanes_start(err);
    if (ok) gemm_open();
    ok = ok && config_load(&c, s->r->plan.config, overrides, n, err) &&
         train_run(&c, &request, &end, err);
    config_free(&c);
    mem_free(command);
    mem_free(overrides);
    return ok;
}

/* Never returns: the Err of what went wrong goes to `out`. */
_Noreturn static void child(const Sweep *s, int run, pid_t parent, int out) {
    Err err = {0};
    stop_in_child();
    /* Who kills the sweep means its run too: it saves and ends. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(EX_TEMPFAIL);
    if (stop_asked()) _exit(EX_SOFTWARE); /* which make_run takes for a stop then */
    const bool ok = train_alone(s, run, &err);
    if (!ok && write(out, &err, sizeof err) != sizeof err) err.code = EX_SOFTWARE;
    fflush(NULL);
    _exit(ok ? EXIT_SUCCESS : err.code);
}

/* A signal that only this process got reaches the child by the flag that they share, or, as long as
 * that does not look at it, by itself. Returns the child's status. */
static int wait_for(pid_t pid) {
    const struct timespec a_while = {.tv_nsec = 20000000};
    bool told = false;
    int status = -1; /* no child's, should one be lost */
    for (pid_t got; (got = waitpid(pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR);) {
        if (stop_asked() && !told && !stop_child_listens()) {
            kill(pid, SIGTERM);
            told = true;
        }
        nanosleep(&a_while, NULL);
    }
    return status;
}

/* What its Err says, or else what can be said of its end. */
static bool explain(int status, int in, Err *err) {
    if (status < 0) return err_set(err, EX_OSERR, "its end cannot be waited for");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (read(in, err, sizeof *err) == sizeof *err) return false;
    return child_ended(status, err);
}

static bool run_in_child(const Sweep *s, int run, Err *err) {
    int ends[2];
    if (pipe(ends) != 0) return err_set(err, EX_OSERR, "no pipe: %s", err_words(errno));
    stop_no_child();
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(s, run, parent, ends[1]);
    }
    const int why = errno;
    close(ends[1]);
    bool ok = pid > 0 ? explain(wait_for(pid), ends[0], err)
                      : err_set(err, EX_OSERR, "no process: %s", err_words(why));
    close(ends[0]);
    log_progress_end();
    return ok;
}

/* ---- what is told ---- */

/* What is left takes, by the work of the runs that took time; 0: nothing to tell by. */
static double seconds_left(const Plan *p) {
    double work = 0, seconds = 0, left = 0;
    for (int i = 0; i < p->grid.runs; i++) {
        const PlanRun *r = &p->runs[i];
        if (r->state == PLAN_NEW || r->state == PLAN_BEGUN) left += r->work * (1 - r->made);
        if (r->state != PLAN_DONE || !(r->seconds > 0)) continue;
        work += r->work;
        seconds += r->seconds;
    }
    return work > 0 ? seconds * left / work : 0;
}

static void tell_plan(const Sweep *s) {
    static const char *const states[] = {"to be run", "begun", "done", "cannot be run: ", ""};
    static const PlanState told[] = {PLAN_DONE, PLAN_BEGUN, PLAN_WRONG};
    const Plan *p = &s->plan;
    char counts[128] = "";
    int width = 0;
    for (int i = 0; i < 3; i++) {
        const int n = plan_count(p, told[i]);
        if (n) format_add(counts, sizeof counts, ", %d %.13s", n, states[told[i]]);
    }
    log_headed(LOG_BOLD, "sweep", "    %s into %s: %d run%s%s", p->config, p->dir, p->grid.runs,
               p->grid.runs == 1 ? "" : "s", counts);
    config_warn_data(p->was, json_at(p->record, "base"), p->dir);
    for (int i = 0; i < p->grid.runs; i++)
        if ((int)strlen(p->runs[i].name) > width) width = (int)strlen(p->runs[i].name);
    for (int i = 0; i < p->grid.runs; i++) {
        const PlanRun *r = &p->runs[i];
        if (s->r->dry_run || r->state == PLAN_WRONG)
            log_info("%5d    %-*s  %s%s", i + 1, width, r->name, states[r->state],
                     r->why ? r->why : "");
    }
}

static void tell_run(const Sweep *s, int run) {
    const Plan *p = &s->plan;
    char left[64] = "", time[32], head[64];
    const double seconds = seconds_left(p);
    if (seconds > 0)
        snprintf(left, sizeof left, ", about %s left", format_duration(time, sizeof time, seconds));
    log_info("%s", "");
    snprintf(head, sizeof head, "run %d of %d", run + 1, p->grid.runs);
    log_headed(LOG_BOLD, head, "  %s%s", p->runs[run].name, is_shared(s) ? "" : left);
}

static void tell_end(const Sweep *s, bool stopped) {
    const Plan *p = &s->plan;
    const int done = plan_count(p, PLAN_DONE), failed = plan_count(p, PLAN_FAILED);
    log_info("%s", "");
    for (int i = 0; i < p->grid.runs; i++)
        if (p->runs[i].why && is_ours(s, i))
            log_headed(LOG_RED, "failed", "   run %d, %s: %s", i + 1, p->runs[i].name,
                       p->runs[i].why);
    log_headed(LOG_BOLD, "sweep", "    %s: %d of %d runs are done", p->dir, done, p->grid.runs);
    if (stopped || failed)
        log_info("%s %s", stopped ? "to go on:" : "to try again what failed:", s->r->command);
    if (done && !is_shared(s)) {
        char *see = option_command(2, (char *[]){(char *)"cast_report", (char *)p->dir});
        log_info("to see them: %s", see);
        mem_free(see);
    }
}

/* ---- the sweep ---- */

/* False: a signal came, as err says (or nothing, where the run had not begun), or that the run
 * could not be saved then. */
static bool make_run(Sweep *s, int run, Err *stopped) {
    PlanRun *r = &s->plan.runs[run];
    const double start = clock_seconds();
    Err err;
    tell_run(s, run);
    if (run_in_child(s, run, &err)) {
        r->seconds += clock_seconds() - start;
        r->state = PLAN_DONE;
    } else if (err.code != EX_TEMPFAIL && !(stop_asked() && err.code == EX_SOFTWARE)) {
        log_warn("run %d of %d failed: %s", run + 1, s->plan.grid.runs, err.text);
        plan_failed(&s->plan, run, PLAN_FAILED, err.text);
        if (stop_asked() && err.code == EX_IOERR) {
            *stopped = err;
            return false;
        }
    } else {
        r->state = PLAN_BEGUN;
        if (err.code == EX_TEMPFAIL) *stopped = err;
        return false;
    }
    s->brief = true;
    return true;
}

/* Else the next run would make it anew, without a sweep in it. */
static bool still_there(const Sweep *s, Err *err) {
    return lock_stands(&s->lock, s->r->plan.dir) ||
           err_set(err, EX_IOERR, "%s was removed or moved while the sweep was at work in it",
                   s->r->plan.dir);
}

static bool make_runs(Sweep *s, int *failed, Err *err) {
    const int runs = s->plan.grid.runs;
    bool ok = true, here = true;
    *err = (Err){0};
    stop_share();
    stop_on_signals();
    /* Ignored, as some programs leave it to those they start, it would hide how a run ended. */
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; ok && i < runs; i++) {
        const PlanState state = s->plan.runs[i].state;
        if (!is_ours(s, i) || (state != PLAN_NEW && state != PLAN_BEGUN)) continue;
        ok = !stop_asked() && (here = still_there(s, err)) && make_run(s, i, err);
    }
    if (here) tell_end(s, !ok); /* else there is nothing to go on with */
    for (int i = 0; i < runs; i++)
        *failed += is_ours(s, i) &&
                   (s->plan.runs[i].state == PLAN_WRONG || s->plan.runs[i].state == PLAN_FAILED);
    if (!ok && !err->code)
        err_set(err, EX_TEMPFAIL, "%s: stopped", stop_asked() ? stop_asked() : "a signal");
    return ok;
}

static bool take_dir(Sweep *s, Err *err) {
    const char *dir = s->r->plan.dir;
    const int others = s->r->ranks > 1 ? s->r->ranks : 1;
    const double wait = is_shared(s) ? task_lock_seconds * others : lock_seconds;
    return file_make_dirs(dir, err) && lock_take(&s->lock, dir, wait, err);
}

static bool work(Sweep *s, int *failed, Err *err) {
    const SweepRequest *r = s->r;
    if (r->rank == 0) tell_plan(s);
    if (r->rank == 0 && r->dry_run && r->slurm)
        log_headed(LOG_BOLD, "slurm", "    a dry run does not write %s", r->slurm);
    if (r->dry_run) return true;
    if (!plan_record(&s->plan, err)) return false;
    if (is_shared(s)) lock_release(&s->lock);
    const SlurmJob job = {r->threads, r->nodes};
    return r->slurm ? slurm_write(r->slurm, &s->plan, &r->plan, &job, err)
                    : make_runs(s, failed, err);
}

/* In the sweep's directory, which is still to be made. */
static bool script_goes_inside(const SweepRequest *r) {
    const size_t n = strlen(r->plan.dir);
    return !file_exists(r->plan.dir) && !strncmp(r->slurm, r->plan.dir, n) &&
           (r->slurm[n] == '/' || r->plan.dir[n - 1] == '/');
}

/* Before anything is made. */
static bool try_script(const SweepRequest *r, Err *err) {
    return !r->slurm || r->dry_run || script_goes_inside(r) || slurm_may_write(r->slurm, err);
}

bool sweep_run(const SweepRequest *r, int *failed, Err *err) {
    Sweep s = {.r = r, .lock = LOCK_NONE};
    *failed = 0;
    bool ok = plan_open(&s.plan, &r->plan, err) && try_script(r, err);
    if (ok && r->only > s.plan.grid.runs)
        ok = err_set(err, EX_USAGE, "--only %d: there are %d runs", r->only, s.plan.grid.runs);
    /* Tasks of a job share the directory: their runs have locks of their own, and only the first
     * has sweep.json to write. */
    if (ok && !r->dry_run && !(is_shared(&s) && s.plan.recorded)) {
        /* Now that it is known to be one, behind the lock: another may just have ended. */
        plan_close(&s.plan);
        ok = take_dir(&s, err) && plan_open(&s.plan, &r->plan, err);
    }
    ok = ok && work(&s, failed, err);
    plan_close(&s.plan);
    lock_release(&s.lock);
    return ok;
}
