#include "attention/cast_mix.h"

#include <string.h>

#include "core/gemm.h"
#include "ops/attnfn.h"
#include "ops/vec.h"

void cast_layout_mix(const Cast *s, Arena *job) { arena_reals(job, (size_t)s->shape.d * BLOCK); }

/* ---- mixing weights A_sum, step 7 ---- */

static void mix_block(const void *ctx, int i, Arena scratch) {
    const CastState *v = ctx;
    const Block b = cast_block(i, v->clustered, v->N);
    for (int head = 0; head < v->s->shape.h; head++)
        attnfn_columns((AttnFn)v->s->fn, cast_scores_of(v->asum, v->s, b, head),
                       cast_scores_of(v->aq, v->s, b, head), v->query_scale + b.at * BLOCK, BLOCK,
                       v->s->clusters, BLOCK);
    if (v->outside != v->asum)
        memcpy(cast_scores_of(v->outside, v->s, b, 0), cast_scores_of(v->asum, v->s, b, 0),
               cast_block_reals(v->s) * sizeof(real));
}

/* A cluster's members keep their mixing weights, which become 0 in `outside`. */
static void split_members(const void *ctx, int c, Arena scratch) {
    const CastState *v = ctx;
    const int *list = cast_list(v, c);
    for (int head = 0; head < v->s->shape.h; head++) {
        real *mix = cast_members(v, v->member_mix, c, head);
        for (int i = 0; i < v->size[c]; i++) {
            const size_t at = cast_score_at(v->s, list[i], head * v->s->clusters + c);
            mix[i] = v->outside[at];
            v->outside[at] = 0;
        }
    }
}

void cast_mix(const CastState *v) {
    attn_each(v->call, cast_row_blocks(v), mix_block, NULL, v);
    attn_each(v->call, v->s->clusters, split_members, NULL, v);
}

/* ---- the sum over other clusters, step 8 ---- */

/* The table R_inter W_o. */
static void output_table(const void *ctx, int head, Arena scratch) {
    const CastState *v = ctx;
    cast_table(v->table, v->s, v->rinter, v->call->proj[ATTN_O].wt, head);
}

/* The output of tokens in no cluster: summaries are all that they get. */
static void skipped_output(const CastState *v, Block b, Arena scratch) {
    const int d = v->call->d, rows = v->s->shape.h * v->s->clusters;
    const real *bias = v->call->proj[ATTN_O].b;
    real *y = arena_reals(&scratch, (size_t)d * BLOCK);
    gemm_tn(y, d, cast_scores_of(v->outside, v->s, b, 0), BLOCK, v->table, d, b.rows, d, rows,
            false);
    for (int r = 0; r < b.rows; r++) {
        const size_t at = (size_t)v->order[b.n0 + r] * (size_t)d;
        vec_add(v->call->Y + at, y + r * d, bias, d);
        if (v->call->base) vec_add(v->call->Y + at, v->call->base + at, v->call->Y + at, d);
    }
}

/* R += sum over the clusters that do not hold n of A_sum R_inter. */
static void summaries_block(const void *ctx, int i, Arena scratch) {
    const CastState *v = ctx;
    const int d = v->call->d, e = v->s->shape.e, C = v->s->clusters;
    const Block b = cast_block(i, v->clustered, v->N);
    if (b.n0 >= v->clustered) {
        skipped_output(v, b, scratch);
        return;
    }
    real *R = v->rows.r + (size_t)b.n0 * (size_t)d;
    for (int head = 0; head < v->s->shape.h; head++)
        gemm_tn(R + head * e, d, cast_scores_of(v->outside, v->s, b, head), BLOCK,
                v->rinter + head * e, d, b.rows, e, C, true);
}

/* dA_sum as it is where no cluster holds the token. */
static void summaries_backward_block(const void *ctx, int i, Arena scratch) {
    const CastState *v = ctx;
    const int d = v->call->d, e = v->s->shape.e, C = v->s->clusters, h = v->s->shape.h;
    const Block b = cast_block(i, v->clustered, v->N);
    real *turned = arena_reals(&scratch, (size_t)d * BLOCK);
    cast_turn(turned, b.n0 < v->clustered ? v->rows.dr : v->dy, b, d);
    if (b.n0 >= v->clustered) {
        gemm_nn(cast_scores_of(v->dasum, v->s, b, 0), BLOCK, v->table, d, turned, BLOCK, h * C,
                BLOCK, d, false);
        return;
    }
    for (int head = 0; head < h; head++)
        gemm_nn(cast_scores_of(v->dasum, v->s, b, head), BLOCK, v->rinter + head * e, d,
                turned + head * e * BLOCK, BLOCK, C, BLOCK, e, false);
}

