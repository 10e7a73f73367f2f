/* Every mechanism against its definition, written out in double and as plainly as can be. A row of
 * attn_table without one here is an error. MECHANISM=name: that one alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/cast_state.h"
#include "gradcheck.h"
#include "oracles.h"

#define BAR (sizeof(real) == 8 ? 1e-12 : 3e-5) /* of the largest |Y|, or of 1 */

static double laplace(double x) { return erfc((sqrt(0.5) - x) * sqrt(2 * acos(-1))) / 2; }

/* ---- CAST, docs/method.md, steps 1 to 8, at the clusters that it reports ---- */

typedef struct CastOracle {
    const Cast *s;
    int N, d, C, slots, *clusters;
    double *x, *q, *k, *v, *phi;
    double *turned_q, *turned_k; /* what multiplies each other */
    const real *S;
} CastOracle;

static double softplus1(double x) { return 1 + log1p(exp(x)); }

static void apply(const CastOracle *o, double *x, int n) {
    if (!o->s->fn) oracle_softmax(x, n);
    for (int i = 0; i < n && o->s->fn; i++) x[i] = laplace(x[i]);
}

/* <x[n,head], S[c,head]> */
static double score(const CastOracle *o, const double *x, int n, int c, int head) {
    const int at = head * o->s->shape.e;
    double sum = 0;
    for (int i = 0; i < o->s->shape.e; i++)
        sum += x[n * o->d + at + i] * (double)o->S[c * o->d + at + i];
    return sum;
}

static int members(const CastOracle *o, int c) {
    int m = 0;
    while (m < o->slots && o->clusters[c * o->slots + m] >= 0) m++;
    return m;
}

static bool holds(const CastOracle *o, int c, int n) {
    for (int i = 0; i < members(o, c); i++)
        if (o->clusters[c * o->slots + i] == n) return true;
    return false;
}

/* R += A_sum R_intra of the members, A_sum R_inter of others. */
static void add_cluster(const CastOracle *o, const double *mix, int c, int head, double *R) {
    const int m = members(o, c), *list = o->clusters + c * o->slots, e = o->s->shape.e,
              at = head * e, d = o->d;
    const double tau = sqrt(e);
    double *p = oracle_doubles((size_t)m), *summary = oracle_doubles((size_t)e);
    for (int i = 0; i < m; i++)
        p[i] = score(o, o->k, list[i], c, head) * softplus1(-o->phi[list[i]]) / tau;
    if (m) apply(o, p, m);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < e; j++) summary[j] += p[i] * o->v[list[i] * d + at + j];
    for (int i = 0; i < m && o->s->intra; i++) {
        for (int j = 0; j < m; j++)
            p[j] =
                oracle_dot(o->turned_q + list[i] * d + at, o->turned_k + list[j] * d + at, e) / tau;
        apply(o, p, m);
        for (int j = 0; j < m; j++)
            for (int x = 0; x < e; x++)
                R[list[i] * d + at + x] +=
                    mix[list[i] * o->C + c] * p[j] * o->v[list[j] * d + at + x];
    }
    for (int n = 0; n < o->N && o->s->summaries; n++)
        for (int x = 0; x < e && !holds(o, c, n); x++)
            R[n * d + at + x] += mix[n * o->C + c] * summary[x];
    free(p), free(summary);
}

static void cast(const Sublayer *s, double *R) {
    CastOracle o = {.s = s->self, .N = s->N, .d = s->d, .clusters = s->trace.clusters};
    s->mech->clusters(s->self, &o.C, &o.slots);
    o.x = oracle_input(s), o.S = sublayer_own(s, SURROGATE), o.phi = oracle_doubles((size_t)o.N);
    o.q = oracle_projected(s, o.x, ATTN_Q), o.k = oracle_projected(s, o.x, ATTN_K);
    o.v = oracle_projected(s, o.x, ATTN_V);
    o.turned_q = oracle_turned(s, o.q), o.turned_k = oracle_turned(s, o.k);
    for (int n = 0; n < o.N; n++) {
        o.phi[n] = (double)*sublayer_own(s, PHI_BIAS);
        for (int i = 0; i < o.d; i++)
            o.phi[n] += o.x[n * o.d + i] * (double)sublayer_own(s, PHI_WEIGHT)[i];
    }
    double *mix = oracle_doubles((size_t)(o.N * o.C));
    for (int head = 0; head < o.s->shape.h; head++) {
        for (int n = 0; n < o.N; n++) {
            for (int c = 0; c < o.C; c++)
                mix[n * o.C + c] =
                    score(&o, o.q, n, c, head) * softplus1(o.phi[n]) / sqrt(o.s->shape.e);
            apply(&o, mix + n * o.C, o.C);
        }
        for (int c = 0; c < o.C; c++) add_cluster(&o, mix, c, head, R);
    }
    free(o.turned_q), free(o.turned_k);
    free(o.x), free(o.q), free(o.k), free(o.v), free(o.phi), free(mix);
}

