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

#include "attention/cast_state.h"
#include "attention/cluster.h"
#include "attention/exact.h"
#include "core/gemm.h"
#include "core/lanes.h"
#include "ops/linear.h"
#include "sublayer.h"

static void names_are_found(void **state) {
    (void)state;
    int n = 0;
    for (; attn_table[n]; n++) {
        assert_ptr_equal(attn_find(attn_table[n]->name), attn_table[n]);
        for (int i = 0; i < n; i++)
            assert_string_not_equal(attn_table[i]->name, attn_table[n]->name);
        const AttnMech *m = attn_table[n];
        const char *const words[] = {m->title, m->reference, m->time, m->memory};
        for (int i = 0; i < 4; i++)
            if (!words[i] || !*words[i])
                fail_msg("%s: has no title, reference, time or memory", m->name);
        assert_true(attn_table[n]->projections && !(attn_table[n]->projections & ~ATTN_QKVO));
    }
    assert_true(n >= 3);
    assert_null(attn_find("none"));
    assert_null(attn_find(""));
}

/* What a mechanism trains of its own, with its defaults, cannot be swapped; and it says so. */
static bool trains_its_own(const AttnMech *m) {
    const AttnShape shape = {8, 2, 4, 16, 16, true};
    char text[MECH_TEXT];
    Err err = {0};
    snprintf(text, sizeof text, "\"type\":\"%s\"", m->name);
    void *self = mech_open(m, text, &shape, &err);
    if (!self) fail_msg("%s: %s", m->name, err.text);
    const int n = m->params ? m->params(self, NULL) : 0;
    ParamSpec *specs = calloc((size_t)n + 1, sizeof *specs);
    bool trains = false;
    if (n) m->params(self, specs);
    for (int i = 0; i < n; i++)
        trains |= specs[i].flags & PARAM_TRAINED && !(specs[i].flags & PARAM_APART);
    free(specs), free(self);
    return trains;
}

static void swaps_are_told(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        const AttnMech *m = attn_table[i];
        const bool fits = m->projections == ATTN_QKVO && !trains_its_own(m);
        assert_true(strlen(m->time) > 0 && strlen(m->memory) > 0);
        if (fits == (m->swap && (!strncmp(m->swap, "no", 2) || !strncmp(m->swap, "with", 4))))
            fail_msg("%s: swap is %s, but by its projections and parameters its weights %s those "
                     "of others; a reason why not begins with \"no\" or \"with\"",
                     m->name, m->swap ? m->swap : "NULL", fits ? "fit" : "do not fit");
    }
}

/* Memory is planned for the longest sequence, and every shorter one must fit in it. */
static void check_growth(const AttnMech *m, const char *keys) {
    enum { LONGEST = 4300 };
    const AttnShape shape = {6, 2, 3, LONGEST + 1, LONGEST, true};
    Err err = {0};
    void *self = mech_open(m, keys, &shape, &err);
    if (!self) fail_msg("%s %s: %s", m->name, keys, err.text);
    AttnMemory most = {0};
    for (int N = 1; N <= LONGEST + 1; N++) {
        const AttnMemory n = attn_memory(m, self, N);
        if (n.saved.used < most.saved.used || n.scratch.used < most.scratch.used ||
            n.job.used < most.job.used)
            fail_msg("%s %s: %d tokens need less than fewer tokens do", m->name, keys, N);
        most = n;
        assert_true(m->flops(self, N) > 0);
    }
    free(self);
}

static void needs_grow_with_length(void **state) {
    (void)state;
    for (int i = 0; attn_table[i]; i++) {
        char keys[MECH_TEXT];
        for (int v = 0; v < mech_variants(attn_table[i]); v += 5) {
            mech_print(keys, attn_table[i], v, (MechSizes){3, 1040});
            if (v == 0) check_growth(attn_table[i], "");
            if (!strstr(keys, "\"summaries\":false,\"intra\":false"))
                check_growth(attn_table[i], keys);
        }
    }
    check_growth(&attn_cast, "\"clusters\":1");
}

