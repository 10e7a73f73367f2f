/* Initial values; and weights from files: what must be there, and what is drawn where it is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "model/params.h"
#include "scratch.h"

enum { SEED = 7 };

/* A trained parameter, and a draw of `rows` rows. */
static Params registry(int rows) {
    Params p = {0};
    const ParamSpec trained = {"weight", 2, {3, 4}, {INIT_XAVIER, 0}, PARAM_TRAINED};
    const ParamSpec drawn = {"planes", 2, {rows, 5}, {INIT_NORMAL, 1}, PARAM_DRAWN};
    params_add(&p, "", &trained);
    params_add(&p, "", &drawn);
    return p;
}

static real *vector(const Params *p) { return mem_alloc(p->total, sizeof(real)); }

/* A file with the first `count` parameters of a registry, drawn from another seed. */
static const char *file_with(const Params *p, real *w, int count) {
    StTensor t[2];
    char names[2][96];
    Err err;
    const char *path = scratch("weights.safetensors");
    params_init(p, w, SEED + 1);
    params_tensors(p, w, "", 0, t, names);
    if (!st_write(path, KIND_TENSORS, t, count, NULL, 0, &err)) fail_msg("%s", err.text);
    return path;
}

static void check(int rows_there, int count, bool drawn) {
    Params there = registry(rows_there), here = registry(2);
    real *was = vector(&there), *now = vector(&here), *expected = vector(&here);
    StFile f;
    Err err;
    assert_true(st_open(&f, file_with(&there, was, count), &err));
    params_init(&here, expected, SEED);
    assert_true(params_take(&here, now, &f, SEED, &err));
    const Param *weight = &here.list[0], *planes = &here.list[1];
    assert_int_equal(params_lacks(planes, &f), drawn);
    assert_false(params_lacks(weight, &f));
    assert_memory_equal(now + weight->at, was + weight->at, weight->n * sizeof *now);
    assert_memory_equal(now + planes->at, (drawn ? expected : was) + planes->at,
                        planes->n * sizeof *now);
    st_close(&f);
    mem_free(was), mem_free(now), mem_free(expected);
    params_free(&there), params_free(&here);
}

static void draws_are_made_where_weights_lack_them(void **state) {
    (void)state;
    check(2, 2, false);
    check(2, 1, true);
    check(3, 2, true); /* of another shape */
}

/* A run's own checkpoint has all of them, and a trained parameter is never drawn. */
static void what_is_trained_must_be_there(void **state) {
    (void)state;
    Params p = registry(2);
    real *w = vector(&p);
    StFile f;
    Err err;
    assert_true(st_open(&f, file_with(&p, w, 1), &err));
    assert_false(params_read(&p, w, &f, &err));
    assert_non_null(strstr(err.text, "planes"));
    st_close(&f);
    assert_true(st_open(&f, file_with(&p, w, 0), &err));
    assert_false(params_take(&p, w, &f, SEED, &err));
    assert_non_null(strstr(err.text, "weight"));
    st_close(&f);
    mem_free(w);
    params_free(&p);
}

/* Averages are what is looked at; what a run goes on from are the weights themselves. */
static void averages_are_taken_and_not_read(void **state) {
    (void)state;
    Params p = registry(2);
    real *plain = vector(&p), *average = vector(&p), *w = vector(&p);
    StTensor t[3];
    char names[3][96];
    StFile f;
    Err err;
    const char *path = scratch("averages.safetensors");
    params_init(&p, plain, SEED);
    params_init(&p, average, SEED + 1);
    const int n = params_tensors(&p, plain, "", 0, t, names);
    const int averages =
        params_tensors(&p, average, PARAMS_AVERAGE, PARAM_TRAINED, t + n, names + n);
    assert_int_equal(averages, 1);
    assert_true(st_write(path, KIND_TENSORS, t, n + averages, NULL, 0, &err));
    assert_true(st_open(&f, path, &err));
    assert_true(params_read(&p, w, &f, &err));
    assert_memory_equal(w, plain, p.total * sizeof *w);
    assert_true(params_take(&p, w, &f, SEED, &err));
    const Param *weight = &p.list[0], *planes = &p.list[1];
    assert_memory_equal(w + weight->at, average + weight->at, weight->n * sizeof *w);
    assert_memory_equal(w + planes->at, plain + planes->at, planes->n * sizeof *w);
    st_close(&f);
    mem_free(plain), mem_free(average), mem_free(w);
    params_free(&p);
}

/* ---- initial values ---- */

/* One parameter's, of that seed; to be freed. */
static real *initial(const char *name, int a, int b, int c, Init init, uint64_t seed) {
    Params p = {0};
    const ParamSpec spec = {name, 3, {a, b, c}, init, PARAM_DRAWN};
    params_add(&p, "", &spec);
    real *w = vector(&p);
    params_init(&p, w, seed);
    params_free(&p);
    return w;
}

/* The same ones for a seed and a name, others for another. */
static void hangs_on_seed_and_name(int a, int b, int c, Init init) {
    const size_t bytes = (size_t)(a * b * c) * sizeof(real);
    real *w = initial("w", a, b, c, init, SEED), *same = initial("w", a, b, c, init, SEED);
    real *seed = initial("w", a, b, c, init, SEED + 1), *name = initial("v", a, b, c, init, SEED);
    assert_memory_equal(w, same, bytes);
    assert_memory_not_equal(w, seed, bytes);
    assert_memory_not_equal(w, name, bytes);
    mem_free(w), mem_free(same), mem_free(seed), mem_free(name);
}

/* The mean of x^power of column i of rows of e, or of all columns. */
static double moment(const real *x, int rows, int e, int i, int power) {
    double sum = 0;
    for (int at = i < 0 ? 0 : i; at < rows * e; at += i < 0 ? 1 : e)
        sum += pow((double)x[at], power) / (i < 0 ? rows * e : rows);
    return sum;
}

