/* Data that are read slowly, and whose damage is found when training is under way. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "train/small.h"
#include "train/train.h"

/* zlib's, in its place: where it is to be slow, another thread's first call takes longer than the
 * start of a run waits for it. */
static pthread_t first_thread;
static _Atomic bool slow;

static uLong remainder_of(uLong crc) {
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    return crc;
}

uLong crc32_z(uLong crc, const Bytef *data, z_size_t size) {
    const struct timespec a_while = {3, 0};
    if (slow && !pthread_equal(pthread_self(), first_thread)) {
        nanosleep(&a_while, NULL);
        slow = false;
    }
    crc ^= 0xFFFFFFFFu;
    for (z_size_t i = 0; i < size; i++) crc = crc >> 8 ^ remainder_of((crc ^ data[i]) & 255);
    return crc ^ 0xFFFFFFFFu;
}

#define KEYS "\"batch\":2,\"steps\":4,\"log_every\":1,\"eval_every\":"

/* The first label becomes another one of those that there are. */
static void damage(void) {
    size_t size;
    Dataset d;
    Err err;
    assert_true(dataset_open(&d, scratch("data/test.safetensors"), &err));
    const size_t at = (size_t)((const unsigned char *)d.labels - d.file.map.data);
    dataset_close(&d);
    unsigned char *data = scratch_read(scratch("data/test.safetensors"), &size);
    data[at] = data[at] ? 0 : 1;
    scratch_write("data/test.safetensors", data, size);
    free(data);
}

static bool train(const char *keys, int stop_at, Err *err) {
    Config c;
    TrainEnd end;
    const TrainRequest r = {.dir = scratch("run"), .command = "a test", .stop_at = stop_at};
    small_config(&c, keys, false);
    const bool ok = train_run(&c, &r, &end, err);
    config_free(&c);
    return ok;
}

static void test_slow_data(void **state) {
    Err err;
    (void)state;
    small_data(8, 3, 3, false);
    slow = true;
    if (!train(KEYS "1", 0, &err)) fail_msg("%s", err.text);
    assert_true(file_exists(scratch("run/last.safetensors")));
    assert_false(slow);
    scratch_remove(scratch("run"));
    damage();
    slow = true;
    assert_false(train(KEYS "1", 0, &err));
    assert_int_equal(err.code, EX_DATAERR);
    assert_non_null(strstr(err.text, "data/test.safetensors: its data's hash is "));
    assert_false(file_exists(scratch("run/last.safetensors")));
    assert_true(file_is_empty(scratch("run/metrics.jsonl")));
}

/* A run of `updates` goes on with damaged data, to what comes before the next update: nothing is
 * told of that. */
static void expect_silence(int updates, const char *kind) {
    Err err;
    size_t was, now;
    scratch_remove(scratch("run"));
    small_data(8, 3, 3, false);
    if (!train(KEYS "100", updates, &err)) fail_msg("%s", err.text);
    free(scratch_read(scratch("run/metrics.jsonl"), &was));
    damage();
    slow = true;
    assert_false(train(KEYS "1", 0, &err));
    assert_int_equal(err.code, EX_DATAERR);
    unsigned char *metrics = scratch_read(scratch("run/metrics.jsonl"), &now);
    metrics[now] = '\0';
    assert_non_null(strstr((char *)metrics + was, "\"resume\""));
    assert_null(strstr((char *)metrics + was, kind));
    free(metrics);
}

static void test_slow_end(void **state) {
    (void)state;
    expect_silence(3, "\"val\"");
    expect_silence(4, "\"test\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_data),
        cmocka_unit_test(test_slow_end),
    };
    first_thread = pthread_self();
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