/* Counted by hand: width 8 in 2 heads of 4, documents of at most 16 tokens. */
typedef struct Count {
    const AttnMech *m;
    const char *keys; /* what is counted of each, in multiply-adds, is beside it */
    int N;
    double operations;
} Count;

static const Count counts[] = {
    /* scores of queries and keys, phi; pairs of 4 x 4 in 4 clusters, twice; summaries; mixture */
    {&attn_cast, "\"clusters\":4", 10, 2 * (640 + 80 + 2 * 512 + 128 + 320)},
    {&attn_cast, "\"clusters\":4", 3, 2 * (192 + 24 + 2 * 288 + 96 + 96)}, /* of 3 x 3 */
    {&attn_cast, "\"clusters\":4,\"intra\":false", 10, 2 * (640 + 80 + 128 + 320)},
    {&attn_cast, "\"clusters\":4,\"summaries\":false", 10, 2 * (640 + 80 + 2 * 512)},
    /* 10 tokens in clusters of 2.5, of which each token is in one */
    {&attn_cast, "\"clusters\":4,\"mechanism\":\"sa_topk\"", 10,
     2 * (640 + 80 + 2 * 200 + 80 + 320)},
    {&attn_full, "", 10, 2 * (2 * 800)},
    {&attn_naive, "", 10, 2 * (2 * 800)},
    {&attn_local, "\"window\":4", 10, 2 * (2 * 44 * 8)}, /* 5 of each token, but 6 at the ends */
    {&attn_local, "\"window\":5", 2, 2 * (2 * 4 * 8)},
    /* bits of hashes; scores and values of centroids */
    {&attn_clustered, "\"clusters\":3,\"bits\":5", 10, 2 * (400 + 2 * 240)},
    {&attn_clustered, "\"clusters\":3,\"bits\":5", 2, 2 * (80 + 2 * 32)},
    {&attn_i_clustered, "\"clusters\":3,\"bits\":5,\"top_k\":4", 10, 2 * (400 + 2 * 240 + 2 * 320)},
    {&attn_i_clustered, "\"clusters\":3,\"bits\":5,\"top_k\":4", 2, 2 * (80 + 2 * 32 + 2 * 32)},
    /* two rounds of hashes, 2 directions; of two chunks, or of all there are */
    {&attn_lsh, "\"rounds\":2,\"buckets\":4,\"chunk\":3", 10, 2 * 2 * (160 + 2 * 480)},
    {&attn_lsh, "\"rounds\":2,\"buckets\":4,\"chunk\":3", 5, 2 * 2 * (80 + 2 * 200)},
    /* two rounds of hashes of queries and keys; of a cluster */
    {&attn_smyrf, "\"rounds\":2,\"cluster_size\":4", 10, 2 * 2 * (2 * 80 + 2 * 320)},
    {&attn_smyrf, "\"rounds\":2,\"cluster_size\":4", 3, 2 * 2 * (2 * 24 + 2 * 72)},
    /* features of queries and keys, and two products with them */
    {&attn_performer, "\"features\":5", 10, 2 * (4 * 400)},
    {&attn_performer, "", 10, 2 * (4 * 640)}, /* 8 features */
    {&attn_linear, "", 10, 2 * (2 * 320 + 2 * 80)},
    /* two mixtures; scores, values */
    {&attn_linformer, "\"rank\":3", 10, 2 * (2 * 240 + 2 * 240)},
    /* queries on landmarks and landmarks on keys; landmarks on landmarks and Z (B V); 3 steps of 4
     * products a head; 5 taps */
    {&attn_nystrom, "\"landmarks\":4,\"pinv_iterations\":3,\"conv_kernel\":5", 10,
     2 * (2 * 320 + 2 * 320 + 2 * 128 + 2 * 3 * 4 * 64 + 400)},
    {&attn_nystrom, "\"landmarks\":4,\"conv_kernel\":5", 4, 2 * (2 * 128 + 160)}, /* exact */
};

