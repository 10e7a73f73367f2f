/* Improved clustered attention (Vyas, Katharopoulos, Fleuret 2020, arXiv:2007.04825): as
 * clustered.c, and for the keys T that a cluster's centroid scores highest, top_k of them, each
 * member attends by itself. With A^c = softmax(Q^c K^T / tau) and m = sum_{j in T} A^c_j:
 *   R_i = m softmax_T(Q_i K_T^T / tau) V_T + sum_{j not in T} A^c_j V_j
 * The second sum is taken over what is not in T, since V^c minus a part would cancel. For every
 * query its weights are at most as far from exact attention's, in L1, as clustered attention's are
 * (the paper's theorem). No gradient passes through the choice of T. Time O(N C d + N top_k d), and
 * K-means as there; memory O(N d + C top_k). Saved for backward: R [N,d], the clusters, T
 * [h,C,top_k], m and the log-sum-exp of A^c [h,C], of each member's row on T [h,N]; Q, K and V
 * where kept. */
#include <math.h>

#include "attention/centroids.h"
#include "attention/cluster.h"
#include "core/gemm.h"
#include "ops/attend.h"
#include "ops/vec.h"
#include "ops/vmath.h"

typedef struct Improved {
    Clustered base;
    int top_k;
} Improved;

static const ConfigKey keys[] = {
    CENTROIDS_KEYS,
    {"top_k", KEY_INT, offsetof(Improved, top_k), "32", 1, 1 << 16, NULL,
     "keys that a cluster's queries attend to by themselves"},
    {0},
};

typedef struct State {
    int k; /* keys of T: no more than there are */
    AttnRows rows;
    Centroids centroids;
    AttendPack pack;  /* of centroids on keys */
    int *top;         /* (h,C,k) */
    real *mass, *lse; /* (h,C) */
    real *member_lse; /* (h,N) in the clusters' order */
} State;

static AttnMemory layout(State *o, const Improved *s, AttnMemory m, int N, bool backward) {
    const AttnShape *shape = &s->base.shape;
    attn_layout_rows(&o->rows, &attn_i_clustered, shape, &m, N, backward);
    centroids_layout(&o->centroids, &s->base, &m, N, backward);
    const size_t h = (size_t)shape->h, C = (size_t)o->centroids.C;
    o->k = s->top_k < N ? s->top_k : N;
    attend_layout(&o->pack, &m.scratch, o->centroids.C, N, shape->d, shape->e, backward);
    o->top = arena_ints(&m.saved, h * C * (size_t)o->k);
    o->mass = arena_reals(&m.saved, h * C);
    o->lse = arena_reals(&m.saved, h * C);
    o->member_lse = arena_reals(&m.saved, h * (size_t)N);
    return m;
}

/* Clusters that a job scores at once. */
enum { BLOCK = 16 };

typedef struct BlockJob {
    real *s, *ds;        /* (BLOCK,attend_stride) scores, then A^c; backward: gradients */
    ClusterScratch best; /* forward */
    AttendPack members;  /* of a cluster's members on T */
    AttendTiles tiles;
    real *o;            /* (padded N,e) forward: the members' own attention */
    real *rest;         /* (BLOCK,e) forward: the second sums */
    real *mass, *dmass; /* (N) backward: m of each member, and its gradient's parts */
    real *D;            /* (BLOCK) */
} BlockJob;

static void layout_block(BlockJob *j, const State *o, Arena *a, int N, bool backward) {
    const int e = o->pack.e;
    const size_t block = BLOCK * (size_t)attend_stride(N);
    attend_layout(&j->members, a, N, o->k, e, e, backward);
    j->members.ld = o->pack.d;
    attend_layout_tiles(&j->tiles, a, o->k, backward, true);
    j->s = arena_reals(a, block);
    if (backward) {
        j->ds = arena_reals(a, block);
        j->mass = arena_reals(a, (size_t)N);
        j->dmass = arena_reals(a, (size_t)N);
        j->D = arena_reals(a, BLOCK);
        return;
    }
    cluster_layout(&j->best, a, N);
    j->o = arena_reals(a, attend_padded(N) * (size_t)e);
    j->rest = arena_reals(a, (size_t)(BLOCK * e));
}

