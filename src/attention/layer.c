#include "attention/layer.h"

#include <string.h>

#include "core/lanes.h"
#include "core/log.h"
#include "ops/attend.h"
#include "ops/linear.h"
#include "ops/rope.h"
#include "ops/vec.h"

typedef struct Each {
    AttnJob *job, *finish;
    const void *ctx;
    const Arena *jobs;
} Each;

static void shared_job(const void *ctx, int i, int thread) {
    const Each *e = ctx;
    e->job(e->ctx, i, e->jobs[thread]);
}

static void shared_finish(const void *ctx, int i, int thread) {
    const Each *e = ctx;
    e->finish(e->ctx, i, e->jobs[thread]);
}

void attn_each(const AttnCall *c, int jobs, AttnJob *job, AttnJob *finish, const void *ctx) {
    if (c->jobs) {
        lanes_share(jobs, shared_job, finish ? shared_finish : NULL,
                    &(Each){job, finish, ctx, c->jobs});
        return;
    }
    for (int i = 0; i < jobs; i++) {
        job(ctx, i, c->memory.job);
        if (finish) finish(ctx, i, c->memory.job);
    }
}

/* A tile of rows that have no place of their own yet. */
static real *layout_tile(Arena *job, int d) { return arena_reals(job, ATTN_TILE * (size_t)d); }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

AttnMemory attn_either(AttnMemory a, AttnMemory b) {
    return (AttnMemory){.saved.used = larger(a.saved.used, b.saved.used),
                        .scratch.used = larger(a.scratch.used, b.scratch.used),
                        .job.used = larger(a.job.used, b.job.used)};
}

AttnMemory attn_memory(const AttnMech *m, const void *self, int N) {
    AttnMemory kit = {0};
    layout_tile(&kit.job, ((const AttnShape *)self)->d);
    return attn_either(kit, attn_either(m->needs(self, N, false), m->needs(self, N, true)));
}

static void layout_three(real *to[3], const AttnMech *m, Arena *a, size_t reals) {
    for (int i = 0; i < 3; i++) to[i] = m->projections & ATTN_HAS(i) ? arena_reals(a, reals) : NULL;
}

void attn_layout_rows(AttnRows *rows, const AttnMech *m, const AttnShape *s, AttnMemory *memory,
                      int n, bool backward) {
    const size_t d = (size_t)s->d, all = (size_t)n * d;
    layout_three(rows->qkv, m, s->keep ? &memory->saved : &memory->scratch, all);
    rows->r = arena_reals(&memory->saved, attend_padded(n) * d);
    if (!backward) return;
    rows->dr = arena_reals(&memory->scratch, all);
    layout_three(rows->dqkv, m, &memory->scratch, all);
    for (int i = 0; i < 3; i++)
        if (rows->dqkv[i]) memset(rows->dqkv[i], 0, all * sizeof(real));
}

/* ---- rows through projections ---- */

/* Up to three projections of n rows x, to y; backward: dx from dy. */
typedef struct Product {
    const AttnLinear *proj;
    int count, n, d;
    const real *x, *dy[3];
    real *y[3], *dx;
    bool add;         /* to dx */
    const int *list;  /* rows of y; NULL: in order */
    const real *base; /* what is added in y; NULL: nothing */
} Product;

static void run_jobs(const AttnCall *c, int jobs, AttnJob *job, const Product *p) {
    const double start = c->meter ? clock_seconds() : 0;
    attn_each(c, jobs, job, NULL, p);
    if (c->meter) c->meter->seconds -= clock_seconds() - start;
}

/* A tile of rows to where the list has them in y. */
static void put_tile(const Product *p, const real *tile, int r0, int n) {
    const int d = p->d;
    for (int r = 0; r < n; r++) {
        const size_t at = (size_t)p->list[r0 + r] * (size_t)d;
        if (p->base)
            vec_add(p->y[0] + at, p->base + at, tile + r * d, d);
        else
            vec_copy(p->y[0] + at, tile + r * d, d);
    }
}

static void forward_tile(const void *ctx, int tile, Arena scratch) {
    const Product *p = ctx;
    const int d = p->d, r0 = tile * ATTN_TILE, n = attn_tile_rows(p->n, tile);
    const size_t at = (size_t)r0 * (size_t)d;
    for (int i = 0; i < p->count; i++) {
        if (!p->y[i]) continue;
        real *y = p->list ? layout_tile(&scratch, d) : p->y[i] + at;
        linear_forward(y, d, p->x + at, d, p->proj[i].wt, p->proj[i].b,
                       p->base && !p->list ? p->base + at : NULL, n, d, d);
        if (p->list) put_tile(p, y, r0, n);
    }
}

