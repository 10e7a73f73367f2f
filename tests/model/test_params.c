/* Weights from files: what must be there, and what is drawn where it is not. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_made_where_weights_lack_them),
        cmocka_unit_test(what_is_trained_must_be_there),
        cmocka_unit_test(averages_are_taken_and_not_read),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
