/* What the table of mechanisms promises, and what CAST reports to those who look at its clusters.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/attention.h"
#include "attention/cluster.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "draws.h"
#include "ops/linear.h"

/* A mechanism with these keys (JSON); err says why not. */
static void *configured(const AttnMech *m, const AttnShape *shape, const char *keys, Err *err) {
    cJSON *json = cJSON_Parse(keys);
    void *self = calloc(1, m->self_size);
    if (!json || !self) abort();
    bool ok = !m->keys || schema_read(self, m->keys, json, "test", "model.attention", NULL, err);
    ok = ok && attn_configure(m, self, shape, "test", err);
    cJSON_Delete(json);
    if (ok) return self;
    free(self);
    return NULL;
}

static void names_are_found(void **state) {
    (void)state;
    int n = 0;
    for (; attn_table[n]; n++) {
        assert_ptr_equal(attn_find(attn_table[n]->name), attn_table[n]);
        for (int i = 0; i < n; i++)
            assert_string_not_equal(attn_table[i]->name, attn_table[n]->name);
        assert_true(strlen(attn_table[n]->title) > 0 && strlen(attn_table[n]->reference) > 0);
    }
    assert_true(n >= 3);
    assert_null(attn_find("none"));
    assert_null(attn_find(""));
}

/* Memory is planned for the longest sequence, and every shorter one must fit in it. */
static void check_growth(const AttnMech *m, const char *keys) {
    enum { LONGEST = 4300 };
    const AttnShape shape = {6, 2, 3, LONGEST + 1, LONGEST};
    Err err = {0};
    void *self = configured(m, &shape, keys, &err);
    if (!self) fail_msg("%s %s: %s", m->name, keys, err.text);
    AttnNeeds most = {0};
    for (int N = 1; N <= LONGEST + 1; N++) {
        const AttnNeeds n = m->needs(self, N);
        if (n.saved < most.saved || n.forward < most.forward || n.backward < most.backward)
            fail_msg("%s %s: %d tokens need less than fewer tokens do", m->name, keys, N);
        most = n;
        assert_true(m->flops(self, N) > 0);
    }
    free(self);
}

static void needs_grow_with_length(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) check_growth(attn_table[i], "{}");
    check_growth(&attn_cast, "{\"clusters\":1}");
    check_growth(&attn_cast, "{\"clusters\":3,\"cluster_size\":\"length\"}");
    check_growth(&attn_cast, "{\"clusters\":3,\"cluster_size\":1040}");
}

static void nothing_left_is_an_error(void **state) {
    (void)state;
    const AttnShape shape = {4, 2, 2, 8, 8};
    Err err;
    assert_null(configured(&attn_cast, &shape, "{\"summaries\":false,\"intra\":false}", &err));
    assert_int_equal(err.code, EX_CONFIG);
    assert_non_null(strstr(err.text, "summaries"));
    assert_non_null(strstr(err.text, "intra"));
}

/* ---- CAST's tap ---- */

typedef struct Cast {
    int N, C, k, h, e;
    const char *fn;
    real *X, *W[2], *b[2], *Q, *K, *S, *phi_w, phi_b; /* W, b: of the projections to Q and K */
} Cast;

static real *draw(Draws *d, int n) {
    real *x = malloc((size_t)n * sizeof *x);
    if (!x) abort();
    draw_normals(d, x, (size_t)n, 0, 1);
    return x;
}

static double dot(const real *a, const real *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* sum_h f_c(<x[n,h], S[:,h]> / tau)[c]: one of the two halves of step 3. */
static double half(const Cast *o, const real *x, int n, int c) {
    const int d = o->h * o->e;
    double sum = 0;
    for (int head = 0; head < o->h; head++) {
        double total = 0, own = 0;
        for (int i = 0; i < o->C; i++) {
            double a = dot(x + n * d + head * o->e, o->S + i * d + head * o->e, o->e) / sqrt(o->e);
            total += exp(a);
            if (i == c) own = a;
        }
        sum += strcmp(o->fn, "softmax") ? 0.5 * erfc((sqrt(0.5) - own) * sqrt(2 * acos(-1)))
                                        : exp(own) / total;
    }
    return sum;
}

static double affinity(const Cast *o, int n, int c) {
    const double phi = dot(o->X + n * o->h * o->e, o->phi_w, o->h * o->e) + (double)o->phi_b;
    const double gate = 1 / (1 + exp(-phi));
    return gate * half(o, o->Q, n, c) + (1 - gate) * half(o, o->K, n, c);
}

static void *buffer(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) abort();
    return p;
}

/* `choose` has X and the projections alone; where it leaves the choice to forward, that has Q and
 * K.
 */
