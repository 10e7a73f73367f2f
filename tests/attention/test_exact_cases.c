/* Cases in which a mechanism is exact attention, on the same weights, and what papers promise of
 * the others. MECHANISM=name: that one alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradcheck.h"
#include "sublayer.h"

#define BAR (sizeof(real) == 8 ? 1e-12 : 3e-5)

/* ---- two mechanisms on the same weights ---- */

static const AttnMech *find(const char *name) {
    const AttnMech *m = attn_find(name);
    if (!m) fail_msg("there is no mechanism %s", name);
    return m;
}

static void open_layer(Sublayer *s, const char *name, const char *keys, AttnShape shape, int N,
                       Draws *d) {
    Err err = {0};
    const AttnMech *m = find(name);
    void *self = mech_open(m, keys, &shape, &err);
    if (!self) fail_msg("%s {%s}: %s", name, keys, err.text);
    sublayer_open(s, m, self, N, d);
}

static void close_layer(Sublayer *s) {
    void *self = s->self;
    sublayer_close(s);
    free(self);
}

static real *weight(Sublayer *s, AttnProjection p) { return s->w + s->linear[p][0]; }
static real *bias(Sublayer *s, AttnProjection p) { return s->w + s->linear[p][1]; }

/* The input, and the projections that both have. */
static void copy_layer(Sublayer *to, Sublayer *from) {
    const size_t d = (size_t)from->d, size = sizeof(real);
    memcpy(to->X, from->X, (size_t)from->N * d * size);
    for (int i = 0; i < ATTN_PROJECTIONS; i++) {
        if (!(to->mech->projections & from->mech->projections & ATTN_HAS(i))) continue;
        const AttnProjection p = (AttnProjection)i;
        memcpy(weight(to, p), weight(from, p), d * d * size);
        memcpy(bias(to, p), bias(from, p), d * size);
    }
}

/* ---- exact cases ---- */

typedef void Prepare(Sublayer *s);

static void equal_queries(Sublayer *s) {
    memset(weight(s, ATTN_Q), 0, (size_t)(s->d * s->d) * sizeof *s->w);
}

/* Queries have 0/16, 1/16, 2/16 ... before their other columns, and as many bits set. */
static void distinct_codes(Sublayer *s) {
    const AttnShape *shape = s->self;
    const int d = s->d, h = shape->h, e = shape->e, bits = sublayer_key(s, "bits");
    real *planes = s->w + s->own[0];
    memset(planes, 0, (size_t)(h * bits * (e + 1)) * sizeof *planes);
    for (int row = 0; row < h * bits; row++) {
        planes[row * (e + 1)] = 1;
        planes[row * (e + 1) + e] = (real)(row % bits + 0.5) / 16;
    }
    for (int row = 0; row < d; row += e) {
        memset(weight(s, ATTN_Q) + row * d, 0, (size_t)d * sizeof *s->w);
        weight(s, ATTN_Q)[row * d] = 1;
        bias(s, ATTN_Q)[row] = 0;
    }
    for (int n = 0; n < s->N; n++) s->X[n * d] = (real)n / 16;
}

static void five_tokens_repeated(Sublayer *s) {
    distinct_codes(s);
    for (int i = 5 * s->d; i < s->N * s->d; i++) s->X[i] = s->X[i - 5 * s->d];
}

/* Each token's key and value in a row of its own. */
static void identity(Sublayer *s) {
    const int max = ((const AttnShape *)s->self)->max_tokens, rank = sublayer_key(s, "rank");
    real *E = s->w + s->own[0];
    memset(E, 0, (size_t)(rank * max) * sizeof *E);
    for (int r = 0; r < rank; r++) E[r * max + r] = 1;
}

enum { LONGEST = 130, CODES = 64 };

/* `key` is N, `times` over, beside `others`. With rotary positions equal queries are not equal. */
typedef struct Case {
    const char *name, *key;
    int times;
    const char *others;
    Prepare *prepare;
    int longest; /* 0: LONGEST */
    bool never_turned;
    const char *like; /* the same with such others; NULL: full */
} Case;

static const Case cases[] = {
    {"local", "window", 2, ""},
    {"i-clustered", "top_k", 1, ",\"clusters\":3"},
    {"i-clustered", "top_k", 2, ",\"clusters\":1,\"bits\":1,\"iterations\":1"},
    {"smyrf", "cluster_size", 1, ",\"rounds\":1"},
    {"smyrf", "cluster_size", 1, ",\"rounds\":4"},
    {"nystrom", "landmarks", 1, ",\"conv_kernel\":0"},
    {"nystrom", "landmarks", 3, ",\"conv_kernel\":0"},
    {"linformer", "rank", 1, "", identity},
    {"clustered", "clusters", 1, "", equal_queries, .never_turned = true},
    {"clustered", "clusters", 3, ",\"hash_bias\":false", equal_queries, .never_turned = true},
    {"clustered", "clusters", 1, ",\"bits\":64", distinct_codes, CODES},
    {"clustered", "clusters", 2, ",\"bits\":64,\"iterations\":1", distinct_codes, CODES},
    {"clustered", "clusters", 1, ",\"bits\":64", five_tokens_repeated, .never_turned = true},
    /* one chunk: rounds are all the same */
    {"lsh", "chunk", 2, ",\"rounds\":4", .like = ",\"rounds\":1"},
};