static void operations_are_those_of_the_method(void **state) {
    (void)state;
    const AttnShape shape = {8, 2, 4, 16, 16, true};
    for (int i = 0; attn_table[i]; i++) {
        int rows = 0;
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
            const Count *c = &counts[j];
            Err err = {0};
            if (c->m != attn_table[i]) continue;
            void *self = mech_open(c->m, c->keys, &shape, &err);
            if (!self) fail_msg("%s %s: %s", c->m->name, c->keys, err.text);
            const double n = c->m->flops(self, c->N);
            if (n != c->operations)
                fail_msg("%s %s, %d tokens: %g operations for %g", c->m->name, c->keys, c->N, n,
                         c->operations);
            free(self);
            rows++;
        }
        if (!rows) fail_msg("%s: count its operations by hand", attn_table[i]->name);
    }
}

static void pairs_of_a_window_are_all_counted(void **state) {
    (void)state;
    const AttnShape shape = {.d = 3};
    const int lengths[] = {1, 2, 5, 9}, widths[] = {0, 1, 4, 5, 8, 9, 20, ATTEND_FAR};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t w = 0; w < 8 * 8; w++) {
            const AttendBand band = {.first = -widths[w / 8], .last = widths[w % 8]};
            int pairs = 0;
            for (int i = 0; i < lengths[l]; i++)
                pairs += attend_to(band, i, lengths[l]) - attend_from(band, i);
            assert_true(exact_flops(&shape, band, lengths[l]) == 4.0 * pairs * shape.d);
        }
}

static void nothing_left_is_an_error(void **state) {
    (void)state;
    const AttnShape shape = {4, 2, 2, 8, 8, true};
    Err err;
    assert_null(mech_open(&attn_cast, "\"summaries\":false,\"intra\":false", &shape, &err));
    assert_int_equal(err.code, EX_CONFIG);
    assert_non_null(strstr(err.text, "summaries"));
    assert_non_null(strstr(err.text, "intra"));
}

/* ---- the digest of choices ---- */

static uint64_t digest_of(const int *where, const int *what, int n, bool backwards) {
    AttnTrace trace = {0};
    for (int i = 0; i < n; i++) {
        const int at = backwards ? n - 1 - i : i;
        attn_trace_choice(&trace, where[at], what[at]);
    }
    return trace.digest;
}

/* It knows which choices were made, and not in which order. */
static void digest_knows_choices(void **state) {
    (void)state;
    enum { N = 200 };
    int where[N], what[N];
    for (int i = 0; i < N; i++) where[i] = i % 7, what[i] = i;
    const uint64_t all = digest_of(where, what, N, false);
    assert_true(digest_of(where, what, N, true) == all);
    for (int i = 0; i < N; i++) {
        where[i]++;
        assert_true(digest_of(where, what, N, false) != all);
        where[i]--, what[i] += N;
        assert_true(digest_of(where, what, N, false) != all);
        what[i] -= N;
    }
    assert_true(digest_of(what, where, N, false) != all);
}

/* ---- CAST's trace ---- */

static double dot(const real *a, const real *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* sum_h f_c(<x[n,h], S[:,h]> / tau)[c]: one of the two halves of step 3. */
static double half(const Sublayer *o, const real *x, int n, int c) {
    const Cast *s = o->self;
    const real *S = sublayer_own(o, SURROGATE);
    const int d = o->d, e = s->shape.e;
    double sum = 0;
    for (int head = 0; head < s->shape.h; head++) {
        double total = 0, own = 0;
        for (int i = 0; i < s->clusters; i++) {
            double a = dot(x + n * d + head * e, S + i * d + head * e, e) / sqrt(e);
            total += exp(a);
            if (i == c) own = a;
        }
        sum += s->fn ? 0.5 * erfc((sqrt(0.5) - own) * sqrt(2 * acos(-1))) : exp(own) / total;
    }
    return sum;
}

static double affinity(const Sublayer *o, const real *Q, const real *K, int n, int c) {
    const double phi = dot(o->X + n * o->d, sublayer_own(o, PHI_WEIGHT), o->d) +
                       (double)*sublayer_own(o, PHI_BIAS);
    const double gate = 1 / (1 + exp(-phi));
    return gate * half(o, Q, n, c) + (1 - gate) * half(o, K, n, c);
}

static void *buffer(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p) abort();
    return p;
}