/* ---- every mechanism ---- */

enum { MOST_KEYS = 5 };

/* Keys are those of cases beside the walk's. The bar in float, where BAR is too sharp. */
static const struct OracleRow {
    const char *name;
    Oracle *oracle;
    const char *keys[MOST_KEYS];
    double bar_in_float;
} oracles[] = {
    {"cast", cast},
    {"full", oracle_full},
    {"naive", oracle_full},
    {"local", oracle_local, {"", "\"window\":1", "\"window\":7"}},
    {"clustered",
     oracle_clustered,
     {"", "\"clusters\":20,\"bits\":2,\"iterations\":5",
      "\"clusters\":7,\"bits\":9,\"iterations\":3,\"hash_bias\":false",
      "\"clusters\":5,\"bits\":64,\"iterations\":1"}},
    {"i-clustered",
     oracle_i_clustered,
     {"", "\"clusters\":20,\"bits\":2,\"iterations\":5,\"top_k\":1",
      "\"clusters\":7,\"bits\":9,\"iterations\":3,\"hash_bias\":false,\"top_k\":5"}},
    {"lsh",
     oracle_lsh,
     {"", "\"rounds\":3,\"buckets\":6,\"chunk\":5", "\"rounds\":2,\"buckets\":2,\"chunk\":16",
      "\"rounds\":4,\"buckets\":8,\"chunk\":2"}},
    {"smyrf",
     oracle_smyrf,
     {"", "\"rounds\":1,\"cluster_size\":16", "\"rounds\":3,\"cluster_size\":5"}},
    {"performer", oracle_performer, {"", "\"features\":0"}},
    {"linear", oracle_linear},
    /* its rows are drawn from N(0,1) here: scores go into the hundreds */
    {"linformer", oracle_linformer, {""}, 1e-4},
    {"nystrom",
     oracle_nystrom,
     {"", "\"landmarks\":1,\"conv_kernel\":0", "\"landmarks\":7,\"conv_kernel\":5",
      "\"landmarks\":16,\"pinv_iterations\":3,\"conv_kernel\":1"}},
};

static const struct OracleRow *oracle_of(const AttnMech *m) {
    for (size_t i = 0; i < sizeof oracles / sizeof *oracles; i++)
        if (!strcmp(oracles[i].name, m->name)) return &oracles[i];
    fail_msg("%s has no oracle in tests/attention/test_oracle.c", m->name);
    return NULL;
}

/* Of a mechanism: rows that were compared, and those that were passed over. */
static int compared, passed_over;

static bool too_close_to_call(const double *row, int d) {
    bool nan = false;
    for (int i = 0; i < d; i++) nan |= isnan(row[i]);
    return nan && sizeof(real) == 4;
}

static void compare(const Sublayer *s, const char *what) {
    const struct OracleRow *o = oracle_of(s->mech);
    const double bar = sizeof(real) == 4 && o->bar_in_float > 0 ? o->bar_in_float : BAR;
    double *R = oracle_doubles((size_t)(s->N * s->d)), worst = 0, most = 1;
    o->oracle(s, R);
    double *Y = oracle_projected(s, R, ATTN_O);
    for (int n = 0; n < s->N; n++) {
        const bool over = too_close_to_call(R + n * s->d, s->d);
        over ? passed_over++ : compared++;
        for (int i = n * s->d; i < (n + 1) * s->d && !over; i++) {
            const double off = fabs((double)s->Y[i] - Y[i]);
            if (worst == worst && !(off <= worst)) worst = off; /* NaN stays */
            most = fmax(most, fabs(Y[i]));
        }
    }
    if (!(worst <= bar * most))
        fail_msg("%s, N %d: Y is off by %.2g of %.2g", what, s->N, worst, most);
    free(R), free(Y);
}

/* Room for what the mechanism reports, which starts as what it cannot mean. */
static void open_trace(Sublayer *s) {
    const int h = ((const AttnShape *)s->self)->h;
    int C = 0, k = 0, rounds = 0;
    bool keys = false;
    if (s->mech->clusters) s->mech->clusters(s->self, &C, &k);
    const size_t clusters = (size_t)(C * k) * sizeof(int);
    if (C) s->trace.clusters = memset(oracle_must(malloc(clusters)), 0x80, clusters);
    if (s->mech->groups) s->mech->groups(s->self, &rounds, &keys);
    s->trace.stride = s->N + 3;
    const size_t groups = (size_t)(h * rounds * s->trace.stride) * sizeof(int);
    if (groups) s->trace.groups = memset(oracle_must(malloc(groups)), 0x80, groups);
    if (keys) s->trace.groups_key = memset(oracle_must(malloc(groups)), 0x80, groups);
}

static void close_trace(Sublayer *s) {
    free(s->trace.clusters), free(s->trace.groups), free(s->trace.groups_key);
}

