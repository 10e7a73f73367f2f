/* Tiled attention against the definition in double: rectangles, lists, bands, and sizes and
 * magnitudes beyond what the gradient checks can afford. */
#include <math.h>

#include "ops/attend_case.h"

/* Causal. */
#define UP_TO_ITSELF ((AttendBand){-ATTEND_FAR, 0})

#define BAR (sizeof(real) == 8 ? 1e-11 : 2e-4)

/* ---- the definition ---- */

/* Where query i and key j of a head begin in their tables. */
static size_t query_at(const Case *c, int head, int i) {
    return (size_t)((c->queries ? c->queries[i] : i) * c->h + head) * (size_t)c->e;
}
static size_t key_at(const Case *c, int head, int j) {
    return (size_t)((c->keys ? c->keys[j] : j) * c->h + head) * (size_t)c->e;
}

static double dot(const real *x, const real *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static const double mu = 0.70710678118654752440, spread = 2.50662827463100050242;

static void laplace(const Case *c, int i, double *p, double *slope) {
    for (int j = 0; j < c->m; j++) {
        const double z = (mu - p[j]) * spread;
        p[j] = sees(c, i, j) ? 0.5 * erfc(z) : 0;
        slope[j] = sees(c, i, j) ? sqrt(2) * exp(-z * z) : 0;
    }
}

static void softmax(const Case *c, int i, double *p) {
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < c->m; j++)
        if (sees(c, i, j)) top = fmax(top, p[j]);
    for (int j = 0; j < c->m; j++) sum += p[j] = sees(c, i, j) ? exp(p[j] - top) : 0;
    for (int j = 0; j < c->m; j++)
        if (sum > 0) p[j] /= sum;
}

/* P and its derivative by the score, of row i. */
static void probabilities(const Case *c, int head, int i, double *p, double *slope) {
    const real *q = c->in[Q] + query_at(c, head, i);
    for (int j = 0; j < c->m; j++) p[j] = dot(q, c->in[K] + key_at(c, head, j), c->e) / sqrt(c->e);
    if (c->fn == ATTN_LAPLACE)
        laplace(c, i, p, slope);
    else
        softmax(c, i, p);
}

static void define_row(const Case *c, int head, int i, const double *p, const double *slope) {
    const int e = c->e;
    const size_t at = query_at(c, head, i), out = (size_t)(i * c->h + head) * (size_t)e;
    const double a = c->a ? (double)c->in[A][head * c->n + i] : 1;
    const real *q = c->in[Q] + at, *go = c->in[GO] + at;
    double D = 0;
    for (int j = 0; j < c->m; j++) D += p[j] * dot(go, c->in[V] + key_at(c, head, j), e);
    c->want[DA][head * c->n + i] = D;
    for (int j = 0; j < c->m; j++) {
        const size_t to = key_at(c, head, j);
        const double dp = dot(go, c->in[V] + to, e);
        const double ds = a * (c->fn == ATTN_LAPLACE ? slope[j] * dp : p[j] * (dp - D)) / sqrt(e);
        for (int x = 0; x < e; x++) {
            c->want[O][out + (size_t)x] += p[j] * (double)c->in[V][to + (size_t)x];
            c->want[DQ][at + (size_t)x] += ds * (double)c->in[K][to + (size_t)x];
            c->want[DK][to + (size_t)x] += ds * (double)q[x];
            c->want[DV][to + (size_t)x] += a * p[j] * (double)go[x];
        }
    }
}

static void define(const Case *c) {
    const size_t bytes = ((size_t)c->m + 1) * sizeof(double);
    double *p = poisoned(malloc(bytes), bytes), *slope = poisoned(malloc(bytes), bytes);
    for (int head = 0; head < c->h; head++)
        for (int i = 0; i < c->n; i++) {
            probabilities(c, head, i, p, slope);
            define_row(c, head, i, p, slope);
        }
    free(p), free(slope);
}

/* ---- what is made against it ---- */

/* Rounding of a score is rounding of an exponent; and where a row's one gradient of a score should
 * vanish, it is multiplied by a q or k. */
