/* What a query does not see must not change a bit of what it makes: weights that are exactly 0. */
#include <float.h>
#include <math.h>

#include "ops/attend_case.h"

#define LARGEST (sizeof(real) == 8 ? (real)DBL_MAX : (real)FLT_MAX)

/* A band that is wide enough for all is no band. */
static void wide_bands(void **state) {
    (void)state;
    for (int i = 0; i < 2 * COUNT(sizes); i++) {
        Case all = band_case(i * COUNT(bands)), wide;
        all.band = ATTEND_ALL;
        wide = all;
        wide.band = (AttendBand){1 - all.n, all.m - 1};
        open_case(&all), open_case(&wide);
        for (int whole = 0; whole < 2; whole++) {
            forward(&all, all.n, all.got[O], all.lse), backward(&all, whole);
            forward(&wide, all.n, wide.got[O], wide.lse), backward(&wide, whole);
            for (int j = 0; j < RESULTS; j++)
                assert_memory_equal(all.got[j], wide.got[j], all.size[j] * sizeof(real));
        }
        close_case(&all), close_case(&wide);
    }
}

/* Whether products of query i's tile read key j: whole 16s, from the first key that the tile's
 * queries see to the last. What they read may be as large as it likes; the rest may be NaN. */
static bool is_read(const Case *c, int i, int j) {
    const int block = c->band.block > 1 ? c->band.block : 1, far = block > 1 ? block : c->n;
    const int start = i / far * far, r0 = start + (i - start) / ATTEND_TILE * ATTEND_TILE;
    const int end = start + far < c->n ? start + far : c->n;
    const int last = r0 + ATTEND_TILE < end ? r0 + ATTEND_TILE - 1 : end - 1;
    const int from = (r0 / block + c->band.first) * block;
    const int to = (last / block + c->band.last + 1) * block - 1;
    return (from > 0 ? from : 0) / 16 <= j / 16 && j / 16 <= (to < c->m ? to : c->m - 1) / 16 &&
           to >= 0;
}

static void fill(const Case *c, int input, int row, real value) {
    const int d = c->h * c->e;
    for (int i = 0; i < d; i++) c->in[input][row * d + i] = value;
}

static void plant_keys(const Case *c, int i, real k) {
    for (int j = 0; j < c->m; j++) {
        if (sees(c, i, j)) continue;
        fill(c, K, j, is_read(c, i, j) ? k : (real)NAN);
        fill(c, V, j, is_read(c, i, j) ? LARGEST : (real)NAN);
    }
}
static void plant_queries(const Case *c, int j) {
    for (int i = 0; i < c->n; i++) {
        if (sees(c, i, j)) continue;
        fill(c, Q, i, is_read(c, i, j) ? LARGEST : (real)NAN);
        fill(c, GO, i, is_read(c, i, j) ? -LARGEST : (real)NAN);
    }
}

/* What a case without plants held and made. */
typedef struct Kept {
    real *in[INPUTS], *got[RESULTS];
} Kept;

static real *copy(const real *x, size_t n) { return memcpy(reals(n), x, n * sizeof *x); }

static Kept keep(const Case *c) {
    Kept k;
    for (int i = Q; i <= V; i++) k.in[i] = copy(c->in[i], c->size[i < K ? DQ : DK]);
    for (int i = 0; i < RESULTS; i++) k.got[i] = copy(c->got[i], c->size[i]);
    return k;
}
static void replant(const Case *c, const Kept *k) {
    for (int i = Q; i <= V; i++)
        memcpy(c->in[i], k->in[i], c->size[i < K ? DQ : DK] * sizeof(real));
}
static void drop(Kept *k) {
    for (int i = Q; i <= V; i++) free(k->in[i]);
    for (int i = 0; i < RESULTS; i++) free(k->got[i]);
}

/* The same bits, but for the sign of a zero. */
static void same(const Case *c, const Kept *k, int what, int row, int width) {
    for (int i = row * width; i < (row + 1) * width; i++)
        if (!(c->got[what][i] == k->got[what][i]))
            fail_msg("%s: %s of row %d was %g, with what it does not see changed it is %g",
                     describe(c), names[what], row, (double)k->got[what][i],
                     (double)c->got[what][i]);
}

static void unseen_keys(const Case *c, const Kept *k, int i, bool whole) {
    const real plants[] = {(real)NAN, INFINITY, -LARGEST, REAL(1e30)};
    for (int j = 0; j < COUNT(plants); j++) {
        plant_keys(c, i, plants[j]);
        forward(c, c->n, c->got[O], c->lse);
        same(c, k, O, i, c->h * c->e);
        if (isfinite(plants[j])) {
            backward(c, whole);
            same(c, k, DQ, i, c->h * c->e);
            for (int head = 0; head < c->h; head++) same(c, k, DA, head * c->n + i, 1);
        }
        replant(c, k);
    }
}

/* Of the backward pass alone: forward takes a tile's shift from all of its queries. */
static void unseen_queries(const Case *c, const Kept *k, int j, bool whole) {
    plant_queries(c, j);
    backward(c, whole);
    same(c, k, DK, j, c->h * c->e);
    same(c, k, DV, j, c->h * c->e);
    replant(c, k);
}

/* Every weight of what is not seen is exactly 0. */
static void unseen(void **state) {
    (void)state;
    for (int i = 0; i < 2 * BAND_CASES; i++) {
        const bool whole = i % 2;
        Case c = band_case(i / 2);
        open_case(&c);
        forward(&c, c.n, c.got[O], c.lse);
        backward(&c, whole);
        Kept k = keep(&c);
        for (int j = i % 13 % c.m; j < c.m; j += 13 + c.m / 16) unseen_queries(&c, &k, j, whole);
        for (int j = i % 13 % c.n; j < c.n; j += 13 + c.n / 16) unseen_keys(&c, &k, j, whole);
        drop(&k);
        close_case(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_bands),
        cmocka_unit_test(unseen),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
