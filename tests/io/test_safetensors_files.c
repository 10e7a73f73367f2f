/* safetensors written, read back, cut short, damaged. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "io/safetensors.h"
#include "text.h"

static const float f32[] = {1, -2.5f, 3e-30f, 4, 5, 6};
static const double f64[] = {1.0 / 3, -2};
static const int32_t i32[] = {7, -8, 9};
static const uint8_t u8[] = {1, 2, 3, 4, 5};

/* Every size of number, an empty tensor and one that has no data at all. */
static const StTensor samples[] = {
    {"tokens", DT_U8, 1, {5}, u8, sizeof u8},
    {"b.weight", DT_F32, 2, {2, 3}, f32, sizeof f32},
    {"a.weight", DT_F32, 2, {3, 2}, f32, sizeof f32},
    {"none", DT_F32, 2, {3, 0}, NULL, 0},
    {"offsets", DT_F64, 1, {2}, f64, sizeof f64},
    {"labels \"\xc3\xa9\"\n", DT_I32, 1, {3}, i32, sizeof i32},
    {"scalar", DT_I32, 0, {0}, i32, 4},
};
enum { SAMPLES = sizeof samples / sizeof *samples };
static const StMeta sample_meta[] = {{"task", "image"}, {"note", "a \"quote\""}};

static const char *write_samples(const char *name) {
    Err err;
    const char *path = scratch(name);
    if (!st_write(path, KIND_ANY, samples, SAMPLES, sample_meta, 2, &err)) fail_msg("%s", err.text);
    return path;
}

static void round_trip(void **state) {
    (void)state;
    static const char *const order[] = {
        "offsets", "a.weight", "b.weight", "none", "labels \"\xc3\xa9\"\n", "scalar", "tokens"};
    StFile f;
    Err err;
    assert_true(st_open(&f, write_samples("round"), &err));
    assert_int_equal(f.ntensors, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) {
        const StTensor *s = &samples[i],
                       *t = st_want(&f, s->name, s->dtype, s->ndim, s->shape, &err);
        assert_non_null(t);
        assert_int_equal(t->bytes, s->bytes);
        if (t->bytes) assert_memory_equal(t->data, s->data, s->bytes);
        assert_string_equal(f.tensors[i].name, order[i]);
    }
    assert_int_equal((uintptr_t)f.tensors[0].data % 64, 0);
    assert_null(f.copies);
    assert_string_equal(st_meta(&f, "task"), "image");
    assert_string_equal(st_meta(&f, "note"), "a \"quote\"");
    assert_int_equal(strlen(st_meta(&f, "crc32")), 8);
    assert_null(st_meta(&f, "absent"));
    assert_true(st_check_crc(&f, &err));
    assert_int_equal(f.map.data[8], '{');
    st_close(&f);
}

/* The same header as another program writes it again, with that value of the key "a". */
static bool opens_with(const char *value, const char *sums[2], Err *err) {
    char text[512] = "12345678";
    StFile f;
    const int n = snprintf(text + 8, sizeof text - 8,
                           "{ \"t\":{\"shape\":[1],\"data_offsets\":[0,1],\"dtype\":\"U8\"},"
                           "\"__metadata__\":{\"crc32\":\"%s\",\"a\":\"%s\","
                           "\"header_crc32\":\"%s\"}}",
                           sums[1], value, sums[0]);
    const uint64_t length = (uint64_t)n;
    memcpy(text, &length, sizeof length);
    text[8 + n] = 7;
    const bool ok = st_parse(&f, text, (size_t)n + 9, "f", err) && st_check_crc(&f, err);
    if (ok) st_close(&f);
    return ok;
}

static void sum_of_a_header_in_another_order(void **state) {
    (void)state;
    static const unsigned char seven = 7;
    const int64_t one = 1;
    const StTensor t = st_tensor("t", DT_U8, 1, &one, &seven);
    const StMeta meta = {"a", "b"};
    StFile f;
    Err err;
    const char *path = scratch("order");
    assert_true(st_write(path, KIND_ANY, &t, 1, &meta, 1, &err));
    assert_true(st_open(&f, path, &err));
    const char *sums[] = {st_meta(&f, "header_crc32"), st_meta(&f, "crc32")};
    assert_true(opens_with("b", sums, &err));
    assert_false(opens_with("c", sums, &err));
    assert_int_equal(err.code, EX_DATAERR);
    assert_non_null(strstr(err.text, "f: is damaged: the header_crc32 of its header is "));
    st_close(&f);
}

