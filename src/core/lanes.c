#define _GNU_SOURCE
#include "core/lanes.h"

#include <pthread.h>
#include <string.h>

#include "core/env.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/program.h"
#include "core/ranks.h"
#include "core/team.h"

static int all = 1; /* threads */

/* What a thread offers of its lane's work. Others join while it is open, and it does not change
 * before they have left. */
typedef struct Offer {
    PartJob *job, *finish;
    const void *ctx;
    _Atomic int parts, next, done; /* all; the next that nobody has begun; how many are through */
    _Atomic int helpers;
    _Atomic bool open;
    char apart[64]; /* threads look at others' all the time */
} Offer;
static Offer *offers;  /* (all) */
static double *worked; /* (all) seconds of the last run, while they are measured */

static LanesMeter *meter;
void lanes_measure(LanesMeter *m) { meter = m; }

static int default_threads(void) {
    const int asked = env_positive("OMP_NUM_THREADS");
    if (asked > OPTION_MOST_THREADS)
        log_warn("OMP_NUM_THREADS: %d are more threads than can be had, %d", asked,
                 OPTION_MOST_THREADS);
    if (asked) return asked < OPTION_MOST_THREADS ? asked : OPTION_MOST_THREADS;
    int n = machine_cores();
    const int limits[] = {machine_quota(MACHINE_GROUPS), env_positive("SLURM_CPUS_PER_TASK")};
    for (int i = 0; i < 2; i++)
        if (limits[i] && limits[i] < n) n = limits[i];
    return n;
}

int lanes_open(int threads) {
    team_open();
    all = threads > 0 ? threads : default_threads();
    mem_free(offers);
    mem_free(worked);
    offers = mem_alloc((size_t)all, sizeof *offers);
    worked = mem_alloc((size_t)all, sizeof *worked);
    return all;
}

int lanes_threads(void) { return all; }

int lanes_processors(void) {
    team_open();
    return machine_processors();
}

/* ---- threads ---- */

enum { BLAS_CALLERS = 64 };

bool lanes_start(Err *err) {
    const int processors = lanes_processors();
    int made;
    if (!team_make(all, &made, err))
        return err_set(err, EX_OSERR,
                       "%d threads were asked for, but no more than %d can be made (ulimit -u, "
                       "ulimit -v, or the container's limit); --threads takes fewer",
                       all, made);
    if (all > processors)
        log_warn("%d threads on %d processor%s: they take turns, which makes nothing faster", all,
                 processors, processors == 1 ? "" : "s");
    if (all > BLAS_CALLERS)
        log_warn(
            "%d threads: OpenBLAS as it is usually built has buffers for %d callers, and more of "
            "them are slower; ranks of fewer threads (mpirun) have their own",
            all, BLAS_CALLERS);
    return true;
}

/* ---- running ---- */

/* Seconds, while they are measured, that this thread has waited in lanes_share: they are none of
 * the job that it is at. */
static _Thread_local double waited;

static double now(void) { return meter ? clock_seconds() : 0; }

/* Until from <= *n <= to. */
static void wait_for(const _Atomic int *n, int from, int to) {
    int turns = 0;
    if (*n >= from && *n <= to) return;
    const double start = now();
    while (*n < from || *n > to) team_wait(&turns);
    waited += now() - start;
}

/* Takes parts until none is left. Whoever waits for his turn to finish waits for earlier parts,
 * which others are at. */
static void work_on(Offer *o, int thread) {
    int part;
    while ((part = o->next++) < o->parts) {
        o->job(o->ctx, part, thread);
        if (o->finish) wait_for(&o->done, part, o->parts);
        if (o->finish) o->finish(o->ctx, part, thread);
        o->done++;
    }
}

/* Whether there was an offer. */
static bool help(int thread) {
    for (int i = 1; i < all; i++) {
        Offer *o = &offers[(thread + i) % all];
        if (!o->open || o->next >= o->parts) continue;
        o->helpers++;
        const bool open = o->open; /* still: from here on its owner waits for us */
        if (open) work_on(o, thread);
        o->helpers--;
        if (open) return true;
    }
    return false;
}

void lanes_share(int parts, PartJob *job, PartJob *finish, const void *ctx) {
    const int thread = team_thread();
    if (parts < 2 || team_size() < 2) {
        for (int part = 0; part < parts; part++) {
            job(ctx, part, thread);
            if (finish) finish(ctx, part, thread);
        }
        return;
    }
    Offer *o = &offers[thread];
    o->job = job, o->finish = finish, o->ctx = ctx, o->parts = parts;
    o->next = o->done = 0;
    o->open = true;
    work_on(o, thread);
    o->open = false;
    wait_for(&o->helpers, 0, 0); /* who is at a part is in the offer */
}

