/* MPI appears in this file alone.
 *
 * Its own errors end the job (MPI_ERRORS_ARE_FATAL, its default), and a rank that dies takes the
 * others with it: mpirun sees to that. What it does not see is a host that is cut off: hence the
 * watch. */
#define _GNU_SOURCE
#include "core/ranks.h"

#include <fcntl.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/commit.h"
#include "core/cpu.h"
#include "core/env.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/mem.h"
#include "core/version.h"

static int me, count = 1;
static bool alone;
static RanksMeter meter;
static char (*hosts)[RANKS_HOST]; /* (count) */

int ranks_count(void) { return alone ? 1 : count; }
void ranks_alone(bool now) { alone = now; }
RanksMeter ranks_meter(void) { return meter; }
int ranks_me(void) { return me; }
const char *ranks_host(int rank) { return hosts && hosts[rank][0] ? hosts[rank] : "this host"; }

int ranks_will_be(void) {
    return env_positive(getenv("OMPI_COMM_WORLD_RANK") ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK");
}

/* A process that took itself for a helper would wait for orders for ever. */
static bool is_who_it_was_to_be(Err *err) {
    return me == ranks_will_be() ||
           err_set(err, EX_UNAVAILABLE,
                   "OMPI_COMM_WORLD_RANK or PMI_RANK in the environment has this for rank %d of a "
                   "job, and it is rank %d: they may be left from another job; unset them",
                   ranks_will_be(), me);
}

int ranks_started(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (env_positive(sizes[i])) return env_positive(sizes[i]);
    return 0;
}

void ranks_leave(void) {
    static const char *const of_mpi[] = {"OMPI_", "PMIX_", "PMI_", "PRTE_", "MPI_", "HYDI_"};
    char name[128];
    for (char **e = environ; *e;) {
        bool theirs = false;
        for (size_t i = 0; i < sizeof of_mpi / sizeof *of_mpi; i++)
            theirs |= !strncmp(*e, of_mpi[i], strlen(of_mpi[i]));
        const char *before = *e;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        /* What follows moves up; a name that is too long for us stays. */
        if (!theirs || unsetenv(name) != 0 || *e == before) e++;
    }
}

/* Of this host, or of what a job of Slurm's or a control group is given of it. */
static int processors_here(void) {
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const int given[] = {env_positive("SLURM_CPUS_ON_NODE"), machine_quota(MACHINE_GROUPS)};
    for (int i = 0; i < 2; i++)
        if (given[i] && given[i] < all) all = given[i];
    return all;
}

/* Which can be meant: runs of directories of their own. */
static void warn_of_srun(void) {
    const int n = env_positive("SLURM_STEP_NUM_TASKS");
    if (n > 1 && ranks_started() < 1)
        log_warn("srun has started %d of these processes, each of which works by itself: of one "
                 "run 'mpirun' makes ranks, with a build of 'make MPI=1'",
                 n);
}

bool ranks_first_here(void) {
    for (int r = 0; r < me; r++)
        if (!strcmp(hosts[r], hosts[me])) return false;
    return true;
}

static int ranks_beside(int rank) {
    int n = 0;
    for (int r = 0; r < count; r++) n += !strcmp(hosts[r], hosts[rank]);
    return n;
}

double ranks_times(int threads) {
    const double all = processors_here();
    double times = 0;
    if (ranks_count() < 2) return 1;
    for (int r = 0; r < count; r++) times += fmin(1, all / ranks_beside(r) / fmin(threads, all));
    return times;
}

void ranks_warn(int threads) {
    const int here = ranks_count() < 2 ? 1 : ranks_beside(me), all = processors_here();
    if (here > 1 && here * threads > all)
        log_warn("%d ranks of %d thread%s on %d processors: they take turns, which makes nothing "
                 "faster; --threads %d gives each its own",
                 here, threads, threads == 1 ? "" : "s", all, all > here ? all / here : 1);
}

#ifdef HAVE_MPI

#include <mpi.h>

enum { MOST_BYTES = 1 << 30, TAG = 1 }; /* MPI counts in int */

/* ---- the watch ---- */

static struct {
    pthread_t thread;
    MPI_Comm comm; /* its own, so that nothing else waits in it */
    double awake;  /* seconds of this process, but for those that it was stopped */
    double *heard; /* (count) when in these a rank was last heard of */
    int silence;   /* seconds */
    bool runs;     /* there is a thread */
    _Atomic bool ends;
} watch;

/* Whether a process is one of Open MPI's that start ranks, as its own name has it. */
static bool starts_ranks(pid_t pid) {
    static const char *const names[] = {"mpirun\n", "mpirun.openmpi\n", "mpiexec\n", "orterun\n",
                                        "orted\n",  "prterun\n",        "prted\n"};
    char path[32], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    const int f = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = f < 0 ? 0 : read(f, name, sizeof name - 1);
    if (f >= 0) close(f);
    for (size_t i = 0; n > 0 && i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* Open MPI's mpirun waits for hosts that it cannot reach, for as long as TCP does. A process of its
 * own, which mpirun does not know of, ends it after a while. It holds none of this process's files:
 * its locks would outlive it. */
static void end_mpirun(void) {
    enum { GRACE = 10, MOST_FILES = 1024 }; /* of a kernel without close_range */
    const pid_t mpirun = getppid();
    if (!starts_ranks(mpirun) || fork() != 0) return;
    setsid();
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0U, ~0U, 0U) != 0)
#endif
        for (int fd = 0; fd < MOST_FILES; fd++) close(fd);
    sleep(GRACE);
    if (starts_ranks(mpirun)) kill(mpirun, SIGKILL);
    _exit(EXIT_SUCCESS);
}

static _Noreturn void end_job(int rank) {
    char text[256];
    snprintf(
        text, sizeof text,
        "rank %d on %s has not been heard of for %d seconds: the job ends; the last checkpoint "
        "stands, and the same command goes on from it\n",
        rank, ranks_host(rank), watch.silence);
    log_at_once(text);
    signal(SIGALRM, SIG_DFL);
    alarm(5); /* MPI_Abort may wait for what does not answer */
    end_mpirun();
    MPI_Abort(MPI_COMM_WORLD, EX_UNAVAILABLE);
    _exit(EX_UNAVAILABLE);
}

/* Rank 0 watches all, and all watch rank 0. */
static bool is_watched(int rank) { return rank != me && (me == 0 || rank == 0); }

static void say_and_hear(bool say) {
    char beat = 0;
    int there;
    MPI_Status from;
    for (int r = 0; r < count && say; r++)
        if (is_watched(r)) MPI_Send(&beat, 1, MPI_CHAR, r, TAG, watch.comm);
    while (MPI_Iprobe(MPI_ANY_SOURCE, TAG, watch.comm, &there, &from), there) {
        MPI_Recv(&beat, 1, MPI_CHAR, from.MPI_SOURCE, TAG, watch.comm, MPI_STATUS_IGNORE);
        watch.heard[from.MPI_SOURCE] = watch.awake;
    }
}

/* `last`: when that was done before. */
static void count_awake(double *last) {
    const double longest = 0.5; /* seconds that count of a beat: what is longer was a stop */
    const double now = clock_seconds();
    watch.awake += fmin(now - *last, longest);
    *last = now;
}

static void *run_watch(void *unused) {
    enum { BEATS = 10 }; /* a second, of which one is said */
    const struct timespec beat = {.tv_nsec = 1000000000 / BEATS};
    double last = clock_seconds();
    for (int i = 0; !watch.ends; i++) {
        say_and_hear(i % BEATS == 0);
        for (int r = 0; r < count; r++)
            if (is_watched(r) && watch.awake - watch.heard[r] > watch.silence) end_job(r);
        nanosleep(&beat, NULL);
        count_awake(&last);
    }
    return unused;
}

/* A thread too: a signal's handler may not fork, since what it stopped may be within malloc. */
static void *run_clock(void *unused) {
    const struct timespec tick = {.tv_nsec = 1000000}; /* the end waits for one at most */
    const double start = watch.awake;
    double last = clock_seconds();
    while (!watch.ends) {
        nanosleep(&tick, NULL);
        count_awake(&last);
        if (watch.awake - start < watch.silence) continue;
        log_at_once(
            "the other ranks did not come to the end of the job; what was written stands\n");
        end_mpirun();
        _exit(EX_UNAVAILABLE);
    }
    return unused;
}

static bool start_watch(Err *err) {
    MPI_Comm_dup(MPI_COMM_WORLD, &watch.comm);
    watch.heard = mem_alloc((size_t)count, sizeof *watch.heard);
    watch.silence = env_positive("CAST_SILENCE") ? env_positive("CAST_SILENCE") : RANKS_SILENCE;
    MPI_Bcast(&watch.silence, 1, MPI_INT, 0, MPI_COMM_WORLD); /* mpirun leaves it behind */
    const int why = pthread_create(&watch.thread, NULL, run_watch, NULL);
    watch.runs = !why;
    return !why || err_set(err, EX_OSERR, "no thread for the watch over ranks: %s", err_words(why));
}

/* ---- the start and the end ---- */

/* The first that ranks say to each other. Whatever else they say has a form that may be another in
 * another version or build; this one must stay as it is, so that they find that out. */
typedef struct Introduction {
    char host[RANKS_HOST], version[128], build[512];
} Introduction;

static bool is_same(int rank, const char *what, const char *there, const char *here, Err *err) {
    return !strcmp(there, here) ||
           err_set(err, EX_CONFIG,
                   "rank %d on %s: its %s would give other bits: '%s', and rank 0 has '%s'", rank,
                   ranks_host(rank), what, there, here);
}

/* Compiler and flags, of which a long end may be cut, and what these leave open: the processor of a
 * native build, and the C library, whose exp and log some sums take. */
static void describe_build(char *buf, size_t size) {
    const char *features = cpu_features(), *build = cpu_build(), *library = "unknown";
    const uint64_t hash = hash_bytes(features, strlen(features));
#ifdef __GLIBC__
    library = gnu_get_libc_version();
#endif
    snprintf(buf, size, "C library %s, processor features and flags %08x, %s", library,
             (unsigned)hash_more(hash, build, strlen(build)), build);
}

/* The words that `other` lacks. */
static void list_beyond(char *buf, size_t size, const char *words, const char *other) {
    *buf = '\0';
    for (size_t n; *(words += strspn(words, " ")); words += n) {
        const char *at = other;
        n = strcspn(words, " ");
        while (*at && !(strcspn(at, " ") == n && !memcmp(at, words, n)))
            at += strcspn(at, " "), at += strspn(at, " ");
        if (!*at) format_add(buf, size, "%s%.*s", *buf ? " " : "", (int)n, words);
    }
}

/* Told word by word, since flags of -march=native look alike. Ranks of one version say it. */
static bool is_for_one_processor(Err *err) {
    enum { MOST = 1024 };
    char here[MOST] = "", more[MOST], less[MOST], (*all)[MOST] = mem_alloc((size_t)count, MOST);
    bool ok = true;
    snprintf(here, MOST, "%s", cpu_features());
    MPI_Gather(here, MOST, MPI_CHAR, all, MOST, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int r = 1; r < count && me == 0 && ok; r++) {
        list_beyond(more, MOST, all[r], here);
        list_beyond(less, MOST, here, all[r]);
        ok = is_same(r, "build, for another processor,", more, less, err);
    }
    mem_free(all);
    return ok;
}

/* Of rank 0 whether the others are what it is: so one of them tells. */
static bool introduce(Err *err) {
    Introduction here = {0}, *all = mem_alloc((size_t)count, sizeof *all);
    bool ok = true;
    gethostname(here.host, sizeof here.host - 1);
    snprintf(here.version, sizeof here.version, "%s %s", CAST_VERSION, commit_here());
    describe_build(here.build, sizeof here.build);
    MPI_Allgather(&here, sizeof here, MPI_CHAR, all, sizeof here, MPI_CHAR, MPI_COMM_WORLD);
    hosts = mem_alloc((size_t)count, sizeof *hosts);
    for (int r = 0; r < count; r++) memcpy(hosts[r], all[r].host, sizeof *hosts);
    for (int r = 1; r < count && me == 0 && ok; r++)
        ok = is_same(r, "version", all[r].version, here.version, err);
    ok = ok && is_for_one_processor(err);
    for (int r = 1; r < count && me == 0 && ok; r++)
        ok = is_same(r, "build", all[r].build, here.build, err);
    mem_free(all);
    return ok;
}

/* What mpirun counts in: where a core has two hardware threads, there are half as many. */
static int whole_cores(int processors) {
    const int cores = machine_cores(), threads = machine_processors();
    return cores > 0 && threads > cores ? processors * cores / threads : processors;
}

/* Open MPI binds one or two ranks to a core each: all threads of a rank share it. */
static void check_binding(int ours) {
    const int all = processors_here(), here = ranks_beside(me);
    if (me == 0 && (ours + 1) * here <= all)
        log_warn(
            "mpirun lets each of %d ranks here have %d of the %d processors: 'mpirun --bind-to "
            "none' (MPICH: -bind-to none) gives them all, or --map-by slot:PE=%d",
            here, ours, all, whole_cores(all) > here ? whole_cores(all) / here : 1);
}

static bool may_work(int threads, Err *err) {
    return is_who_it_was_to_be(err) &&
           (count < 2 || threads >= MPI_THREAD_MULTIPLE ||
            err_set(err, EX_UNAVAILABLE,
                    "this MPI lets only one thread of a process call it, and a rank needs two"));
}

/* Who may not work is none of the ranks: what all of them do at the end, the others, still at the
 * start, would wait in for ever. mpirun ends them when it sees that this process is gone. */
static bool leave(void) {
    mem_free(hosts);
    hosts = NULL, count = 1;
    return false;
}

/* Without mpirun MPI is not even initialised, which takes its time. */
bool ranks_open(int processors, Err *err) {
    int threads;
    warn_of_srun();
    if (ranks_started() < 1) return is_who_it_was_to_be(err);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads) != MPI_SUCCESS)
        return err_set(err, EX_UNAVAILABLE, "MPI cannot be initialised");
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (!introduce(err) || !may_work(threads, err)) return leave();
    if (count < 2) return true;
    check_binding(processors);
    return start_watch(err);
}