/* Five times the mean's standard deviation is allowed. */
static void are_normal(const real *x, int rows, int e) {
    const double off = 5 / sqrt(rows * e);
    assert_true(fabs(moment(x, rows, e, -1, 1)) < off);
    assert_true(fabs(moment(x, rows, e, -1, 2) - 1) < sqrt(2) * off);
    assert_true(fabs(moment(x, rows, e, -1, 4) - 3) < sqrt(96) * off);
    for (int i = 0; i < e; i++) assert_true(fabs(moment(x, rows, e, i, 2) - 1) < sqrt(2 * e) * off);
}

static void uniform(void **state) {
    (void)state;
    enum { ROWS = 30, COLUMNS = 500, PARTS = 10, EACH = ROWS * COLUMNS / PARTS };
    const Init init = {INIT_UNIFORM, 0.2};
    int part[PARTS] = {0};
    real *x = initial("w", 1, ROWS, COLUMNS, init, SEED);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(fabs((double)x[i]) <= (double)(real)0.2);
        part[(int)fmin(floor(((double)x[i] / 0.2 + 1) / 2 * PARTS), PARTS - 1)]++;
    }
    for (int i = 0; i < PARTS; i++) assert_true(abs(part[i] - EACH) < 5 * sqrt(EACH));
    mem_free(x);
    hangs_on_seed_and_name(1, 3, 5, init);
}

static void hyperplanes(void **state) {
    (void)state;
    enum { H = 3, BITS = 900, E = 4 };
    const Init init = {INIT_HYPERPLANES, 1};
    real *x = initial("w", H, BITS, E + 1, init, SEED),
         *normals = mem_alloc(H * BITS * E, sizeof(real));
    for (int r = 0; r < H * BITS; r++) {
        memcpy(normals + r * E, x + r * (E + 1), E * sizeof *x);
        assert_true(x[r * (E + 1) + E] == 0);
    }
    are_normal(normals, H * BITS, E);
    mem_free(x), mem_free(normals);
    hangs_on_seed_and_name(2, 3, 5, init);
}

static double cosine(const real *x, const real *y, int e) {
    double xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < e; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xy / sqrt(xx * yy);
}

/* Rows of a head that stand in one block of e are orthogonal, and no others are. */
static void check_blocks(int h, int m, int e) {
    const double bar = sizeof(real) == 8 ? 1e-13 : 1e-6;
    real *x = initial("w", h, m, e, (Init){INIT_ORTHOGONAL, 0}, SEED);
    for (int r = 0; r < h * m; r++)
        for (int s = 0; s < r; s++) {
            const bool together = r / m == s / m && r % m / e == s % m / e;
            const double along = fabs(cosine(x + r * e, x + s * e, e));
            if (together ? !(along < bar) : !(along > bar))
                fail_msg("(%d,%d,%d): rows %d and %d have the cosine %g", h, m, e, r, s, along);
        }
    mem_free(x);
}

/* Each row is as long as a vector of e normals, whose square has the mean e and the variance 2 e:
 * so each element by itself is normal. */
static void orthogonal(void **state) {
    (void)state;
    enum { H = 40, M = 100, E = 8 };
    const Init init = {INIT_ORTHOGONAL, 0};
    check_blocks(3, 20, 8); /* the last block is cut */
    check_blocks(2, 64, 64);
    check_blocks(3, 5, 16); /* less than a block */
    check_blocks(1, 130, 33);
    check_blocks(2, 7, 2);
    check_blocks(3, 5, 1);
    real *x = initial("w", H, M, E, init, SEED);
    double mean = 0, squares = 0;
    for (int r = 0; r < H * M; r++) {
        double length = 0;
        for (int i = 0; i < E; i++) length += (double)x[r * E + i] * (double)x[r * E + i];
        mean += length / (H * M), squares += length * length / (H * M);
    }
    assert_true(fabs(mean - E) < 5 * sqrt(2.0 * E / (H * M)));
    assert_true(fabs(squares - mean * mean - 2 * E) < 0.15 * 2 * E);
    are_normal(x, H * M, E);
    for (int r = 0; r < M; r++) /* of another head others */
        assert_true(fabs(cosine(x + r * E, x + (M + r) * E, E)) < 1 - 1e-6);
    mem_free(x);
    hangs_on_seed_and_name(2, 3, 5, init);
}

/* Rows are as alike as they are near, and no nearer for being early or late. */
static void smooth(void **state) {
    (void)state;
    enum { ROWS = 64, E = 4000 };
    const double lengths = 8, off = 5 / sqrt(E);
    real *x = initial("w", 1, ROWS, E, (Init){INIT_SMOOTH, lengths}, SEED);
    for (int i = 0; i < ROWS; i++) {
        double squares = 0;
        for (int k = 0; k < E; k++) squares += pow((double)x[i * E + k], 2) / E;
        assert_true(fabs(squares - 1) < off);
        for (int j = 0; j < i; j++) {
            const double apart = (i - j) * lengths / ROWS;
            assert_true(fabs(cosine(x + i * E, x + j * E, E) - exp(-apart * apart / 2)) < off);
        }
    }
    mem_free(x);
    hangs_on_seed_and_name(1, 3, 5, (Init){INIT_SMOOTH, lengths});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform),
        cmocka_unit_test(hyperplanes),
        cmocka_unit_test(orthogonal),
        cmocka_unit_test(smooth),
        cmocka_unit_test(draws_are_made_where_weights_lack_them),
        cmocka_unit_test(what_is_trained_must_be_there),
        cmocka_unit_test(averages_are_taken_and_not_read),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