void attn_project(const AttnCall *c, const AttnRows *rows, const real *x, int n) {
    Product p = {.proj = c->proj, .count = 3, .n = n, .d = c->d, .x = x};
    for (int i = 0; i < 3; i++) p.y[i] = rows->qkv[i];
    run_jobs(c, attn_tiles(n), forward_tile, &p);
}

typedef struct Turn {
    real *const *rows; /* by AttnProjection: q and k, where they are */
    const real *table;
    const AttnShape *s;
    int n;
    void (*turn)(const Rope *rope, real *x, const int *rows, int n, int h, int e);
} Turn;

static void turn_tile(const void *ctx, int tile, Arena scratch) {
    const Turn *t = ctx;
    const int r0 = tile * ATTN_TILE, n = attn_tile_rows(t->n, tile), d = t->s->d;
    const Rope rope = {t->table + rope_reals(r0, t->s->e), NULL};
    for (int i = ATTN_Q; i <= ATTN_K; i++)
        if (t->rows[i])
            t->turn(&rope, t->rows[i] + (size_t)r0 * (size_t)d, NULL, n, t->s->h, t->s->e);
}

void attn_turn(const AttnCall *c, const AttnRows *rows, const AttnShape *s, int n) {
    const Turn t = {rows->qkv, c->rope, s, n, rope_turn};
    if (c->rope) attn_each(c, attn_tiles(n), turn_tile, NULL, &t);
}

/* Of turned ones the gradients. */
static void turn_back(const AttnCall *c, const AttnRows *rows, const AttnShape *s, int n) {
    const Turn t = {rows->dqkv, c->rope, s, n, rope_turn_back};
    if (c->rope) attn_each(c, attn_tiles(n), turn_tile, NULL, &t);
}

void attn_open_rows(const AttnCall *c, const AttnRows *rows, const AttnShape *s, bool backward) {
    if (backward && s->keep) return;
    attn_project(c, rows, c->X, c->N);
    attn_turn(c, rows, s, c->N);
}

void attn_close_rows(const AttnCall *c, const AttnRows *rows, const AttnShape *s) {
    turn_back(c, rows, s, c->N);
    attn_project_backward(c, rows, c->dX, false, c->X, c->N);
}

void attn_output(const AttnCall *c, const AttnRows *rows, real *y, const int *list, int n) {
    Product p = {.proj = &c->proj[ATTN_O], .count = 1, .n = n, .d = c->d, .x = rows->r, .y = {y}};
    p.list = list, p.base = c->base;
    run_jobs(c, attn_tiles(n), forward_tile, &p);
}

/* dX = dY W for a tile of rows. */
static void input_tile(const Product *p, int tile) {
    const size_t at = (size_t)tile * ATTN_TILE * (size_t)p->d;
    bool add = p->add;
    for (int i = 0; i < p->count; i++) {
        if (!p->dy[i]) continue;
        linear_backward_input(p->dx + at, p->d, p->dy[i] + at, p->d, p->proj[i].w, add,
                              attn_tile_rows(p->n, tile), p->d, p->d);
        add = true;
    }
}

/* dW = dY^T X for some outputs of one projection, over all rows in order. */
enum { SLICE = 128 };
static int slices(int d) { return (d + SLICE - 1) / SLICE; }

static void weight_slice(const Product *p, int slice) {
    const int d = p->d, i = slice / slices(d), from = slice % slices(d) * SLICE, left = d - from;
    const AttnLinear *to = &p->proj[i];
    for (int tile = 0; p->dy[i] && tile < attn_tiles(p->n); tile++) {
        const size_t at = (size_t)tile * ATTN_TILE * (size_t)d;
        linear_backward_weight(to->dw + (size_t)from * (size_t)d, to->db + from,
                               p->dy[i] + at + from, d, p->x + at, d, attn_tile_rows(p->n, tile), d,
                               left < SLICE ? left : SLICE);
    }
}

static void backward_job(const void *ctx, int job, Arena scratch) {
    const Product *p = ctx;
    const int tiles = attn_tiles(p->n);
    if (job < tiles)
        input_tile(p, job);
    else
        weight_slice(p, job - tiles);
}

void attn_project_backward(const AttnCall *c, const AttnRows *rows, real *dx, bool add,
                           const real *x, int n) {
    Product p = {.proj = c->proj, .count = 3, .n = n, .d = c->d, .x = x, .dx = dx, .add = add};
    for (int i = 0; i < 3; i++) p.dy[i] = rows->dqkv[i];
    run_jobs(c, attn_tiles(n) + 3 * slices(c->d), backward_job, &p);
}

void attn_output_backward(const AttnCall *c, const AttnRows *rows, const real *dy, int n) {
    Product p = {.proj = &c->proj[ATTN_O], .count = 1, .n = n, .d = c->d, .x = rows->r};
    p.dy[0] = dy, p.dx = rows->dr;
    run_jobs(c, attn_tiles(n) + slices(c->d), backward_job, &p);
}