/* Sums over rows: a head's columns of dR_inter, of skipped rows through the table R_inter W_o. */
static void summaries_backward_head(const void *ctx, int head, Arena scratch) {
    const CastState *v = ctx;
    const AttnLinear *o = &v->call->proj[ATTN_O];
    const int d = v->call->d, e = v->s->shape.e, C = v->s->clusters;
    real *dtable = cast_table_of(v->dtable, v->s, head), *drinter = v->drinter + head * e;
    for (int i = 0; i < cast_row_blocks(v); i++) {
        const Block b = cast_block(i, v->clustered, v->N);
        const size_t at = (size_t)b.n0 * (size_t)d;
        const real *outside = cast_scores_of(v->outside, v->s, b, head);
        if (b.n0 < v->clustered)
            gemm_nn(drinter, d, outside, BLOCK, v->rows.dr + at + head * e, d, C, e, b.rows, i > 0);
        else
            gemm_nn(dtable, d, outside, BLOCK, v->dy + at, d, C, d, b.rows, b.n0 > v->clustered);
    }
    if (v->clustered == v->N) return;
    gemm_nn(drinter, d, dtable, d, o->w + head * e, d, C, e, d, true);
    gemm_tn(o->dw + head * e, d, dtable, d, v->rinter + head * e, d, d, e, C, true);
}

void cast_summaries(const CastState *v) {
    if (v->skips) attn_each(v->call, v->s->shape.h, output_table, NULL, v);
    if (v->s->summaries || v->skips)
        attn_each(v->call, cast_row_blocks(v), summaries_block, NULL, v);
}

void cast_summaries_backward(const CastState *v) {
    const AttnCall *c = v->call;
    if (!v->s->summaries) {
        memset(v->dasum, 0, (size_t)cast_row_blocks(v) * cast_block_reals(v->s) * sizeof(real));
        return;
    }
    if (v->skips) attn_each(c, v->s->shape.h, output_table, NULL, v);
    attn_each(c, cast_row_blocks(v), summaries_backward_block, NULL, v);
    attn_each(c, v->s->shape.h, summaries_backward_head, NULL, v);
}

/* ---- mixing weights, backward ---- */

/* dphi += <dz, A_q> sig / tau, then dz *= softplus1(phi) / tau: dz becomes the gradient of A_q. */
static void mix_factor(const CastState *v, real *dz, const real *aq, Block b) {
    real dot[BLOCK] = {0};
    const real *scale = v->query_scale + b.at * BLOCK, *sig = v->sig + b.at * BLOCK;
    for (int c = 0; c < v->s->clusters; c++)
#pragma omp simd
        for (int i = 0; i < BLOCK; i++) {
            dot[i] += dz[c * BLOCK + i] * aq[c * BLOCK + i];
            dz[c * BLOCK + i] *= scale[i];
        }
    for (int i = 0; i < BLOCK; i++)
        v->dphi[b.at * BLOCK + i] += dot[i] * sig[i] * cast_inv_tau(v->s);
}

/* From the gradient of A_sum to those of phi and A_q, and on to the rows of Q, or of X through the
 * table S W_q. */
static void mix_backward_block(const void *ctx, int i, Arena scratch) {
    const CastState *v = ctx;
    const AttnCall *c = v->call;
    const Cast *s = v->s;
    const int d = c->d, e = s->shape.e, C = s->clusters, h = s->shape.h;
    const Block b = cast_block(i, v->clustered, v->N);
    const size_t at = (size_t)b.n0 * (size_t)d;
    for (int head = 0; head < h; head++) {
        real *dz = cast_scores_of(v->dasum, s, b, head), *aq = cast_scores_of(v->aq, s, b, head);
        attnfn_columns_backward((AttnFn)s->fn, dz, dz, cast_scores_of(v->asum, s, b, head), aq,
                                v->query_scale + b.at * BLOCK, BLOCK, C, BLOCK);
        mix_factor(v, dz, aq, b);
        if (b.n0 < v->clustered)
            gemm_tn(v->rows.dqkv[ATTN_Q] + at + head * e, d, dz, BLOCK,
                    attn_own(c, SURROGATE) + head * e, d, b.rows, e, C, true);
    }
    if (b.n0 >= v->clustered)
        gemm_tn(v->dx + at, d, cast_scores_of(v->dasum, s, b, 0), BLOCK, v->table, d, b.rows, d,
                h * C, false);
}