/* A run of lanes, as threads see it. */
typedef struct Run {
    LaneJob *job;
    void *ctx;
    int lanes;
    _Atomic int next, done;
} Run;

static void take_part(void *ctx, int thread) {
    Run *r = ctx;
    int lane, turns = 0;
    double start = now();
    waited = 0;
    while ((lane = r->next++) < r->lanes) {
        r->job(r->ctx, lane, thread);
        r->done++;
    }
    double busy = now() - start;
    while (r->done < r->lanes) {
        start = now();
        if (help(thread)) {
            busy += now() - start;
            turns = 0;
        } else {
            team_wait(&turns);
        }
    }
    if (meter) worked[thread] = busy - waited;
}

static void run(int lanes, LaneJob *job, void *ctx, int threads) {
    Run r = {job, ctx, lanes, 0, 0};
    const double start = now();
    if (lanes < 1) return;
    team_run(threads, take_part, &r);
    if (!meter) return;
    for (int i = 0; i < threads; i++) meter->busy += worked[i];
    meter->runs += now() - start;
}

void lanes_run(int lanes, LaneJob *job, void *ctx) {
    run(lanes, job, ctx, lanes < all ? lanes : all);
}

void lanes_run_sharing(int lanes, LaneJob *job, void *ctx) { run(lanes, job, ctx, all); }

/* A tree of n leaves has fewer than 2 n + 32 nodes, an odd last node of a level counted again
 * above. */
static int tree_nodes(int lanes) { return 2 * lanes + 32; }

void lanepool_layout(LanePool *p, Arena *a, int lanes, size_t reals) {
    p->lanes = lanes;
    p->cuts = NULL;
    p->stride = (reals + 15) / 16 * 16;
    p->base = arena_reals(a, p->stride * (size_t)lanes);
    p->free_list = arena_ints(a, (size_t)lanes);
    p->home = arena_ints(a, (size_t)lanes);
    for (int i = 0; p->home && i < lanes; i++) p->home[i] = -1;
    p->slot = arena_ints(a, (size_t)tree_nodes(lanes));
}

typedef struct SumRun {
    LanePool *pool;
    LaneSumJob *job;
    void *ctx;
    real *total;
    size_t from, to;
    int lanes;
    int first, end; /* ours are lanes first..end-1 */
} SumRun;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

static real *buffer(LanePool *p, int i) { return p->base + (size_t)i * p->stride; }

/* The place in the free list of a buffer that this thread touched first, which is in memory near it
 * where pages and threads stay; or else of one that others did: as few as can be are touched; or
 * else of a new one. */
static int near_buffer(const LanePool *p, int thread) {
    int touched = -1;
    for (int at = p->nfree - 1; at >= 0; at--) {
        const int home = p->home[p->free_list[at]];
        if (home == thread) return at;
        if (home >= 0 && touched < 0) touched = at;
    }
    return touched >= 0 ? touched : p->nfree - 1;
}

static int take_buffer(LanePool *p, int thread) {
    pthread_mutex_lock(&pool_lock);
    const int at = near_buffer(p, thread), i = p->free_list[at];
    p->free_list[at] = p->free_list[--p->nfree];
    if (p->home[i] < 0) p->home[i] = thread;
    pthread_mutex_unlock(&pool_lock);
    return i;
}

static void give_buffer(LanePool *p, int i) {
    pthread_mutex_lock(&pool_lock);
    p->free_list[p->nfree++] = i;
    pthread_mutex_unlock(&pool_lock);
}

/* The sibling's buffer if it is done; otherwise leaves ours for the sibling's thread, and returns
 * -1. */
static int meet(LanePool *p, int node, int sibling, int mine) {
    pthread_mutex_lock(&pool_lock);
    const int other = p->slot[sibling];
    if (other < 0) p->slot[node] = mine;
    pthread_mutex_unlock(&pool_lock);
    return other;
}

static void add_range(real *restrict y, const real *restrict x, size_t from, size_t to) {
#pragma omp simd
    for (size_t i = from; i < to; i++) y[i] += x[i];
}

/* Climbs from a finished leaf as far as siblings are done: who comes second to a pair sums it. */
static void climb(const SumRun *r, int lane, int mine) {
    LanePool *p = r->pool;
    int base = 0, i = lane;
    for (int n = r->lanes; n > 1; base += n, i /= 2, n = (n + 1) / 2) {
        int sibling = i ^ 1;
        if (sibling >= n) continue;
        int other = meet(p, base + i, base + sibling, mine);
        if (other < 0) return;
        add_range(buffer(p, mine), buffer(p, other), r->from, r->to);
        give_buffer(p, other);
    }
    add_range(r->total, buffer(p, mine), r->from, r->to);
    give_buffer(p, mine);
}

