/* What is exported of a checkpoint: averages of weights where it has them, and all that is not the
 * optimiser's. */
#include "export/export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scratch.h"
#include "train/source.h"

enum { N = 6 };

/* As train/state.h has it, as far as an export looks at it. */
static const char *checkpoint(void) {
    static const real plain[N] = {1, 2, 3, 4, 5, 6}, average[N] = {6, 5, 4, 3, 2, 1};
    static const int64_t update = 77, shape[] = {2, 3}, one = 1;
    const char *path = scratch("there.safetensors");
    const StTensor t[] = {st_real_tensor("fc1.weight", plain, 2, shape),
                          st_real_tensor("state.ema.fc1.weight", average, 2, shape),
                          st_real_tensor("state.m.fc1.weight", plain, 2, shape),
                          st_real_tensor("last.bn.running_var", plain + 3, 1, shape),
                          st_real_tensor("last.g", plain + 1, 0, shape),
                          st_tensor("state.update", DT_I64, 1, &one, &update)};
    const StMeta meta[] = {
        {"format", "cast-checkpoint-1"},
        {"config", "{\"task\":\"listops\",\"model\":{}}"},
        {"data.test", "0123abcd"},
        {"kernels", "some"},
        {"set", "{\"vocab\":1,\"classes\":1,\"per_example\":1,\"longest\":1,"
                "\"class_names\":[\"a\"]}"}}; /* not of a task with classes of its own */
    Err err;
    if (!st_write(path, KIND_CHECKPOINT, t, 6, meta, 5, &err)) fail_msg("%s", err.text);
    return path;
}

static void has(const StFile *f, const char *name, size_t n, real first) {
    const StTensor *t = st_find(f, name);
    assert_non_null(t);
    assert_int_equal(t->bytes, n * sizeof(real));
    assert_true(*(const real *)t->data == first);
}

static void test_weights(void **state) {
    const ExportRequest r = {.place = checkpoint(), .out = scratch("out")};
    Source s;
    StFile f;
    Err err;
    (void)state;
    if (!export_model(&r, &err)) fail_msg("%s", err.text);
    assert_true(source_open(&s, &f, scratch("out.safetensors"), SOURCE_BEST, &err));
    assert_int_equal(f.ntensors, 3);
    has(&f, "fc1.weight", N, 6);
    has(&f, "last.bn.running_var", 2, 4);
    has(&f, "last.g", 1, 2);
    assert_int_equal(s.update, 77);
    assert_string_equal(s.which, "weights");
    assert_string_equal(st_meta(&f, "data.test"), "0123abcd");
    assert_string_equal(st_meta(&f, "kernels"), "some");
    assert_null(st_meta(&f, "data.train"));
    assert_null(st_meta(&f, "set"));
    assert_non_null(s.run.config);
    st_close(&f);
    source_close(&s);
}

/* A config that says nothing leaves a card with little in it, and no reader. */
static void test_poor_config(void **state) {
    ExportRequest r = {.place = checkpoint(), .out = scratch("poor"), .python = true};
    Err err;
    size_t size;
    (void)state;
    assert_false(export_model(&r, &err));
    assert_int_equal(err.code, EX_CONFIG);
    r.python = false;
    assert_true(export_model(&r, &err));
    char *card = (char *)scratch_read(scratch("poor.md"), &size);
    card[size - 1] = '\0';
    assert_non_null(strstr(card, "- listops\n---\n# poor\n"));
    assert_non_null(strstr(card, "| weights | checkpoint, of update 77 |"));
    assert_null(strstr(card, "| model |"));
    free(card);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_poor_config),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
