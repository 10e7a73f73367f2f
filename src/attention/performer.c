/* Performer, FAVOR+ (Choromanski et al. 2021, arXiv:2009.14794): softmax by positive random
 * features. Head by head, with x^ = x e^(-1/4) and m features w_f, orthogonal in blocks of e:
 *   phi(x) = exp(w x^ - |x^|^2 / 2)
 *   R_i = phi(Q_i) sum_j phi(K_j) V_j^T / (phi(Q_i) . sum_j phi(K_j))
 * computed as two exact attentions, a softmax over tokens for each feature and one over features
 * for each query, which needs no epsilon and cannot come to 0 / 0:
 *   S_f = softmax_j(w_f k^_j - |k^_j|^2 / 2) V, and b_f its log-sum-exp
 *   R_i = sum_f softmax_f(w_f q^_i + b_f) S_f
 * Features are drawn once; reference codes draw them anew as they train.
 * What Long Range Arena's code calls Performer by default is another thing: ReLU features without a
 * projection. Time O(N m d), memory O(N d + m d).
 * Saved for backward: R [N,d], S [m,d], the log-sum-exps [h,m] and [h,N]; Q, K and V where kept. */
#include <math.h>
#include <string.h>

#include "attention/exact.h"
#include "attention/layer.h"
#include "ops/vec.h"

typedef struct Performer {
    AttnShape shape;
    int features;
} Performer;

static const ConfigKey keys[] = {
    {"features", KEY_INT, offsetof(Performer, features), "0", 0, 1 << 16, NULL,
     "random features of each head; 0: e ln e of heads of width e, at least 8"},
    {0},
};

static int count(const Performer *s) {
    const int enough = (int)ceil(s->shape.e * log(s->shape.e));
    return s->features > 0 ? s->features : enough > 8 ? enough : 8;
}

static int params(const void *self, ParamSpec *specs) {
    const Performer *s = self;
    if (specs)
        specs[0] = (ParamSpec){
            "features", 3, {s->shape.h, count(s), s->shape.e}, {INIT_ORTHOGONAL, 0}, PARAM_DRAWN};
    return 1;
}

typedef struct State {
    const Performer *s;
    const AttnCall *call;
    int N, m;
    AttnRows rows;
    ExactPack tokens;   /* of features on K and V; o is S */
    ExactPack features; /* of Q on features and S; o is R */
    real *w;            /* (m,d) w e^(1/4): packs scale queries by e^(-1/2) */
    real *bias[2];      /* (h,padded) -|k^|^2 / 2 of each token; b of each feature */
    real *dbias[2];     /* backward */
    real *dS, *db;      /* (m,d), (h,m) */
} State;

static AttnMemory layout(State *o, const Performer *s, AttnMemory mem, int N, bool backward) {
    const int m = count(s);
    const size_t d = (size_t)s->shape.d, h = (size_t)s->shape.h,
                 biases[2] = {h * attend_padded(N), h * attend_padded(m)};
    o->s = s, o->N = N, o->m = m;
    attn_layout_rows(&o->rows, &attn_performer, &s->shape, &mem, N, backward);
    exact_layout(&o->tokens, &s->shape, &mem, m, N, backward, false);
    exact_layout(&o->features, &s->shape, &mem, N, m, backward, false);
    o->tokens.p.o = arena_reals(&mem.saved, attend_padded(m) * d);
    o->features.p.o = o->rows.r;
    o->w = arena_reals(&mem.scratch, (size_t)m * d);
    for (int i = 0; i < 2; i++) {
        o->bias[i] = arena_reals(&mem.scratch, biases[i]);
        if (backward) o->dbias[i] = arena_reals(&mem.scratch, biases[i]);
    }
    if (!backward) return mem;
    o->dS = arena_reals(&mem.scratch, (size_t)m * d);
    o->db = arena_reals(&mem.scratch, h * (size_t)m);
    return mem;
}

static AttnMemory needs(const void *self, int N, bool backward) {
    return layout(&(State){0}, self, (AttnMemory){0}, N, backward);
}

/* A head's features beside those of others, and -|k^|^2 / 2 of its keys. */
static void open_head(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, e = o->s->shape.e, N = o->N, m = o->m;
    const real up = (real)pow(e, 0.25), down = (real)(-0.5 / sqrt(e));
    const real *from = attn_own(o->call, 0) + (size_t)head * (size_t)m * (size_t)e;
    real *bias = o->bias[0] + (size_t)head * attend_padded(N);
    for (int f = 0; f < m; f++) {
        real *w = o->w + (size_t)f * (size_t)d + head * e;
        for (int i = 0; i < e; i++) w[i] = up * from[(size_t)f * (size_t)e + (size_t)i];
    }
    for (int n = 0; n < N; n++) {
        const real *k = o->rows.qkv[ATTN_K] + (size_t)n * (size_t)d + head * e;
        bias[n] = down * vec_dot(k, k, e);
    }
    for (size_t n = (size_t)N; n < attend_padded(N); n++) bias[n] = 0;
}