/* X W^T + b */
static real *projected(const Sublayer *o, AttnProjection p) {
    const int d = o->d;
    real *y = buffer((size_t)(o->N * d) * sizeof *y);
    for (int n = 0; n < o->N; n++)
        for (int i = 0; i < d; i++)
            y[n * d + i] = (real)(dot(o->X + n * d, sublayer_linear(o, p, 0) + i * d, d) +
                                  (double)sublayer_linear(o, p, 1)[i]);
    return y;
}

static void check_affinities(const Sublayer *o) {
    const int C = ((const Cast *)o->self)->clusters;
    real *Q = projected(o, ATTN_Q), *K = projected(o, ATTN_K);
    for (int n = 0; n < o->N; n++)
        for (int c = 0; c < C; c++)
            assert_true(fabs((double)o->trace.affinities[n * C + c] - affinity(o, Q, K, n, c)) <
                        (sizeof(real) == 8 ? 1e-11 : 2e-5));
    free(Q), free(K);
}

/* The clusters are those that step 4 chooses from the affinities; slots beyond are -1. */
static void check_clusters(const Sublayer *o, int slots) {
    const Cast *cast = o->self;
    const int C = cast->clusters, k = cast_cluster_size(cast, o->N);
    int *list = buffer((size_t)(C * k) * sizeof *list), *size = buffer((size_t)C * sizeof *size);
    Arena a = {0};
    ClusterScratch s;
    cluster_layout(&s, &a, o->N);
    void *memory = buffer(a.used);
    a = (Arena){memory, 0, a.used};
    cluster_layout(&s, &a, o->N);
    real *by_cluster = buffer((size_t)(o->N * C) * sizeof *by_cluster);
    transpose(by_cluster, o->N, o->trace.affinities, C, o->N, C);
    for (int c = 0; c < C && cast->rule == CLUSTER_TOPK; c++)
        size[c] = cluster_top_k(list + c * k, by_cluster + c * o->N, &s, o->N, k);
    if (cast->rule != CLUSTER_TOPK) cluster_sa_top_k(list, size, by_cluster, o->N, &s, o->N, C, k);
    for (int c = 0; c < C; c++)
        for (int i = 0; i < slots; i++)
            assert_int_equal(o->trace.clusters[c * slots + i], i < size[c] ? list[c * k + i] : -1);
    free(list), free(size), free(by_cluster), free(memory);
}

static void cast_reports_what_it_chose(void **state) {
    (void)state;
    for (int i = 0; i < 96; i++) {
        Draws d = draws_open("trace", (uint64_t)i);
        const int N = draw_size(&d, 30), h = draw_int(&d, 1, 3), e = draw_int(&d, 1, 5);
        const int longest = N + 7 * (i % 3);
        const AttnShape shape = {h * e, h, e, longest, longest, i % 2};
        const MechSizes sizes = {draw_size(&d, 6), draw_size(&d, 6)};
        char keys[MECH_TEXT];
        Err err = {0};
        int C, slots;
        Sublayer o;
        mech_print(keys, &attn_cast, i, sizes);
        void *self = mech_open(&attn_cast, keys, &shape, &err);
        if (!self) continue;
        sublayer_open(&o, &attn_cast, self, N, &d);
        if (e % 2 == 0) sublayer_turn(&o); /* which is nothing to the choice */
        attn_cast.clusters(self, &C, &slots);
        o.trace.clusters = buffer((size_t)(C * slots) * sizeof(int));
        o.trace.affinities = buffer((size_t)(N * C) * sizeof(real));
        sublayer_forward(&o);
        check_affinities(&o);
        check_clusters(&o, slots);
        free(o.trace.clusters), free(o.trace.affinities), free(self);
        sublayer_close(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(swaps_are_told),
        cmocka_unit_test(needs_grow_with_length),
        cmocka_unit_test(operations_are_those_of_the_method),
        cmocka_unit_test(pairs_of_a_window_are_all_counted),
        cmocka_unit_test(nothing_left_is_an_error),
        cmocka_unit_test(digest_knows_choices),
        cmocka_unit_test(cast_reports_what_it_chose),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