static AttnMemory needs(const void *self, int N, bool backward) {
    const Improved *s = self;
    State o = {0};
    BlockJob j = {0};
    AttnMemory choose = {0}, pass = layout(&o, s, (AttnMemory){0}, N, backward);
    centroids_layout_job(&s->base, &choose.job, N);
    layout_block(&j, &o, &pass.job, N, backward);
    return attn_either(choose, pass);
}

/* ---- one block of clusters ---- */

static int blocks(const State *o) { return (o->centroids.C + BLOCK - 1) / BLOCK; }

/* Clusters c0.. of a block. */
static int block_size(const State *o, int c0) {
    return o->centroids.C - c0 < BLOCK ? o->centroids.C - c0 : BLOCK;
}

static size_t cell(const State *o, int head, int c) { return (size_t)(head * o->centroids.C + c); }
static int *top_keys(const State *o, int head, int c) {
    return o->top + cell(o, head, c) * (size_t)o->k;
}
static real *member_lse(const State *o, int head, int c) {
    const Centroids *x = &o->centroids;
    return o->member_lse + (centroids_members(x, head, c) - x->order);
}

/* Products go over keys in strips, which stay in the cache and are of few shapes. */
enum { STRIP_KEYS = 256 };
#define EACH_STRIP_OF_KEYS(j0, n, mp)                                                              \
    for (int j0 = 0, n; n = (mp)-j0 < STRIP_KEYS ? (mp)-j0 : STRIP_KEYS, j0 < (mp);                \
         j0 += STRIP_KEYS)

/* to (BLOCK,ldt) = rows c0.. of x (C,d), a head's columns, by all keys or values, transposed. Rows
 * beyond the last cluster are zeros. */
static void scores(const AttendPack *p, real *to, const real *x, const real *transposed, int head,
                   int c0) {
    const size_t at = (size_t)(head * p->e), ld = (size_t)p->ldt;
    EACH_STRIP_OF_KEYS (j0, n, p->mp)
        gemm_nn(to + j0, p->ldt, x + (size_t)c0 * (size_t)p->d + at, p->d,
                transposed + at * ld + j0, p->ldt, BLOCK, n, p->e, false);
}

static void pack_members(const State *o, BlockJob *j, int head, int c) {
    const int at = head * o->pack.e;
    real *const *qkv = o->rows.qkv;
    attend_pack_queries(&j->members, qkv[ATTN_Q] + at, centroids_members(&o->centroids, head, c),
                        centroids_size(&o->centroids, head, c));
    attend_pack_keys(&j->members, qkv[ATTN_K] + at, qkv[ATTN_V] + at, top_keys(o, head, c), o->k);
}

/* ---- forward ---- */

/* From a row of scores to what A^c has outside of T; m and the log-sum-exp. */
static void split_row(const State *o, const BlockJob *j, real *s, int head, int c) {
    const int N = o->pack.m, *top = top_keys(o, head, c);
    real mass = 0;
    cluster_top_k(top_keys(o, head, c), s, &j->best, N, o->k);
    const real shift = s[top[0]], sum = vmath_exp_sum(s, s, shift, N), by = 1 / sum;
    EACH_VEC(i, left, N, vec_store(s + i, by * vec_load(s + i, left), left));
    for (int i = 0; i < o->k; i++) {
        mass += s[top[i]];
        s[top[i]] = 0;
    }
    o->mass[cell(o, head, c)] = mass;
    o->lse[cell(o, head, c)] = shift + (real)log((double)sum);
}