static void open_case(Sublayer *s, const Case *c, const char *others, AttnShape shape, int N,
                      Draws *d) {
    char keys[MECH_TEXT];
    snprintf(keys, sizeof keys, "\"%s\":%d%s", c->key, c->times * N, others);
    open_layer(s, c->name, keys, shape, N, d);
}

static void check_case(const Case *c, int N, int h, int e, bool rope) {
    const AttnShape shape = {h * e, h, e, N + N % 2, N, N % 2};
    Draws d = draws_open("exact", (uint64_t)N);
    Sublayer s, like;
    open_case(&s, c, c->others, shape, N, &d);
    if (c->like) open_case(&like, c, c->like, shape, N, &d);
    if (!c->like) open_layer(&like, "full", "", shape, N, &d);
    if (c->prepare) c->prepare(&s);
    copy_layer(&like, &s);
    if (rope) sublayer_turn(&s), sublayer_turn(&like);
    sublayer_forward(&s), sublayer_forward(&like);
    double worst = 0, most = 1;
    for (int i = 0; i < N * s.d; i++) {
        const double off = fabs((double)s.Y[i] - (double)like.Y[i]);
        if (worst == worst && !(off <= worst)) worst = off; /* NaN stays */
        if (fabs((double)like.Y[i]) > most) most = fabs((double)like.Y[i]);
    }
    if (!(worst <= BAR * most))
        fail_msg("%s, %s %d%s, N %d%s: Y is off by %.2g of %.2g", c->name, c->key, c->times * N,
                 c->others, N, rope ? ", rope" : "", worst, most);
    close_layer(&s), close_layer(&like);
}

static void exact_cases(void **state) {
    (void)state;
    static const int lengths[] = {1, 2, 5, 17, 64, LONGEST};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int n = 0; n < (int)(sizeof lengths / sizeof *lengths); n++) {
            const Case *c = &cases[i];
            if (!mech_wanted(find(c->name)) || (c->longest && lengths[n] > c->longest)) continue;
            check_case(c, lengths[n], 1 + n % 3, 1 + n % 5, false);
            if (!c->never_turned) check_case(c, lengths[n], 1 + n % 3, 2 + n % 3 * 2, true);
        }
}

/* ---- i-clustered is never farther from exact attention than clustered is ---- */

static void to_identity(Sublayer *s, AttnProjection p) {
    memset(weight(s, p), 0, (size_t)(s->d * s->d) * sizeof *s->w);
    memset(bias(s, p), 0, (size_t)s->d * sizeof *s->w);
    for (int i = 0; i < s->d; i++) weight(s, p)[i * s->d + i] = 1;
}

/* Y[n,j], j < N, becomes the weight of token j for token n: V_j is the unit vector j. */
static void show_weights(Sublayer *s) {
    to_identity(s, ATTN_V), to_identity(s, ATTN_O);
    for (int i = s->N; i < s->d; i++) weight(s, ATTN_V)[i * s->d + i] = 0;
    for (int n = 0; n < s->N; n++)
        for (int j = 0; j < s->N; j++) s->X[n * s->d + j] = n == j;
}

/* The distance of a query's weights to others, which are weights: they sum to 1. */
static double distance(const Sublayer *a, const Sublayer *b, int n) {
    double off = 0, sum = 0;
    for (int j = 0; j < a->N; j++) {
        off += fabs((double)a->Y[n * a->d + j] - (double)b->Y[n * a->d + j]);
        sum += (double)a->Y[n * a->d + j];
    }
    assert_true(fabs(sum - 1) < BAR);
    return off;
}

/* Adds up distances. */
static void compare_clustered(uint64_t draw, double *clustered, double *improved) {
    Draws d = draws_open("theorem", draw);
    const int N = draw_size(&d, 24), e = N + draw_int(&d, 1, 4);
    const AttnShape shape = {e, 1, e, N, N, N % 2};
    char keys[MECH_TEXT], more[MECH_TEXT + 32];
    snprintf(keys, sizeof keys, "\"clusters\":%d,\"bits\":%d,\"iterations\":%d", draw_int(&d, 1, N),
             draw_int(&d, 1, 64), draw_int(&d, 1, 5));
    snprintf(more, sizeof more, "%s,\"top_k\":%d", keys, draw_int(&d, 1, N));
    const real sharp = (real)(1 << draw_int(&d, 0, 4));
    Sublayer full, one, two;
    open_layer(&full, "full", "", shape, N, &d);
    open_layer(&one, "clustered", keys, shape, N, &d);
    open_layer(&two, "i-clustered", more, shape, N, &d);
    show_weights(&full);
    for (int i = 0; i < e * e; i++) weight(&full, ATTN_Q)[i] *= sharp;
    copy_layer(&one, &full), copy_layer(&two, &full);
    const size_t planes = (size_t)(sublayer_key(&one, "bits") * (e + 1)) * sizeof(real);
    memcpy(two.w + two.own[0], one.w + one.own[0], planes);
    sublayer_forward(&full), sublayer_forward(&one), sublayer_forward(&two);
    for (int n = 0; n < N; n++) {
        const double far = distance(&one, &full, n), near = distance(&two, &full, n);
        if (!(near <= far + BAR))
            fail_msg("draw %d {%s}: query %d of %d is at %.15g with its top keys, at %.15g without",
                     (int)draw, more, n, N, near, far);
        *clustered += far, *improved += near;
    }
    close_layer(&full), close_layer(&one), close_layer(&two);
}

