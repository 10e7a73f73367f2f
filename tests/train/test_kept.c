/* Checkpoints of the last validations: which are kept, and the mean of their weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "io/kind.h"
#include "train/kept.h"
#include "train/small.h"
#include "train/train.h"
#include "train/trained.h"

#define KEYS "\"batch\":4,\"steps\":14,\"lr\":0.05,\"eval_every\":3,\"log_every\":100,\"keep\":3"

/* The updates of the files that are there: "6 9 12". */
static void assert_kept(const char *dir, const char *want) {
    char got[256] = "", path[FILE_PATH_MAX];
    FileList paths;
    Err err;
    assert_true(kept_list(&paths, dir, &err));
    assert_int_equal(paths.n, kept_count(dir));
    for (int i = 0; i < paths.n; i++) {
        const char *digits = strstr(paths.name[i], "/at-") + 4;
        const size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%s%lld", n ? " " : "", strtoll(digits, NULL, 10));
        assert_true(kept_path(path, dir, strtoll(digits, NULL, 10), &err));
        assert_string_equal(path, paths.name[i]);
    }
    file_list_free(&paths);
    assert_string_equal(got, want);
}

/* A file that any program would know as a checkpoint. */
static void put(const char *dir, int64_t update) {
    const int64_t one = 1;
    const StTensor t = st_tensor("state.update", DT_I64, 1, &one, &update);
    char path[FILE_PATH_MAX];
    Err err;
    assert_true(kept_path(path, dir, update, &err));
    const StMeta meta = {"format", "cast-checkpoint-1"};
    if (!st_write(path, KIND_CHECKPOINT, &t, 1, &meta, 1, &err)) fail_msg("%s", err.text);
}

static void the_last_stay(void **state) {
    const char *dir = scratch_mkdir("pruned");
    Err err;
    (void)state;
    for (int64_t i = 0; i < 5; i++) put(dir, i ? 9000000000 / (10 * i) : 7);
    scratch_write("pruned/at-0000000008.safetensors", "the user's", 10);
    scratch_write("pruned/at-08.safetensors", "the user's", 10);
    assert_kept(dir, "7 225000000 300000000 450000000 900000000");
    assert_true(kept_prune(dir, 9, 900000000, &err));
    assert_kept(dir, "7 225000000 300000000 450000000 900000000");
    assert_true(kept_prune(dir, 2, 450000000, &err)); /* the run has left the last one's way */
    assert_kept(dir, "300000000 450000000");
    assert_true(kept_prune(dir, 2, 0, &err));
    assert_kept(dir, "");
    assert_true(file_exists(scratch("pruned/at-0000000008.safetensors")));
    assert_true(file_exists(scratch("pruned/at-08.safetensors")));
}

static void temporaries_go(void **state) {
    const char *dir = scratch_mkdir("tidied");
    const char *temp = scratch_write("tidied/at-0000000009.safetensors.tmp.1", "", 0);
    const char *theirs = scratch_write("tidied/at-9.safetensors.tmp.1", "", 0);
    (void)state;
    kept_tidy(dir);
    assert_false(file_exists(temp));
    assert_true(file_exists(theirs));
}

static void train(const Config *c, const char *dir, int stop_at) {
    const TrainRequest r = {.dir = scratch(dir), .command = "", .stop_at = stop_at, .brief = true};
    TrainEnd end;
    Err err;
    if (!train_run(c, &r, &end, &err)) fail_msg("%s", err.text);
}

static bool open_place(Trained *t, const char *place, bool average, Err *err) {
    static char at[1024];
    static char *const words[] = {at, NULL};
    snprintf(at, sizeof at, "%s", place);
    const TrainedRequest r = {.line = {words, 1, 0}, .average = average, .split = SPLIT_VAL};
    return trained_open(t, &r, err);
}

static void check_mean(const char *dir) {
    Trained t, one;
    FileList paths;
    Err err;
    if (!open_place(&t, dir, true, &err) || !kept_list(&paths, dir, &err)) fail_msg("%s", err.text);
    const size_t n = t.config.model.params.total;
    double *sum = mem_alloc(n, sizeof *sum);
    assert_int_equal(t.kept, 3);
    assert_string_equal(t.from.path, paths.name[2]);
    for (int k = 0; k < 3; k++) {
        if (!open_place(&one, paths.name[k], false, &err)) fail_msg("%s", err.text);
        for (size_t i = 0; i < n; i++) sum[i] += (double)one.w[i];
        assert_true(one.kept == 0 && memcmp(one.w, t.w, n * sizeof *t.w) != 0);
        trained_close(&one);
    }
    for (size_t i = 0; i < n; i++) assert_true(t.w[i] == (real)(sum[i] / 3));
    assert_ptr_equal(t.engine.w, t.w);
    mem_free(sum);
    file_list_free(&paths);
    trained_close(&t);
}

static void refuse(const char *dir, int code, const char *what) {
    Trained t;
    Err err;
    assert_false(open_place(&t, dir, true, &err));
    if (err.code != code || !strstr(err.text, what)) fail_msg("%d %s", err.code, err.text);
}

static void the_mean(void **state) {
    Config c;
    (void)state;
    small_data(24, 9, 5, false);
    for (int ema = 0; ema < 2; ema++) {
        const char *dir = ema ? "averaged" : "plain";
        small_config(&c, ema ? KEYS ",\"ema\":0.6" : KEYS, false);
        train(&c, dir, 5);
        assert_kept(scratch(dir), "3");
        train(&c, dir, 0);
        assert_kept(scratch(dir), "9 12 14");
        check_mean(scratch(dir));
        config_free(&c);
    }
    put(scratch("plain"), 11);
    refuse(scratch("plain"), EX_DATAERR, "at-0000000011.safetensors");
    small_config(&c, "\"batch\":4,\"steps\":4", false);
    train(&c, "without", 0);
    refuse(scratch("without"), EX_NOINPUT, "has no at-<update>.safetensors to average");
    refuse(scratch("without/last.safetensors"), EX_USAGE, "is no run's directory");
    config_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_stay),
        cmocka_unit_test(temporaries_go),
        cmocka_unit_test(the_mean),
    };
    lanes_open(2);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