/* R of the members: m of their own attention, and the second sum. */
static void members_forward(const State *o, BlockJob *j, int head, int c, const real *rest) {
    const int d = o->pack.d, e = o->pack.e, *list = centroids_members(&o->centroids, head, c);
    const real mass = o->mass[cell(o, head, c)];
    pack_members(o, j, head, c);
    j->members.o = j->o;
    attend_forward(&j->members, &j->tiles, 0, 0, j->members.n, member_lse(o, head, c),
                   ATTN_SOFTMAX);
    for (int i = 0; i < j->members.n; i++) {
        real *r = o->rows.r + (size_t)list[i] * (size_t)d + head * e;
        vec_copy(r, rest, e);
        vec_add_scaled(r, j->o + (size_t)i * (size_t)e, mass, e);
    }
}

static void forward_block(const void *ctx, int job, Arena scratch) {
    const State *o = ctx;
    const AttendPack *p = &o->pack;
    const int head = job / blocks(o), c0 = job % blocks(o) * BLOCK, mp = p->mp;
    BlockJob j = {0};
    layout_block(&j, o, &scratch, p->m, false);
    scores(p, j.s, p->q, p->kt, head, c0);
    for (int i = 0; i < BLOCK; i++) {
        real *s = j.s + (size_t)i * (size_t)p->ldt;
        const bool used = i < block_size(o, c0) && centroids_size(&o->centroids, head, c0 + i) > 0;
        if (used) split_row(o, &j, s, head, c0 + i);
        for (int n = used ? p->m : 0; n < mp; n++) s[n] = 0;
    }
    EACH_STRIP_OF_KEYS (j0, n, mp)
        gemm_nn(j.rest, p->e, j.s + j0, p->ldt, p->v + (size_t)j0 * (size_t)p->d + head * p->e,
                p->d, BLOCK, p->e, n, j0 > 0);
    for (int i = 0; i < block_size(o, c0); i++)
        if (centroids_size(&o->centroids, head, c0 + i) > 0)
            members_forward(o, &j, head, c0 + i, j.rest + i * p->e);
}

/* The top keys of a cluster, which its members see exactly. */
static void tell_cluster(const State *o, AttnTrace *trace, int head, int c) {
    const int h = o->pack.d / o->pack.e, size = centroids_size(&o->centroids, head, c),
              *members = centroids_members(&o->centroids, head, c), *top = top_keys(o, head, c);
    for (int i = 0; i < o->k && size > 0; i++) {
        attn_trace_choice(trace, (h + head) * o->centroids.C + c, top[i]);
        for (int j = 0; trace->seen && j < size; j++)
            attn_trace_sees(trace, head, members[j], top[i]);
    }
}

static void tell(const State *o, AttnTrace *trace) {
    for (int head = 0; head < o->pack.d / o->pack.e; head++)
        for (int c = 0; c < o->centroids.C; c++) tell_cluster(o, trace, head, c);
}