static void compare(const Case *c, int what, const char *how) {
    const double scale = fmax(1, fmax(c->scale, c->mean));
    double worst = 0, most = what == DQ || what == DK ? scale : 1;
    for (size_t i = 0; i < c->size[what]; i++) {
        const double off = fabs((double)c->got[what][i] - c->want[what][i]);
        if (!(off <= worst)) worst = isnan(off) ? INFINITY : off;
        most = fmax(most, fabs(c->want[what][i]));
    }
    if (worst > BAR * scale * most)
        fail_msg("%s, %s: %s is off by %.2g of %.2g", describe(c), how, names[what], worst, most);
}

/* Whether jobs cut no block of the band in two. */
static bool jobs_are_whole(const Case *c) {
    return c->band.block < 2 || ATTEND_ROWS % c->band.block == 0 || c->n <= ATTEND_ROWS;
}

/* Jobs give the same bits, if so; Laplace leaves lse as it was. */
static void check_jobs(const Case *c) {
    const size_t rows = (size_t)(c->h * c->n);
    real *o = reals(attend_padded(c->n) * (size_t)(c->h * c->e)), *lse = reals(rows);
    if (c->fn == ATTN_LAPLACE && memcmp(lse, c->lse, rows * sizeof *lse) != 0)
        fail_msg("%s: lse was written", describe(c));
    forward(c, ATTEND_ROWS, o, lse);
    if (jobs_are_whole(c) && (memcmp(o, c->got[O], c->size[O] * sizeof *o) != 0 ||
                              memcmp(lse, c->lse, rows * sizeof *lse) != 0))
        fail_msg("%s: jobs differ from one call", describe(c));
    memcpy(c->got[O], o, c->size[O] * sizeof *o);
    compare(c, O, "in jobs");
    free(o), free(lse);
}

static void zero(const Case *c, int what, int at, int n) {
    for (int i = at; i < at + n; i++)
        if (c->got[what][i] != 0) fail_msg("%s: %s[%d] is not 0", describe(c), names[what], i);
}

/* Whether any of these queries sees any of these keys. */
static bool any_sees(const Case *c, int i, int queries, int j, int keys) {
    for (; queries > 0; i++, queries--)
        for (int k = 0; k < keys; k++)
            if (sees(c, i, j + k)) return true;
    return false;
}

/* Who sees nothing and what nobody sees have exactly nothing. */
static void check_blind(const Case *c) {
    const int d = c->h * c->e;
    for (int i = 0; i < c->n; i++) {
        if (any_sees(c, i, 1, 0, c->m)) continue;
        zero(c, O, i * d, d);
        for (int head = 0; head < c->h; head++) {
            zero(c, DA, head * c->n + i, 1);
            if (c->fn == ATTN_SOFTMAX) assert_true(c->lse[head * c->n + i] == 0);
        }
        if (!c->queries) zero(c, DQ, i * d, d);
    }
    for (int j = 0; j < c->m && !c->keys; j++) {
        if (any_sees(c, 0, c->n, j, 1)) continue;
        zero(c, DK, j * d, d);
        zero(c, DV, j * d, d);
    }
}

static void check(Case c) {
    open_case(&c);
    define(&c);
    forward(&c, c.n, c.got[O], c.lse);
    compare(&c, O, "forward");
    check_jobs(&c);
    for (int whole = 0; whole < 2; whole++) {
        memset(c.got[DA], 0xff, c.size[DA] * sizeof(real));
        backward(&c, whole);
        for (int i = DA; i < RESULTS; i++) compare(&c, i, whole ? "whole rows" : "tiles");
        check_blind(&c);
    }
    close_case(&c);
}

/* ---- sizes ---- */

/* Whole rows of more than 4096 keys lie in tiles of fewer rows. */
static void long_sequences(void **state) {
    (void)state;
    check((Case){.n = 1030, .m = 1030, .e = 3, .band = ATTEND_ALL});
    check((Case){.fn = ATTN_LAPLACE, .n = 1030, .m = 1030, .e = 3, .band = ATTEND_ALL});
    check((Case){.n = 2100, .m = 2100, .e = 2, .band = ATTEND_ALL});
    check((Case){.n = 100, .m = 4100, .e = 2, .band = {-70, 1300}});
    check((Case){.n = 1500, .m = 1100, .e = 1, .band = UP_TO_ITSELF});
    check((Case){.n = 700, .m = 700, .e = 2, .band = {-ATTEND_FAR, 0, .block = 64}});
    check((Case){.n = 700, .m = 700, .e = 2, .band = {0, ATTEND_FAR, .block = 64}});
}

