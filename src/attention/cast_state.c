#include "attention/cast_state.h"

#include <string.h>

#include "attention/cluster.h"
#include "core/gemm.h"
#include "ops/linear.h"

int cast_cluster_size(const Cast *s, int N) {
    if (s->cluster_size > 0) return s->cluster_size;
    int tokens = s->cluster_size == SIZE_FIXED ? s->shape.max_length : N;
    return (tokens + s->clusters - 1) / s->clusters;
}

int cast_places(const Cast *s, int N) {
    const int k = cast_cluster_size(s, N);
    return k < N ? k : N;
}

void cast_table(real *table, const Cast *s, const real *rows, const real *w, int head) {
    const int d = s->shape.d, e = s->shape.e, C = s->clusters;
    gemm_nn(cast_table_of(table, s, head), d, rows + head * e, d,
            w + (size_t)(head * e) * (size_t)d, d, C, d, e, false);
}

void cast_turn(real *to, const real *x, Block b, int d) {
    if (b.rows < BLOCK) memset(to, 0, (size_t)d * BLOCK * sizeof *to);
    transpose(to, BLOCK, x + (size_t)b.n0 * (size_t)d, d, b.rows, d);
}

/* Multiply-adds that skipping saves: of each token that no cluster holds, all twelve products of q,
 * k, v and o. Against these, tables are h times as wide as S and R_inter: for the scores of all
 * tokens, for the output of unclustered tokens, backward for both, and to be made and undone. */
static double saving(const Cast *s, double N, double unclustered) {
    const double C = s->clusters, d = s->shape.d, wider = (s->shape.h - 1) * C * d;
    return 12 * unclustered * d * d - (2 * N + 5 * unclustered) * wider - 9 * C * d * d;
}

/* Bringing rows into order takes about as long as a product of d^2 a token: at text's shapes (d 64,
 * 4 heads, 20 clusters), where 0.7 d^2 would be saved, the step became 4 % slower. */
bool cast_skips(const Cast *s, int N) {
    const double share = cast_places(s, N) / (double)N;
    const double unclustered =
        s->rule == CLUSTER_TOPK ? pow(1 - share, s->clusters) : fmax(0, 1 - s->clusters * share);
    return saving(s, N, N * unclustered) > (double)N * s->shape.d * s->shape.d;
}

double cast_avoided(const CastState *v) {
    return v->skips ? 2 * saving(v->s, v->N, v->N - v->clustered) : 0;
}