/* b, which attention on tokens left as its rows' log-sum-exp. */
static void bias_of_features(const State *o) {
    const size_t m = (size_t)o->m;
    for (int head = 0; head < o->s->shape.h; head++) {
        real *bias = o->bias[1] + (size_t)head * attend_padded(o->m);
        memcpy(bias, o->tokens.lse + (size_t)head * m, m * sizeof *bias);
        memset(bias + m, 0, (attend_padded(o->m) - m) * sizeof *bias);
    }
}

static void open(State *o, const Performer *s, const AttnCall *c, bool backward) {
    real *const *qkv = o->rows.qkv;
    layout(o, s, c->memory, c->N, backward);
    o->call = c;
    attn_open_rows(c, &o->rows, &s->shape, backward);
    attn_each(c, s->shape.h, open_head, NULL, o);
    attend_pack_queries(&o->tokens.p, o->w, NULL, o->m);
    attend_pack_keys(&o->tokens.p, qkv[ATTN_K], qkv[ATTN_V], NULL, c->N);
    o->tokens.p.bias = o->bias[0], o->tokens.p.dbias = o->dbias[0];
    if (!backward) exact_attend(c, &o->tokens);
    bias_of_features(o);
    attend_pack_queries(&o->features.p, qkv[ATTN_Q], NULL, c->N);
    attend_pack_keys(&o->features.p, o->w, o->tokens.p.o, NULL, o->m);
    o->features.p.bias = o->bias[1], o->features.p.dbias = o->dbias[1];
}

static void forward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, false);
    exact_attend(c, &o.features);
    attn_output(c, &o.rows, c->Y, NULL, c->N);
}

/* dk = -k d(-|k^|^2 / 2) / sqrt(e) beside what comes through w k. */
static void norms_backward(const void *ctx, int head, Arena scratch) {
    const State *o = ctx;
    const int d = o->s->shape.d, e = o->s->shape.e;
    const real *dbias = o->dbias[0] + (size_t)head * attend_padded(o->N), by = (real)(-1 / sqrt(e));
    for (int n = 0; n < o->N; n++) {
        const size_t at = (size_t)n * (size_t)d + (size_t)(head * e);
        const real *k = o->rows.qkv[ATTN_K] + at;
        real *dk = o->rows.dqkv[ATTN_K] + at;
        for (int i = 0; i < e; i++) dk[i] += by * dbias[n] * k[i];
    }
}

static void backward(const void *self, const AttnCall *c) {
    State o = {0};
    open(&o, self, c, true);
    const int h = o.s->shape.h;
    const size_t m = (size_t)o.m;
    attn_output_backward(c, &o.rows, c->dY, c->N);
    attend_pack_backward(&o.features.p, o.rows.dr);
    exact_attend_backward(c, &o.features);
    memset(o.dS, 0, m * (size_t)c->d * sizeof *o.dS);
    attend_unpack(&o.features.p, o.rows.dqkv[ATTN_Q], NULL, o.dS);
    for (int head = 0; head < h; head++)
        memcpy(o.db + (size_t)head * m, o.dbias[1] + (size_t)head * attend_padded(o.m),
               m * sizeof *o.db);
    o.tokens.p.dlse = o.db;
    attend_pack_backward(&o.tokens.p, o.dS);
    exact_attend_backward(c, &o.tokens);
    attend_unpack(&o.tokens.p, NULL, o.rows.dqkv[ATTN_K], o.rows.dqkv[ATTN_V]);
    attn_each(c, h, norms_backward, NULL, &o);
    attn_close_rows(c, &o.rows, &o.s->shape);
}

/* Scores and values, of features on tokens and of queries on features. */
static double flops(const void *self, int N) {
    const Performer *s = self;
    return 2 * 4.0 * N * count(s) * s->shape.d;
}

const AttnMech attn_performer = {
    .name = "performer",
    .title = "softmax by m positive orthogonal random features",
    .time = "O(N m)",
    .memory = "O(N + m)",
    .reference = "arXiv:2009.14794",
    .projections = ATTN_QKVO,
    .keys = keys,
    .self_size = sizeof(Performer),
    .params = params,
    .needs = needs,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
