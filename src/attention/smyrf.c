/* SMYRF: clusters of equal size by asymmetric transformations (Daras, Kitaev, Odena, Dimakis 2020,
 * arXiv:2010.05315). Head by head, with M_Q and M_K the largest norms of the sequence's queries and
 * keys, and s(x) = sqrt(max(0, M_Q^2 + M_K^2 - |x|^2)):
 *   q^ = [q; 0; s(q)],  k^ = [k; s(k); 0]
 * In each round queries and keys are sorted by their projection on a direction [e+2], drawn once,
 * and cut into chunks of cluster_size, the last of which may be shorter; the c-th chunk of queries
 * attends to the c-th of keys. (The reference adds one random offset to all, and never floors: it
 * changes nothing.) Rounds are merged by their log-sum-exp (rounds.h). Time O(rounds N
 * cluster_size d), memory O(N d). Saved for backward: R [N,d], the orders [rounds,h,N] of
 * queries and keys, the log-sum-exp of each row; Q, K and V where kept. */
#include "attention/cluster.h"
#include "attention/rounds.h"
#include "ops/vec.h"

typedef struct Smyrf {
    AttnShape shape;
    int rounds, cluster_size;
} Smyrf;

#define AT(field) offsetof(Smyrf, field)
static const ConfigKey keys[] = {
    {"rounds", KEY_INT, AT(rounds), "4", 1, 16, NULL, "rounds of hashing"},
    {"cluster_size", KEY_INT, AT(cluster_size), "64", 1, 1 << 20, NULL,
     "queries of a cluster, and keys"},
    {0},
};

static int params(const void *self, ParamSpec *specs) {
    const Smyrf *s = self;
    if (specs)
        specs[0] = (ParamSpec){"directions",
                               3,
                               {s->rounds, s->shape.h, s->shape.e + 2},
                               {INIT_NORMAL, 1},
                               PARAM_DRAWN};
    return 1;
}

static void groups(const void *self, int *rounds, bool *apart) {
    *rounds = ((const Smyrf *)self)->rounds;
    *apart = true;
}

typedef struct State {
    const Smyrf *s;
    const AttnCall *call;
    AttnRows rows;
    Rounds rounds;
} State;

/* Of a job that sorts. */
typedef struct SortJob {
    ClusterScratch sort;
    real *square[2]; /* (N) |q|^2 and |k|^2 */
    real *score;     /* (N) */
} SortJob;

static void layout_sort(SortJob *j, Arena *a, int N) {
    cluster_layout(&j->sort, a, N);
    for (int i = 0; i < 2; i++) j->square[i] = arena_reals(a, (size_t)N);
    j->score = arena_reals(a, (size_t)N);
}

static AttnMemory layout(State *o, const Smyrf *s, AttnMemory m, int N, bool backward) {
    o->s = s;
    attn_layout_rows(&o->rows, &attn_smyrf, &s->shape, &m, N, backward);
    rounds_layout(&o->rounds, &s->shape, &m, N, s->rounds, true, backward);
    return m;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    AttnMemory sort = {0};
    layout_sort(&(SortJob){0}, &sort.job, N);
    return attn_either(sort, layout(&(State){0}, self, (AttnMemory){0}, N, backward));
}

/* ---- the choice ---- */

static const real *row(const State *o, int side, int n, int head) {
    const size_t at = (size_t)n * (size_t)o->s->shape.d + (size_t)(head * o->s->shape.e);
    return o->rows.qkv[side == ROUND_KEYS ? ATTN_K : ATTN_Q] + at;
}

/* Squares of norms of a side; returns the largest. */
static real squares(const State *o, real *square, int side, int head) {
    real most = 0;
    for (int n = 0; n < o->call->N; n++) {
        const real *x = row(o, side, n, head);
        square[n] = vec_dot(x, x, o->s->shape.e);
        most = square[n] > most ? square[n] : most;
    }
    return most;
}

/* Ascending: a sort puts the best first, so scores are negative. */
static void sort_job(const void *ctx, int job, Arena scratch) {
    const State *o = ctx;
    const int h = o->s->shape.h, e = o->s->shape.e, round = job / h, head = job % h, N = o->call->N;
    const real *a = attn_own(o->call, 0) + (size_t)job * (size_t)(e + 2);
    SortJob j;
    layout_sort(&j, &scratch, N);
    real both = 0;
    for (int side = 0; side < 2; side++) both += squares(o, j.square[side], side, head);
    for (int side = 0; side < 2; side++) {
        const real along = a[side == ROUND_KEYS ? e : e + 1];
        for (int n = 0; n < N; n++) {
            const real rest = both - j.square[side][n];
            j.score[n] =
                -(vec_dot(row(o, side, n, head), a, e) + along * REAL_SQRT(rest > 0 ? rest : 0));
        }
        cluster_order(rounds_order(&o->rounds, side, round, head), j.score, &j.sort, N);
    }
}

/* ---- the sublayer ---- */

static void open(State *o, const Smyrf *s, const AttnCall *c, bool backward) {
    layout(o, s, c->memory, c->N, backward);
    o->call = o->rounds.call = c;
    o->rounds.rows = &o->rows;
    o->rounds.k = o->rows.qkv[ATTN_K], o->rounds.dk = o->rows.dqkv[ATTN_K];
    o->rounds.band = (AttendBand){.block = s->cluster_size};
    if (!backward || !s->shape.keep) attn_project(c, &o->rows, c->X, c->N);
    if (!backward) attn_each(c, s->rounds * s->shape.h, sort_job, NULL, o);
    if (!backward || !s->shape.keep) attn_turn(c, &o->rows, &s->shape, c->N);
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    rounds_trace(&o.rounds, o.s->cluster_size);
    rounds_forward(&o.rounds);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    attn_output_backward(c, &o.rows, c->dY, c->N);
    rounds_backward(&o.rounds);
    attn_close_rows(c, &o.rows, &o.s->shape);
}

/* Projections on directions; scores, and values, of a chunk. */
static double flops(const void *self, int N) {
    const Smyrf *s = self;
    const double n = N, seen = s->cluster_size < N ? s->cluster_size : n;
    return 2 * s->rounds * n * s->shape.d * (2 + 2 * seen);
}

const AttnMech attn_smyrf = {
    .name = "smyrf",
    .title = "clusters of equal size by asymmetric hashes",
    .time = "O(rounds N cluster_size)",
    .memory = "O(rounds N)",
    .reference = "arXiv:2010.05315",
    .projections = ATTN_QKVO,
    .subset = true,
    .keys = keys,
    .self_size = sizeof(Smyrf),
    .params = params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .groups = groups,
};