static void nothing_to_write(void **state) {
    (void)state;
    StFile f;
    Err err;
    const char *path = scratch("nothing");
    assert_true(st_write(path, KIND_ANY, NULL, 0, NULL, 0, &err));
    assert_true(st_open(&f, path, &err));
    assert_int_equal(f.ntensors, 0);
    assert_true(st_check_crc(&f, &err));
    assert_string_equal(st_meta(&f, "crc32"), "00000000");
    st_close(&f);
}

static void header_too_large_to_read(void **state) {
    (void)state;
    Err err;
    char *value = malloc(ST_MAX_HEADER + 1);
    memset(value, 'a', ST_MAX_HEADER);
    value[ST_MAX_HEADER] = '\0';
    const StMeta meta = {"note", value};
    const char *path = write_samples("large");
    int before = text_count(scratch_dir);
    assert_false(st_write(path, KIND_ANY, samples, SAMPLES, &meta, 1, &err));
    assert_int_equal(err.code, EX_IOERR);
    assert_int_equal(text_count(scratch_dir), before);
    free(value);
}

static void wants(void **state) {
    (void)state;
    StFile f;
    Err err;
    const int64_t any[] = {2, -1}, wrong[] = {2, 4};
    char expected[512];
    assert_true(st_open(&f, write_samples("wants"), &err));
    assert_non_null(st_want(&f, "b.weight", DT_F32, 2, any, &err));
    assert_null(st_want(&f, "b.weight", DT_F32, 2, wrong, &err));
    snprintf(expected, sizeof expected, "%s: tensor 'b.weight' must be F32 [2,4], is F32 [2,3]",
             f.path);
    assert_string_equal(err.text, expected);
    assert_int_equal(err.code, EX_DATAERR);
    assert_null(st_want(&f, "b.weight", DT_F64, 2, any, &err));
    assert_null(st_want(&f, "b.weight", DT_F32, 1, any, &err));
    assert_null(st_want(&f, "c.weight", DT_F32, 2, any, &err));
    snprintf(expected, sizeof expected, "%s: tensor 'c.weight' (F32 [2,*]) is missing", f.path);
    assert_string_equal(err.text, expected);
    assert_null(st_find(&f, "__metadata__"));
    st_close(&f);
}

static void reals(void **state) {
    (void)state;
    StFile f;
    Err err;
    real out[6];
    assert_true(st_open(&f, write_samples("reals"), &err));
    assert_true(st_reals(&f, "a.weight", out, 6, &err));
    for (int i = 0; i < 6; i++) assert_true(out[i] == (real)f32[i]);
    assert_true(st_reals(&f, "offsets", out, 2, &err));
    for (int i = 0; i < 2; i++) assert_true(out[i] == (real)f64[i]);
    assert_true(st_reals(&f, "none", out, 0, &err));
    assert_false(st_reals(&f, "a.weight", out, 5, &err));
    assert_non_null(
        strstr(err.text, "tensor 'a.weight': must hold 5 numbers, F32 or F64, is F32 [3,2]"));
    assert_false(st_reals(&f, "scalar", out, 1, &err));
    assert_false(st_reals(&f, "absent", out, 1, &err));
    assert_int_equal(err.code, EX_DATAERR);
    st_close(&f);
}

static void real_tensors(void **state) {
    (void)state;
    const real data[6] = {0};
    const int64_t shape[] = {2, 3};
    StTensor t = st_real_tensor("w", data, 2, shape);
    assert_string_equal(dtype_name(t.dtype), REAL_NAME);
    assert_int_equal(t.bytes, sizeof data);
    assert_int_equal(t.ndim, 2);
    assert_int_equal(t.shape[1], 3);
    assert_ptr_equal(t.data, data);
}