static void end_thread(void) {
    if (!watch.runs) return;
    watch.ends = true;
    pthread_join(watch.thread, NULL);
    watch.ends = watch.runs = false;
}

/* Whoever is cut off is told of by the watch until all have come here, and by the clock then. */
static void end_watch(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    end_thread();
    watch.runs = !pthread_create(&watch.thread, NULL, run_clock, NULL);
}

void ranks_close(void) {
    if (!hosts) return;
    if (watch.runs) end_watch();
    MPI_Barrier(MPI_COMM_WORLD);
    if (count > 1) say_and_hear(false); /* what is still on its way */
    MPI_Finalize();
    end_thread();
    mem_free(hosts);
    mem_free(watch.heard);
    hosts = NULL, watch.heard = NULL;
}

/* ---- bytes ---- */

static void broadcast(char *at, int n, int unused) {
    MPI_Bcast(at, n, MPI_CHAR, 0, MPI_COMM_WORLD);
}
static void post(char *at, int n, int to) { MPI_Send(at, n, MPI_CHAR, to, TAG, MPI_COMM_WORLD); }
static void take(char *at, int n, int from) {
    MPI_Recv(at, n, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Piece by piece. */
static void move(void (*piece)(char *, int, int), void *data, size_t bytes, int other) {
    const double start = clock_seconds();
    char *at = data;
    meter.bytes += (double)bytes;
    for (int n; bytes > 0; at += n, bytes -= (size_t)n) {
        n = bytes < MOST_BYTES ? (int)bytes : MOST_BYTES;
        piece(at, n, other);
    }
    meter.seconds += clock_seconds() - start;
}

void ranks_broadcast(void *data, size_t bytes) { move(broadcast, data, bytes, 0); }

/* Between steps it comes at once, and a rank looks for it all the time, as MPI's own functions do;
 * while rank 0 reads, saves or is stopped the processor is somebody else's. */
static void wait_for_order(MPI_Request *order) {
    const double patience = 2e-3, longest = 1e-3; /* seconds */
    const double start = clock_seconds();
    int done;
    while (MPI_Test(order, &done, MPI_STATUS_IGNORE), !done) {
        const double waited = clock_seconds() - start;
        const struct timespec nap = {.tv_nsec = (long)(1e9 * fmin(longest, waited / 10))};
        if (waited > patience) nanosleep(&nap, NULL);
    }
}

void ranks_order(void *data, size_t bytes) {
    const double start = clock_seconds();
    MPI_Request order;
    MPI_Ibcast(data, (int)bytes, MPI_CHAR, 0, MPI_COMM_WORLD, &order);
    if (me == 0)
        MPI_Wait(&order, MPI_STATUS_IGNORE);
    else
        wait_for_order(&order);
    meter.bytes += (double)bytes;
    meter.seconds += clock_seconds() - start;
}

void ranks_send(int to, const void *data, size_t bytes) {
    move(post, (void *)(uintptr_t)data, bytes, to);
}
void ranks_receive(int from, void *data, size_t bytes) { move(take, data, bytes, from); }

#else

bool ranks_open(int processors, Err *err) {
    warn_of_srun();
    if (ranks_started() < 2) return is_who_it_was_to_be(err);
    return err_set(err, EX_USAGE,
                   "mpirun has started %d processes of a build without MPI, each of which would be "
                   "a run of its own: 'make MPI=1' builds one that shares the work",
                   ranks_started());
}
void ranks_close(void) {}
void ranks_broadcast(void *data, size_t bytes) {}
void ranks_order(void *data, size_t bytes) {}
void ranks_send(int to, const void *data, size_t bytes) {}
void ranks_receive(int from, void *data, size_t bytes) {}

#endif