/* False: the mechanism refuses the keys. */
static bool check(const AttnMech *m, const char *keys, uint64_t seed, int N, int h, int e,
                  bool rope) {
    const AttnShape shape = {h * e, h, e, N + 4, N + 3, N % 2};
    char what[MECH_TEXT + 40];
    Err err;
    void *self = mech_open(m, keys, &shape, &err);
    if (!self) return false;
    Draws d = draws_open("oracle", seed);
    Sublayer s;
    sublayer_open(&s, m, self, N, &d);
    if (rope) sublayer_turn(&s);
    open_trace(&s);
    sublayer_forward(&s);
    snprintf(what, sizeof what, "%s %s%s", m->name, keys, rope ? ", rope" : "");
    compare(&s, what);
    close_trace(&s);
    sublayer_close(&s);
    free(self);
    return true;
}

/* Around vectors, blocks and tiles, and longer than any of them. */
static const int lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 130, 257, 300};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* Without rotary positions and with them, for which heads are even. */
static int check_length(const AttnMech *m, const char *keys, int seed, int n) {
    const int N = lengths[n];
    const uint64_t draws = (uint64_t)(seed * 1000 + N);
    return check(m, keys, draws, N, 1 + n % 3, 1 + n % 5, false) +
           check(m, keys, draws, N, 1 + n % 3, 2 + n % 3 * 2, true);
}

static void check_mechanism(const AttnMech *m) {
    const struct OracleRow *o = oracle_of(m);
    char text[MECH_TEXT];
    int cases = 0;
    compared = passed_over = 0;
    for (int n = 0; n < LENGTHS; n++) {
        /* its numbers: small ones, and as many as there are tokens */
        const MechSizes sizes = {n % 2 ? 1 + n % 6 : lengths[n], 1 + lengths[n] / 3};
        for (int v = 0; v < mech_variants(m); v++) {
            mech_print(text, m, v, sizes);
            cases += check_length(m, text, v, n);
        }
        for (int i = 0; i < MOST_KEYS && o->keys[i]; i++)
            if (check_length(m, o->keys[i], i, n) != 2)
                fail_msg("%s refuses {%s}", m->name, o->keys[i]);
    }
    assert_true(cases > 0);
    if (passed_over)
        printf("# %s: %d rows, %d more too close to call\n", m->name, compared, passed_over);
    assert_true(compared > 20 * passed_over);
}

static void every_mechanism_is_its_definition(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++)
        if (mech_wanted(attn_table[i])) check_mechanism(attn_table[i]);
}

/* ---- where a form that is as good on paper loses its digits, or divides 0 by 0 ---- */

static void spread(Sublayer *s, AttnProjection p, real factor, real bias) {
    for (int i = 0; i < s->d * s->d; i++) s->w[s->linear[p][0] + (size_t)i] *= factor;
    for (int i = 0; i < s->d; i++) s->w[s->linear[p][1] + (size_t)i] = bias;
}

static void check_spread(const char *name, real factor, real bias) {
    enum { N = 65, H = 2, E = 6 };
    const AttnMech *m = attn_find(name);
    const AttnShape shape = {H * E, H, E, N, N, 0};
    Err err;
    if (!mech_wanted(m)) return;
    void *self = mech_open(m, "", &shape, &err);
    Draws d = draws_open("spread", 1);
    Sublayer s;
    assert_non_null(self);
    sublayer_open(&s, m, self, N, &d);
    spread(&s, ATTN_Q, factor, bias);
    spread(&s, ATTN_K, factor, 0);
    sublayer_forward(&s);
    compare(&s, name);
    sublayer_close(&s);
    free(self);
}

static void far_from_zero(void **state) {
    (void)state;
    check_spread("linear", 1, -17); /* elu + 1 is exp there, of which expm1 keeps half the digits */
    check_spread("performer", 12, 0);
}

/* Hashes of a query of zeros are equal: of equal ones the first counts. */
static void equal_hashes(void **state) {
    (void)state;
    enum { N = 17, H = 2, E = 4, D = H * E };
    const AttnMech *m = attn_find("lsh");
    const AttnShape shape = {D, H, E, N, N, true};
    Err err;
    if (!mech_wanted(m)) return;
    void *self = mech_open(m, "\"rounds\":1,\"buckets\":6,\"chunk\":2", &shape, &err);
    Draws d = draws_open("equal", 1);
    Sublayer s;
    assert_non_null(self);
    sublayer_open(&s, m, self, N, &d);
    memset(s.w + s.linear[ATTN_Q][1], 0, D * sizeof(real));
    for (int i = 0; i < N; i += 3) memset(s.X + i * D, 0, D * sizeof(real));
    open_trace(&s);
    sublayer_forward(&s);
    compare(&s, "lsh, queries of zeros");
    close_trace(&s);
    sublayer_close(&s);
    free(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mechanism_is_its_definition),
                                       cmocka_unit_test(far_from_zero),
                                       cmocka_unit_test(equal_hashes)};
    return cmocka_run_group_tests(tests, grad_setup, NULL);
}