static void truncated_anywhere(void **state) {
    (void)state;
    size_t size = 0;
    unsigned char *bytes = scratch_read(write_samples("cut"), &size);
    for (size_t n = 0; n < size; n++) {
        StFile f;
        Err err = {0};
        unsigned char *copy = malloc(n ? n : 1); /* so that the sanitizer sees a read beyond it */
        memcpy(copy, bytes, n);
        assert_false(st_parse(&f, copy, n, "f", &err));
        assert_int_equal(err.code, EX_DATAERR);
        free(copy);
    }
    free(bytes);
}

/* A flip is found, but for one in the name of the header's sum, of blanks, and of an escape's case
 * ("\u000a"): what is accepted is sound. */
static void flipped_anywhere(void **state) {
    (void)state;
    size_t size = 0;
    uint64_t header = 0;
    unsigned char *bytes = scratch_read(write_samples("flip"), &size);
    memcpy(&header, bytes, sizeof header);
    const size_t name = sizeof header + strlen("{\"__metadata__\":{\"");
    for (size_t i = 0; i < size; i++) {
        for (int flip = 1; flip < 256; flip++) {
            StFile f;
            Err err = {0};
            bytes[i] ^= (unsigned char)flip;
            bool ok = st_parse(&f, bytes, size, "f", &err);
            assert_true(ok || err.code == EX_DATAERR);
            const bool harmless = (i >= name && i < name + strlen("header_crc32")) ||
                                  bytes[i] == 'A' || bytes[i] == '\t' || bytes[i] == '\n' ||
                                  bytes[i] == '\r';
            const bool in_data = i >= sizeof header + header;
            assert_true(!ok || (in_data ? !st_check_crc(&f, &err) : harmless));
            size_t total = 0;
            for (int t = 0; ok && t < f.ntensors; t++) total += f.tensors[t].bytes;
            assert_true(!ok || total == size - sizeof header - header);
            if (ok) st_close(&f);
            bytes[i] ^= (unsigned char)flip;
        }
    }
    free(bytes);
}

static void hostile_files(void **state) {
    (void)state;
    StFile f;
    Err err;
    const char *fifo = scratch("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const paths[] = {fifo, scratch_dir, "/dev/zero", scratch_write("empty", "", 0),
                                 scratch_write("short", "{}", 2)};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_false(st_open(&f, paths[i], &err));
        assert_int_equal(err.code, EX_DATAERR);
        assert_non_null(strstr(err.text, paths[i]));
        st_close(&f);
    }
    assert_false(st_open(&f, scratch("absent"), &err));
    assert_int_equal(err.code, EX_NOINPUT);
}

static void full_disk_keeps_the_old(void **state) {
    (void)state;
    StFile f;
    Err err;
    struct rlimit saved, small;
    static char zeros[100000];
    const StTensor large = {"large", DT_U8, 1, {sizeof zeros}, zeros, sizeof zeros};
    const char *path = write_samples("full");
    int before = text_count(scratch_dir);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &saved);
    for (rlim_t limit = 0; limit < sizeof zeros; limit += 10000) {
        small = (struct rlimit){.rlim_cur = limit, .rlim_max = saved.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        bool ok = st_write(path, KIND_ANY, &large, 1, NULL, 0, &err);
        setrlimit(RLIMIT_FSIZE, &saved);
        assert_false(ok);
        assert_int_equal(err.code, EX_IOERR);
        assert_non_null(strstr(err.text, "File too large"));
    }
    assert_int_equal(text_count(scratch_dir), before);
    assert_true(st_open(&f, path, &err));
    assert_int_equal(f.ntensors, SAMPLES);
    assert_true(st_check_crc(&f, &err));
    st_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(sum_of_a_header_in_another_order),
        cmocka_unit_test(nothing_to_write),
        cmocka_unit_test(header_too_large_to_read),
        cmocka_unit_test(wants),
        cmocka_unit_test(reals),
        cmocka_unit_test(real_tensors),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(flipped_anywhere),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(full_disk_keeps_the_old),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