static void very_long_sequence(void **state) {
    (void)state;
    check((Case){.n = 4100, .m = 4100, .e = 1, .band = ATTEND_ALL});
}

/* Memory planned for the longest does for fewer keys, whose tiles have more rows. */
static void planned_for_more(void **state) {
    (void)state;
    check((Case){.n = 70, .m = 1000, .e = 2, .spare = 40, .band = ATTEND_ALL});
    check((Case){.n = 40, .m = 4090, .e = 1, .spare = 20, .band = {-ATTEND_FAR, 4000}});
    check((Case){.n = 17, .m = 5, .e = 3, .spare = 300, .band = {-2, 2}});
}

static void rectangles(void **state) {
    static const int queries[] = {0, 1, 15, 16, 17, 63, 64, 65, 130, 300};
    static const int keys[] = {0, 1, 15, 16, 17, 64, 65, 255, 256, 257, 530};
    (void)state;
    for (int i = 0; i < COUNT(queries) * COUNT(keys) * 2; i++) {
        Case c = {.fn = i % 2 ? ATTN_LAPLACE : ATTN_SOFTMAX, .band = ATTEND_ALL};
        c.n = queries[i / 2 % COUNT(queries)], c.m = keys[i / 2 / COUNT(queries)];
        c.h = 1 + i % 3, c.e = 1 + i % 4, c.lists = i / 2 % 7 % 4, c.a = i % 4 > 1;
        check(c);
    }
}

/* ---- bands ---- */

static void banded(void **state) {
    (void)state;
    for (int i = 0; i < BAND_CASES; i++) {
        Case c = band_case(i);
        c.lists = i / 2 % 7 % 4;
        check(c);
    }
}

static void up_to_itself(void **state) {
    static const int lengths[] = {1, 2, 16, 40, 65, 256, 300, 600};
    (void)state;
    for (int i = 0; i < COUNT(lengths) * COUNT(lengths); i++) {
        Case c = {.e = 3, .band = UP_TO_ITSELF, .lists = i % 4, .a = i / 2 % 2};
        c.fn = i % 3 ? ATTN_SOFTMAX : ATTN_LAPLACE;
        c.n = lengths[i % COUNT(lengths)], c.m = lengths[i / COUNT(lengths)];
        check(c);
    }
}

/* Scores of some thousands: a row's maximum may lie in any tile, and all before it vanish beside
 * it; and what is not seen may be far above or below what is. */
static void large_scores(void **state) {
    (void)state;
    check((Case){.n = 600, .m = 600, .e = 2, .scale = 30, .band = ATTEND_ALL});
    check((Case){.n = 17, .m = 17, .e = 4, .scale = 30, .band = ATTEND_ALL});
    for (int i = 0; i < BAND_CASES; i += 2) {
        Case c = band_case(i);
        c.scale = 30;
        check(c);
    }
    for (int first = -600; first < 600; first += 50)
        check((Case){.n = 140, .m = 900, .e = 1, .scale = 40, .band = {first, first + 560}});
    for (int last = 150; last < 300; last += 7) /* rows all below 0, and no key in the last tile */
        check((Case){.n = 64, .m = 600, .e = 1, .scale = 10, .mean = 60, .band = {0, last}});
}

/* Where a pack's backward pass is left out. */
static void no_gradients(void **state) {
    Case c = {.n = 21, .m = 35, .h = 2, .e = 3, .lists = 3};
    Pass p;
    (void)state;
    open_case(&c);
    open_pass(&p, &c, true, true);
    attend_no_gradients(&p.pack);
    for (int i = DQ; i < RESULTS; i++) memset(c.got[i], 0, c.size[i] * sizeof(real));
    attend_unpack(&p.pack, c.got[DQ], c.got[DK], c.got[DV]);
    for (int i = DQ; i < RESULTS; i++) zero(&c, i, 0, (int)c.size[i]);
    free(p.memory);
    close_case(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sequences),   cmocka_unit_test(very_long_sequence),
        cmocka_unit_test(planned_for_more), cmocka_unit_test(rectangles),
        cmocka_unit_test(banded),           cmocka_unit_test(up_to_itself),
        cmocka_unit_test(large_scores),     cmocka_unit_test(no_gradients),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