static void choose(const Cast *o, const void *self, AttnTap *tap) {
    const AttnNeeds needs = attn_cast.needs(self, o->N);
    const size_t size = (size_t)(o->N * o->h * o->e) * sizeof(real);
    void *saved = buffer(needs.saved), *scratch = buffer(needs.forward);
    real *V = buffer(size), *R = buffer(size);
    int *order = buffer((size_t)o->N * sizeof *order);
    AttnCall call = {.N = o->N, .held = o->N, .X = o->X, .tap = tap};
    call.q = (AttnLinear){.w = o->W[0], .b = o->b[0]};
    call.k = (AttnLinear){.w = o->W[1], .b = o->b[1]};
    call.w[0] = o->S, call.w[1] = o->phi_w, call.w[2] = &o->phi_b;
    call.saved = (Arena){saved, 0, needs.saved};
    call.scratch = (Arena){scratch, 0, needs.forward};
    if (!attn_cast.choose(self, &call, order)) {
        memset(V, 0, size);
        call.Q = o->Q, call.K = o->K, call.V = V, call.R = R;
        attn_cast.forward(self, &call);
    }
    free(saved), free(scratch), free(order), free(V), free(R);
}

/* The affinities are step 3's, and the clusters those that step 4 chooses from them; slots beyond
 * are -1. */
static void check_tap(Cast *o, const void *self, ClusterRule rule) {
    int C, slots;
    attn_cast.clusters(self, &C, &slots);
    assert_int_equal(C, o->C);
    int *clusters = buffer((size_t)(C * slots) * sizeof *clusters),
        *list = buffer((size_t)(C * o->k) * 4);
    int *size = buffer((size_t)C * sizeof *size);
    real *affinities = buffer((size_t)(o->N * C) * sizeof *affinities);
    choose(o, self, &(AttnTap){clusters, affinities});
    for (int n = 0; n < o->N; n++)
        for (int c = 0; c < C; c++)
            assert_true(fabs((double)affinities[n * C + c] - affinity(o, n, c)) < 2e-5);
    Arena a = {0};
    ClusterScratch s;
    cluster_place(&s, &a, o->N);
    const size_t bytes = a.used;
    a = (Arena){buffer(bytes), 0, bytes};
    void *memory = a.base;
    cluster_place(&s, &a, o->N);
    real *by_cluster = buffer((size_t)(o->N * C) * sizeof *by_cluster);
    transpose(by_cluster, o->N, affinities, C, o->N, C);
    cluster_choose(rule, list, size, by_cluster, o->N, &s, o->N, C, o->k);
    for (int c = 0; c < C; c++)
        for (int i = 0; i < slots; i++)
            assert_int_equal(clusters[c * slots + i], i < size[c] ? list[c * o->k + i] : -1);
    free(clusters), free(list), free(size), free(affinities), free(by_cluster), free(memory);
}

/* x W^T + b */
static real *projected(const Cast *o, const real *W, const real *b) {
    const int d = o->h * o->e;
    real *y = buffer((size_t)(o->N * d) * sizeof *y);
    for (int n = 0; n < o->N; n++)
        for (int i = 0; i < d; i++)
            y[n * d + i] = (real)(dot(o->X + n * d, W + i * d, d) + (double)b[i]);
    return y;
}

static void cast_reports_what_it_chose(void **state) {
    (void)state;
    static const char *const fns[] = {"softmax", "laplace"}, *const rules[] = {"topk", "sa_topk"};
    for (int i = 0; i < 40; i++) {
        Draws d = draws_open("tap", (uint64_t)i);
        Cast o = {.N = draw_size(&d, 30), .C = draw_size(&d, 6), .h = draw_int(&d, 1, 3)};
        o.e = draw_int(&d, 1, 5), o.fn = fns[i % 2], o.phi_b = REAL(0.3);
        const int width = o.h * o.e, longest = o.N + 7 * (i % 3);
        o.k = (o.N + o.C - 1) / o.C;
        o.X = draw(&d, o.N * width), o.S = draw(&d, o.C * width), o.phi_w = draw(&d, width);
        for (int j = 0; j < 2; j++) o.W[j] = draw(&d, width * width), o.b[j] = draw(&d, width);
        o.Q = projected(&o, o.W[0], o.b[0]), o.K = projected(&o, o.W[1], o.b[1]);
        char keys[200];
        snprintf(keys, sizeof keys,
                 "{\"clusters\":%d,\"cluster_size\":\"length\",\"attention_fn\":\"%s\","
                 "\"mechanism\":\"%s\"}",
                 o.C, o.fn, rules[i / 2 % 2]);
        Err err = {0};
        const AttnShape shape = {width, o.h, o.e, longest, longest};
        void *self = configured(&attn_cast, &shape, keys, &err);
        if (!self) fail_msg("%s", err.text);
        check_tap(&o, self, (ClusterRule)(i / 2 % 2));
        free(self), free(o.X), free(o.Q), free(o.K), free(o.S), free(o.phi_w);
        for (int j = 0; j < 2; j++) free(o.W[j]), free(o.b[j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(needs_grow_with_length),
        cmocka_unit_test(nothing_left_is_an_error),
        cmocka_unit_test(cast_reports_what_it_chose),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
