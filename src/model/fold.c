#include "model/fold.h"

#include "core/lanes.h"
#include "ops/linear.h"

enum { ROWS = 256, COLUMNS = 16, TABLES = 4 };

bool fold_applies(const Model *m) {
    return m->conf.d < m->conf.d_emb && m->conf.positions != POS_SINUSOIDAL &&
           model_dropout(m, DROPOUT_EMBED) <= 0;
}

void fold_layout(Fold *f, Arena *a, const Model *m) {
    const size_t d = (size_t)m->conf.d;
    const bool learned = m->conf.positions == POS_LEARNED;
    const size_t V = (size_t)m->task.vocab, T = learned ? (size_t)m->max_tokens : 0;
    f->on = fold_applies(m);
    if (!f->on) return;
    f->from = (m->embedding_reals - (V + T + 2) * d) / 16 * 16;
    f->dtok = f->from;
    f->dpos = f->dtok + V * d;
    f->dcls = f->dpos + T * d;
    f->dmask = f->dcls + d;
    f->tok = arena_reals(a, V * d);
    f->pos = learned ? arena_reals(a, T * d) : NULL;
    if (m->conf.pooling == POOL_CLS) f->cls = arena_reals(a, d);
    if (m->task.masks) f->mask = arena_reals(a, d);
}

/* A table of the embedding: the parameter at `at` (rows,d_emb), the gradient of its projection
 * among a batch's sums at `sum` (rows,d), and `projected` (rows,d). */
typedef struct Table {
    size_t at, sum;
    int rows;
    real *projected;
    bool bias;
} Table;

static int tables(Table *t, const Fold *f, const Model *m) {
    const bool learned = m->conf.positions == POS_LEARNED;
    int n = 0;
    t[n++] = (Table){m->tok, f->dtok, m->task.vocab, f->tok, !learned};
    if (learned) t[n++] = (Table){m->pos, f->dpos, m->max_tokens, f->pos, true};
    if (m->conf.pooling == POOL_CLS) t[n++] = (Table){m->cls, f->dcls, 1, f->cls, !learned};
    if (m->task.masks) t[n++] = (Table){m->mask, f->dmask, 1, f->mask, !learned};
    return n;
}

typedef struct Job {
    const Model *m;
    Table t;
    const real *w, *wt, *sums;
    real *grads;
} Job;

static int blocks(int n, int size) { return (n + size - 1) / size; }
static int block_size(int n, int size, int block) {
    return n - block * size < size ? n - block * size : size;
}

static void project_block(void *ctx, int block, int thread) {
    const Job *j = ctx;
    const int d = j->m->conf.d, D = j->m->conf.d_emb;
    const size_t r0 = (size_t)block * ROWS;
    linear_forward(j->t.projected + r0 * (size_t)d, d, j->w + j->t.at + r0 * (size_t)D, D,
                   j->wt + j->m->proj.w, j->t.bias ? j->w + j->m->proj.b : NULL, NULL,
                   block_size(j->t.rows, ROWS, block), D, d);
}

void fold_tables(const Fold *f, const Model *m, const real *w, const real *wt) {
    Table t[TABLES];
    for (int i = 0, n = tables(t, f, m); i < n; i++) {
        Job job = {.m = m, .t = t[i], .w = w, .wt = wt};
        lanes_run(blocks(t[i].rows, ROWS), project_block, &job);
    }
}

/* Rows of the table's gradient: d(table) += d(projected) W. */
static void table_block(void *ctx, int block, int thread) {
    const Job *j = ctx;
    const int d = j->m->conf.d, D = j->m->conf.d_emb;
    const size_t r0 = (size_t)block * ROWS;
    linear_backward_input(j->grads + j->t.at + r0 * (size_t)D, D,
                          j->sums + j->t.sum + r0 * (size_t)d, d, j->w + j->m->proj.w, true,
                          block_size(j->t.rows, ROWS, block), D, d);
}

/* Rows of W's gradient, some outputs of all tokens: dW += d(projected)^T table. */
static void weight_block(void *ctx, int block, int thread) {
    const Job *j = ctx;
    const int d = j->m->conf.d, D = j->m->conf.d_emb, c0 = block * COLUMNS;
    linear_backward_weight(j->grads + j->m->proj.w + (size_t)c0 * (size_t)D,
                           j->t.bias ? j->grads + j->m->proj.b + c0 : NULL, j->sums + j->t.sum + c0,
                           d, j->w + j->t.at, D, j->t.rows, D, block_size(d, COLUMNS, block));
}

void fold_gradients(const Fold *f, const Model *m, const real *w, const real *sums, real *grads) {
    Table t[TABLES];
    for (int i = 0, n = tables(t, f, m); i < n; i++) {
        Job job = {.m = m, .t = t[i], .w = w, .sums = sums, .grads = grads};
        lanes_run(blocks(t[i].rows, ROWS), table_block, &job);
        lanes_run(blocks(m->conf.d, COLUMNS), weight_block, &job);
    }
}