static void open(State *o, const Improved *s, const AttnCall *c, bool backward) {
    layout(o, s, c->memory, c->N, backward);
    centroids_open(&o->centroids, &o->rows, &o->pack, c, backward);
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    attn_each(c, o.pack.d / o.pack.e * blocks(&o), forward_block, NULL, &o);
    if (c->trace) tell(&o, c->trace);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

/* ---- backward ---- */

/* Through the members' own attention; returns the gradient of m. */
static real members_backward(const State *o, BlockJob *j, int head, int c) {
    const int at = head * o->pack.e, size = centroids_size(&o->centroids, head, c);
    real *const *dqkv = o->rows.dqkv;
    for (int i = 0; i < size; i++) j->mass[i] = o->mass[cell(o, head, c)];
    pack_members(o, j, head, c);
    attend_pack_backward(&j->members, o->rows.dr + at);
    attend_backward(&j->members, &j->tiles, 0, j->dmass, j->mass, member_lse(o, head, c),
                    ATTN_SOFTMAX);
    attend_unpack(&j->members, dqkv[ATTN_Q] + at, dqkv[ATTN_K] + at, dqkv[ATTN_V] + at);
    return vec_total(j->dmass, size);
}

/* dA^c_j is <drest, V_j>, but dm in T; dS = A (dA - <A, dA>). Then A becomes what it is outside of
 * T, for dV. Columns of the padding meet zero rows of keys. */
static void block_backward(const State *o, BlockJob *j, int head, int c0) {
    const AttendPack *p = &o->pack;
    const int mp = p->mp, ld = p->ldt;
    real lse[BLOCK] = {0};
    scores(p, j->s, p->q, p->kt, head, c0);
    scores(p, j->ds, p->go, p->vt, head, c0);
    for (int i = 0; i < BLOCK; i++) {
        real *s = j->s + (size_t)i * (size_t)ld, *ds = j->ds + (size_t)i * (size_t)ld;
        const bool used = i < block_size(o, c0) && centroids_size(&o->centroids, head, c0 + i) > 0;
        if (used) lse[i] = o->lse[cell(o, head, c0 + i)];
        const real dm = used ? members_backward(o, j, head, c0 + i) : 0;
        for (int n = used ? p->m : 0; n < mp; n++) s[n] = lse[i];
        for (int t = 0; t < o->k && used; t++) ds[top_keys(o, head, c0 + i)[t]] = dm;
    }
    vmath_softmax_rows(j->s, j->ds, j->D, lse, NULL, (VmathTile){BLOCK, mp, ld});
    for (int i = 0; i < block_size(o, c0); i++)
        for (int t = 0; t < o->k && centroids_size(&o->centroids, head, c0 + i) > 0; t++)
            j->s[(size_t)i * (size_t)ld + (size_t)top_keys(o, head, c0 + i)[t]] = 0;
}

static void backward_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const AttendPack *p = &o->pack;
    const int at = head * p->e, d = p->d, e = p->e, mp = p->mp;
    BlockJob j = {0};
    layout_block(&j, o, &scratch, p->m, true);
    for (int c0 = 0; c0 < o->centroids.C; c0 += BLOCK) {
        const size_t row = (size_t)c0 * (size_t)d + (size_t)at;
        block_backward(o, &j, head, c0);
        EACH_STRIP_OF_KEYS (j0, n, mp) {
            const size_t key = (size_t)j0 * (size_t)d + (size_t)at;
            gemm_nn(p->dq + row, d, j.ds + j0, p->ldt, p->k + key, d, BLOCK, e, n, j0 > 0);
            gemm_tn(p->dk + key, d, j.ds + j0, p->ldt, p->q + row, d, n, e, BLOCK, c0 > 0);
            gemm_tn(p->dv + key, d, j.s + j0, p->ldt, p->go + row, d, n, e, BLOCK, c0 > 0);
        }
    }
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    centroids_share(&o.centroids, &o.pack);
    attn_each(c, o.pack.d / o.pack.e, backward_head, NULL, &o);
    centroids_close(&o.centroids, &o.pack);
}

/* Hashes; scores, and values, of centroids on keys and of queries on T. */
static double flops(const void *self, int N) {
    const Improved *s = self;
    const double n = N, C = s->base.clusters < N ? s->base.clusters : n,
                 k = s->top_k < N ? s->top_k : n;
    return 2 * n * s->base.shape.d * (s->base.bits + 2 * C + 2 * k);
}

const AttnMech attn_i_clustered = {
    .name = "i-clustered",
    .title = "clustered, and each query's own attention on its centroid's top keys",
    .time = "O(N (C + top_k))",
    .memory = "O(N)",
    .reference = "arXiv:2007.04825",
    .projections = ATTN_QKVO,
    .subset = true,
    .keys = keys,
    .self_size = sizeof(Improved),
    .params = centroids_params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .groups = centroids_groups,
};