static void sum_lane(void *ctx, int index, int thread) {
    const SumRun *r = ctx;
    const int lane = r->first + index;
    int mine = take_buffer(r->pool, thread);
    real *sum = buffer(r->pool, mine);
    memset(sum + r->from, 0, (r->to - r->from) * sizeof *sum);
    r->job(r->ctx, lane, thread, sum);
    climb(r, lane, mine);
}

/* ---- sums of several ranks ---- */

/* A level of the tree, of n nodes: `up` steps above the lanes; node i has LanePool.slot[base + i].
 */
typedef struct Level {
    int up, n, base;
} Level;

static int first_lane(Level l, int i) { return i << l.up; }

/* Whether climb has seen to it: all its lanes are ours. */
static bool is_ours(const SumRun *r, Level l, int i) {
    const int end = first_lane(l, i + 1);
    return first_lane(l, i) >= r->first && (end < r->lanes ? end : r->lanes) <= r->end;
}

static int owner(const SumRun *r, Level l, int i) {
    int rank = 0;
    while (r->pool->cuts[rank + 1] <= first_lane(l, i)) rank++;
    return rank;
}

/* Mostly it includes waiting for the other rank; the least does not. */
static void measure_sum(const SumRun *r, double seconds) {
    const double each = seconds / (double)(r->to - r->from);
    double *least = &r->pool->sum_seconds;
    if (*least == 0 || each < *least) *least = each;
}

/* The sum of nodes i and i + 1 for the owner of i, who gets its buffer; others -1. */
static int join(const SumRun *r, Level l, int i) {
    LanePool *p = r->pool;
    const int *slot = p->slot + l.base + i, left = owner(r, l, i), right = owner(r, l, i + 1);
    const size_t bytes = (r->to - r->from) * sizeof *r->total;
    const bool here = right == ranks_me();
    int other = here ? slot[1] : -1;
    if (left != ranks_me()) {
        if (here) ranks_send(left, buffer(p, other) + r->from, bytes);
        if (here) give_buffer(p, other);
        return -1;
    }
    const double start = clock_seconds();
    if (!here) {
        other = take_buffer(p, 0);
        ranks_receive(right, buffer(p, other) + r->from, bytes);
    }
    add_range(buffer(p, slot[0]), buffer(p, other), r->from, r->to);
    if (!here) measure_sum(r, clock_seconds() - start);
    give_buffer(p, other);
    return slot[0];
}

/* From the lanes upwards. All ranks go through the same pairs in the same order, so that nobody
 * waits for one who waits for him. */
static void join_ranks(const SumRun *r) {
    LanePool *p = r->pool;
    Level l = {0, r->lanes, 0};
    for (; l.n > 1; l.base += l.n, l.n = (l.n + 1) / 2, l.up++)
        for (int i = 0; i < l.n; i += 2) {
            const bool pair = i + 1 < l.n;
            if (is_ours(r, l, i) && (!pair || is_ours(r, l, i + 1))) continue;
            const int sum = pair ? join(r, l, i) : p->slot[l.base + i];
            if (owner(r, l, i) == ranks_me()) p->slot[l.base + l.n + i / 2] = sum;
        }
    if (ranks_me() == 0 && !is_ours(r, l, 0))
        add_range(r->total, buffer(p, p->slot[l.base]), r->from, r->to);
}

void lanes_sum(LanePool *p, int lanes, LaneSumJob *job, void *ctx, real *total, size_t from,
               size_t to) {
    REQUIRE(lanes > 0 && lanes <= p->lanes, "%d lanes, %d planned", lanes, p->lanes);
    p->nfree = 0;
    for (int i = lanes - 1; i >= 0; i--) p->free_list[p->nfree++] = i; /* low buffers first */
    for (int i = 0; i < tree_nodes(lanes); i++) p->slot[i] = -1;
    SumRun run = {p, job, ctx, total, from, to, lanes, 0, lanes};
    if (p->cuts) run.first = p->cuts[ranks_me()], run.end = p->cuts[ranks_me() + 1];
    const double start = clock_seconds();
    lanes_run_sharing(run.end - run.first, sum_lane, &run);
    p->seconds = clock_seconds() - start;
    if (p->cuts) join_ranks(&run);
}