/* From the gradients of the table S W_q and its bias S b_q to W_q, b_q and S. */
static void query_table_backward(const CastState *v, int head) {
    const AttnCall *c = v->call;
    const int d = c->d, e = v->s->shape.e, C = v->s->clusters;
    const real *dtable = cast_table_of(v->dtable, v->s, head), *dbias = v->dbias + head * C;
    const real *S = attn_own(c, SURROGATE) + head * e;
    const AttnLinear *q = &c->proj[ATTN_Q];
    gemm_tn(q->dw + (size_t)(head * e) * (size_t)d, d, S, d, dtable, d, e, d, C, true);
    gemm_tn(q->db + head * e, e, dbias, 1, S, d, 1, e, C, true);
    if (!cast_learns(v->s)) return;
    real *dS = attn_own_grad(c, SURROGATE) + head * e;
    gemm_nn(dS, d, dtable, d, q->wt + head * e, d, C, e, d, true);
    gemm_nn(dS, d, dbias, 1, q->b + head * e, e, C, e, 1, true);
}

/* Sums over rows: a head's columns of dS, and its rows of the table's gradient. */
static void mix_backward_head(const void *ctx, int head, Arena scratch) {
    const CastState *v = ctx;
    const AttnCall *c = v->call;
    const int d = c->d, e = v->s->shape.e, C = v->s->clusters;
    const bool skipped = v->clustered < v->N;
    real *dtable = cast_table_of(v->dtable, v->s, head), *dbias = v->dbias + head * C;
    if (skipped) {
        memset(dtable, 0, (size_t)C * (size_t)d * sizeof *dtable);
        memset(dbias, 0, (size_t)C * sizeof *dbias);
    }
    for (int i = 0; i < cast_row_blocks(v); i++) {
        const Block b = cast_block(i, v->clustered, v->N);
        const size_t at = (size_t)b.n0 * (size_t)d;
        const real *dz = cast_scores_of(v->dasum, v->s, b, head);
        if (b.n0 >= v->clustered) {
            gemm_nn(dtable, d, dz, BLOCK, v->x + at, d, C, d, b.rows, true);
            for (int r = 0; r < C; r++) dbias[r] += vec_total(dz + r * BLOCK, b.rows);
        } else if (cast_learns(v->s)) {
            gemm_nn(attn_own_grad(c, SURROGATE) + head * e, d, dz, BLOCK,
                    v->rows.qkv[ATTN_Q] + at + head * e, d, C, e, b.rows, true);
        }
    }
    if (skipped) query_table_backward(v, head);
}

static void query_table(const void *ctx, int head, Arena scratch) {
    const CastState *v = ctx;
    cast_table(v->table, v->s, attn_own(v->call, SURROGATE), v->call->proj[ATTN_Q].w, head);
}

/* ---- phi ---- */

/* Rows of dX: clustered ones begin here, skipped ones have what came through the table. */
static void gate_block(const void *ctx, int i, Arena scratch) {
    const CastState *v = ctx;
    const Block b = cast_block(i, v->clustered, v->N);
    gemm_nn(v->dx + (size_t)b.n0 * (size_t)v->call->d, v->call->d, v->dphi + b.at * BLOCK, 1,
            attn_own(v->call, PHI_WEIGHT), v->call->d, b.rows, v->call->d, 1, b.n0 >= v->clustered);
}

static void gate_backward(const CastState *v) {
    const AttnCall *c = v->call;
    real sum = 0;
    attn_each(c, cast_row_blocks(v), gate_block, NULL, v);
    for (int i = 0; i < cast_row_blocks(v); i++) {
        const Block b = cast_block(i, v->clustered, v->N);
        const real *dphi = v->dphi + b.at * BLOCK;
        gemm_tn(attn_own_grad(c, PHI_WEIGHT), c->d, dphi, 1, v->x + (size_t)b.n0 * (size_t)c->d,
                c->d, 1, c->d, b.rows, true);
        for (int j = 0; j < b.rows; j++) sum += dphi[j];
    }
    *attn_own_grad(c, PHI_BIAS) += sum;
}

void cast_mix_backward(const CastState *v) {
    if (v->skips) attn_each(v->call, v->s->shape.h, query_table, NULL, v);
    attn_each(v->call, cast_row_blocks(v), mix_backward_block, NULL, v);
    attn_each(v->call, v->s->shape.h, mix_backward_head, NULL, v);
    gate_backward(v);
}