static void top_keys_never_hurt(void **state) {
    (void)state;
    double clustered = 0, improved = 0;
    if (!mech_wanted(find("clustered")) && !mech_wanted(find("i-clustered"))) return;
    for (int draw = 0; draw < 1000; draw++)
        compare_clustered((uint64_t)draw, &clustered, &improved);
    printf("# distances to exact attention: %.0f clustered, %.0f i-clustered\n", clustered,
           improved);
    assert_true(improved > 100 && improved < 0.9 * clustered);
}

/* ---- lsh: a query of 0 has a key of 0, and no gradient through it; too large a one shows ---- */

static void queries_of_zero(void **state) {
    (void)state;
    enum { N = 9, E = 10 };
    const AttnShape shape = {E, 1, E, N, N, true};
    if (!mech_wanted(find("lsh"))) return;
    Draws d = draws_open("zero", 0);
    Sublayer s;
    open_layer(&s, "lsh", "\"chunk\":9", shape, N, &d);
    show_weights(&s);
    memset(weight(&s, ATTN_Q), 0, E * E * sizeof(real));
    memset(bias(&s, ATTN_Q), 0, E * sizeof(real));
    sublayer_forward(&s), sublayer_backward(&s);
    for (int n = 0; n < N; n++)
        for (int j = 0; j < N; j++)
            assert_true(fabs((double)s.Y[n * E + j] - (n == j ? 0 : 1.0 / (N - 1))) < BAR);
    for (int i = 0; i < N * E; i++) assert_true(isfinite(s.dX[i]));
    for (int i = 0; i < E; i++) assert_true(s.dw[s.linear[ATTN_Q][1] + (size_t)i] == 0);
    for (int i = 0; i < E; i++) bias(&s, ATTN_Q)[i] = (real)(sizeof(real) == 8 ? 1e160 : 1e25);
    sublayer_forward(&s);
    for (int i = 0; i < N * E; i++) assert_true(isnan(s.Y[i]));
    close_layer(&s);
}

/* ---- performer comes to exact attention ---- */

/* The root of the mean square of what m features, drawn one by one, are off by, where Q and K have
 * variance 1/16. */
static double performer_error(int m, uint64_t draw) {
    enum { N = 48, E = 8 };
    const AttnShape shape = {E, 1, E, N, N, true};
    char keys[MECH_TEXT];
    snprintf(keys, sizeof keys, "\"features\":%d", m);
    Draws d = draws_open("features", draw);
    Sublayer full, s;
    open_layer(&full, "full", "", shape, N, &d);
    open_layer(&s, "performer", keys, shape, N, &d);
    for (AttnProjection p = ATTN_Q; p <= ATTN_K; p++) {
        for (int i = 0; i < E * E; i++) weight(&full, p)[i] /= 4;
        memset(bias(&full, p), 0, E * sizeof(real));
    }
    to_identity(&full, ATTN_O);
    copy_layer(&s, &full);
    sublayer_forward(&full), sublayer_forward(&s);
    double squares = 0;
    for (int i = 0; i < N * E; i++) squares += pow((double)s.Y[i] - (double)full.Y[i], 2);
    close_layer(&full), close_layer(&s);
    return sqrt(squares / (N * E));
}

static void more_features_are_nearer(void **state) {
    (void)state;
    if (!mech_wanted(find("performer"))) return;
    enum { SIZES = 5, DRAWS = 16 };
    double x[SIZES], y[SIZES] = {0}, mx = 0, my = 0, xy = 0, xx = 0;
    for (int i = 0; i < SIZES; i++) {
        const int m = 16 << 2 * i;
        x[i] = log(m);
        for (int draw = 0; draw < DRAWS; draw++)
            y[i] += log(performer_error(m, (uint64_t)draw)) / DRAWS;
        mx += x[i] / SIZES, my += y[i] / SIZES;
    }
    for (int i = 0; i < SIZES; i++) xy += (x[i] - mx) * (y[i] - my), xx += pow(x[i] - mx, 2);
    printf("# performer: error %.1e with 16 features, %.1e with 4096: m^%.2f\n", exp(y[0]),
           exp(y[SIZES - 1]), xy / xx);
    assert_true(xy / xx > -0.6 && xy / xx < -0.4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_cases),
        cmocka_unit_test(top_keys_never_hurt),
        cmocka_unit_test(queries_of_zero),
        cmocka_unit_test(more_features_are_nearer),
    };
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
