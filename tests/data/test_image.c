#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "archive.h"
#include "data/dataset.h"
#include "data/import.h"
#include "data/task.h"
#include "streams.h"

enum { PIXELS = 1024, COLOUR = 3073, GREY = 1025, RECORDS = 20, BATCHES = 6 };

static const char *const names[BATCHES] = {"data_batch_1.bin", "data_batch_2.bin",
                                           "data_batch_3.bin", "data_batch_4.bin",
                                           "data_batch_5.bin", "test_batch.bin"};

static uint32_t noise_state;
static unsigned noise(void) { return (noise_state = noise_state * 1664525u + 1013904223u) >> 24; }

/* The formula, once more and step by step; volatile so that every step is rounded. */
static int expected_grey(int r, int g, int b) {
    const volatile float scale = 1.0f / 255.0f;
    volatile float x = (float)r * scale, y = (float)g * scale, z = (float)b * scale;
    x = x * 0.2989f;
    y = y * 0.5870f;
    z = z * 0.1140f;
    x = x + y;
    x = x + z;
    x = x * 255.5f;
    return (int)x;
}

/* Six batches of noise; the label of record i of batch b is (b + i) modulo 10. */
static Bytes make_batch(int batch, int records, int record) {
    Bytes b = {0};
    noise_state = (uint32_t)batch;
    unsigned char *p = bytes_add(&b, NULL, (size_t)records * (size_t)record);
    for (int i = 0; i < records; i++)
        for (int j = 0; j < record; j++)
            p[i * record + j] = (unsigned char)(j == 0 ? (unsigned)(batch + i) % 10 : noise());
    return b;
}

static void write_directory(const char *dir, int record) {
    scratch_mkdir(dir);
    for (int i = 0; i < BATCHES; i++) {
        Bytes b = make_batch(i, RECORDS, record);
        char name[128];
        snprintf(name, sizeof name, "%s/%s", dir, names[i]);
        scratch_write(name, b.data, b.size);
        bytes_free(&b);
    }
}

static bool import(const char *from, const char *out, uint64_t seed, Err *err) {
    return import_seeded("image", from, out, seed, err);
}

static void expect_error(const char *from, int code, const char *what) {
    import_refused("image", from, code, what);
}

/* Where in the six batches' order an example came from: all its pixels equal, and its label. */
static bool same_image(const Dataset *d, int example, const Bytes *batch, int i, int record) {
    int ids[PIXELS];
    const unsigned char *p = batch->data + (size_t)i * (size_t)record;
    assert_int_equal(dataset_tokens(d, example, PIXELS, ids), PIXELS);
    if (d->labels[example] != p[0]) return false;
    for (int j = 0; j < PIXELS; j++) {
        const unsigned char *q = p + 1 + j;
        int grey = record == GREY ? q[0] : expected_grey(q[0], q[PIXELS], q[2 * PIXELS]);
        if (ids[j] != grey) return false;
    }
    return true;
}

/* Every training image is in exactly one of train and val, in order; test is test_batch.bin. */
static void expect_import(const char *out, int record) {
    Dataset d[SPLITS];
    for (int s = 0; s < SPLITS; s++) import_open(&d[s], out, s);
    assert_int_equal(d[SPLIT_TRAIN].examples, 90);
    assert_int_equal(d[SPLIT_VAL].examples, 10);
    assert_int_equal(d[SPLIT_TEST].examples, 20);
    int at[SPLITS] = {0};
    for (int b = 0; b < BATCHES; b++) {
        Bytes batch = make_batch(b, RECORDS, record);
        for (int i = 0; i < RECORDS; i++) {
            int s = b == BATCHES - 1 ? SPLIT_TEST : SPLIT_TRAIN;
            if (s == SPLIT_TRAIN && !(at[s] < 90 && same_image(&d[s], at[s], &batch, i, record)))
                s = SPLIT_VAL;
            assert_true(at[s] < d[s].examples && same_image(&d[s], at[s], &batch, i, record));
            at[s]++;
        }
        bytes_free(&batch);
    }
    for (int s = 0; s < SPLITS; s++) dataset_close(&d[s]);
}

static void test_directories(void **state) {
    Err err = {0};
    (void)state;
    write_directory("rgb", COLOUR);
    if (!import(scratch("rgb"), scratch("out_rgb"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_rgb"), COLOUR);
    write_directory("grey", GREY);
    if (!import(scratch("grey"), scratch("out_grey"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_grey"), GREY);
    scratch_mkdir("outer");
    write_directory("outer/cifar-10-batches-bin", COLOUR);
    if (!import(scratch("outer"), scratch("out_outer"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_outer"), COLOUR);
}

/* Each of the 16,777,216 colours once, as test images. */
static void test_every_colour(void **state) {
    enum { IMAGES = (1 << 24) / PIXELS };
    Bytes b = {0};
    Err err = {0};
    Dataset d;
    (void)state;
    write_directory("colours", GREY);
    unsigned char *p = bytes_add(&b, NULL, (size_t)IMAGES * COLOUR);
    for (int colour = 0; colour < 1 << 24; colour++)
        for (int k = 0; k < 3; k++)
            p[(size_t)(colour / PIXELS) * COLOUR + 1 + (size_t)(k * PIXELS + colour % PIXELS)] =
                (unsigned char)(colour >> (16 - 8 * k));
    scratch_write("colours/test_batch.bin", b.data, b.size);
    bytes_free(&b);
    if (!import(scratch("colours"), scratch("out_colours"), 1, &err)) fail_msg("%s", err.text);
    unlink(scratch("colours/test_batch.bin"));
    import_open(&d, scratch("out_colours"), SPLIT_TEST);
    assert_int_equal(d.offsets[d.documents], 1 << 24);
    for (int c = 0; c < 1 << 24; c++)
        if (d.tokens8[c] != expected_grey(c >> 16, c >> 8 & 255, c & 255))
            fail_msg("colour %06x became %d", (unsigned)c, d.tokens8[c]);
    dataset_close(&d);
}

/* In the official archive's order, which is not that of the names, and with its other files. */
static Bytes make_archive(int records) {
    static const int order[BATCHES] = {0, 2, 3, 5, 4, 1};
    Bytes tar = {0}, z = {0};
    tar_add(&tar, "cifar-10-batches-bin/", '5', "", 0);
    for (int i = 0; i < BATCHES; i++) {
        char name[64];
        Bytes b = make_batch(order[i], records, COLOUR);
        snprintf(name, sizeof name, "cifar-10-batches-bin/%s", names[order[i]]);
        tar_add(&tar, name, '0', b.data, b.size);
        tar_add(&tar, "cifar-10-batches-bin/readme.html", '0', "hello", 5);
        bytes_free(&b);
    }
    tar_end(&tar);
    gzip_add(&z, tar.data, tar.size);
    bytes_free(&tar);
    return z;
}

static void test_archive(void **state) {
    Err err = {0};
    (void)state;
    Bytes z = make_archive(RECORDS);
    scratch_mkdir("holder");
    const char *path = scratch_write("holder/cifar-10-binary.tar.gz", z.data, z.size);
    if (!import(path, scratch("out_tar"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_tar"), COLOUR);
    if (!import(scratch("holder"), scratch("out_holder"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_holder"), COLOUR);
    bytes_free(&z);
}

static void test_truncated_archive(void **state) {
    (void)state;
    Bytes z = make_archive(2);
    for (size_t size = 512; size < z.size; size += 512)
        expect_error(scratch_write("cut.tar.gz", z.data, size), EX_DATAERR,
                     "cut.tar.gz: the gzip data breaks off");
    bytes_free(&z);
}

/* The same seed gives the same files, to the byte; another seed holds other images out. */
static void test_seed(void **state) {
    Err err = {0};
    (void)state;
    write_directory("seeded", GREY);
    assert_true(import(scratch("seeded"), scratch("seed1"), 1, &err));
    assert_true(import(scratch("seeded"), scratch("seed1b"), 1, &err));
    assert_true(import(scratch("seeded"), scratch("seed2"), 2, &err));
    size_t n[3];
    unsigned char *val[] = {scratch_read(scratch("seed1/val.safetensors"), &n[0]),
                            scratch_read(scratch("seed1b/val.safetensors"), &n[1]),
                            scratch_read(scratch("seed2/val.safetensors"), &n[2])};
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(val[0], val[1], n[0]);
    assert_true(n[0] != n[2] || memcmp(val[0], val[2], n[0]) != 0);
    for (int i = 0; i < 3; i++) free(val[i]);
    Dataset d;
    expect_import(scratch("seed2"), GREY);
    import_open(&d, scratch("seed1"), SPLIT_VAL);
    for (int i = 0; i < 10; i++) {
        const int held = stream_image_val[i];
        assert_int_equal(d.labels[i], (held / RECORDS + held % RECORDS) % 10);
    }
    dataset_close(&d);
}

static void spoil(const char *name, size_t at, unsigned char value, size_t size) {
    char file[64];
    Bytes b = make_batch(2, RECORDS, COLOUR);
    snprintf(file, sizeof file, "bad/%s", name);
    b.data[at] = value;
    scratch_write(file, b.data, size);
    bytes_free(&b);
}

/* Of a size that is whole records of either kind; the labels tell which. */
static void test_either_record(void **state) {
    static const int sizes[] = {COLOUR, GREY};
    (void)state;
    for (int k = 0; k < 2; k++) {
        const int last = BATCHES - 1;
        Bytes b = make_batch(last, COLOUR * GREY / sizes[k], sizes[k]);
        char dir[24], name[64];
        Dataset d;
        Err err;
        snprintf(dir, sizeof dir, "either%d", k);
        snprintf(name, sizeof name, "%s/%s", dir, names[last]);
        write_directory(dir, sizes[k]);
        scratch_write(name, b.data, b.size);
        bytes_free(&b);
        if (!import(scratch(dir), scratch("either"), 1, &err)) fail_msg("%s", err.text);
        import_open(&d, scratch("either"), SPLIT_TEST);
        assert_int_equal(d.examples, COLOUR * GREY / sizes[k]);
        dataset_close(&d);
    }
}

static void test_bad_files(void **state) {
    const size_t whole = (size_t)RECORDS * COLOUR;
    (void)state;
    write_directory("bad", COLOUR);
    const char *dir = scratch("bad");
    spoil(names[2], 7 * COLOUR, 12, whole);
    expect_error(dir, EX_DATAERR,
                 "data_batch_3.bin: record 7 (byte 21511): label 12, expected 0 to 9");
    spoil(names[2], 0, 0, whole - 1);
    expect_error(dir, EX_DATAERR,
                 "data_batch_3.bin: 61459 bytes are no whole records of 3073 bytes");
    expect_error(dir, EX_DATAERR, "record 19, from byte 58387, breaks off");
    spoil(names[2], 0, 0, 0);
    expect_error(dir, EX_DATAERR, "data_batch_3.bin");
    unlink(scratch("bad/data_batch_3.bin"));
    expect_error(dir, EX_NOINPUT, "data_batch_3.bin is missing");
    assert_int_equal(mkfifo(scratch("bad/data_batch_3.bin"), 0666), 0);
    expect_error(dir, EX_DATAERR, "data_batch_3.bin: is a pipe or device");
    unlink(scratch("bad/data_batch_3.bin"));
    scratch_write("bad/data_batch_3.bin", "", 0);
    assert_int_equal(truncate(scratch("bad/data_batch_3.bin"), (off_t)10 << 30), 0);
    expect_error(dir, EX_DATAERR, "10737418240 bytes, expected at most 61460000");
    expect_error(scratch("nowhere"), EX_NOINPUT, "nowhere: no such file or directory");
    expect_error(scratch_mkdir("void"), EX_NOINPUT, "holds no data_batch_1.bin");
    expect_error(scratch_write("text.txt", "not an archive at all", 21), EX_DATAERR,
                 "not a tar archive");
}

static void test_too_few(void **state) {
    (void)state;
    scratch_mkdir("few");
    for (int i = 0; i < BATCHES; i++) {
        char name[64];
        Bytes b = make_batch(i, 1, GREY);
        snprintf(name, sizeof name, "few/%s", names[i]);
        scratch_write(name, b.data, b.size);
        bytes_free(&b);
    }
    expect_error(scratch("few"), EX_DATAERR, "5 training images, expected at least 10");
}

static void test_hostile_archive(void **state) {
    Bytes tar = {0}, batch = make_batch(0, 2, COLOUR);
    (void)state;
    tar_add(&tar, "a/data_batch_1.bin", '0', batch.data, batch.size);
    tar_add(&tar, "b/../data_batch_1.bin", '0', batch.data, batch.size);
    tar_end(&tar);
    expect_error(scratch_write("twice.tar", tar.data, tar.size), EX_DATAERR,
                 "is in the archive twice");
    tar.size = 0;
    tar_header(&tar, "data_batch_1.bin", '0', 61460001);
    expect_error(scratch_write("huge.tar", tar.data, tar.size), EX_DATAERR,
                 "61460001 bytes, expected at most");
    tar.size = 0;
    tar_add(&tar, "data_batch_1.bin", '0', "", 0);
    tar_end(&tar);
    expect_error(scratch_write("empty.tar", tar.data, tar.size), EX_DATAERR, "is empty");
    tar.size = 0;
    tar_add(&tar, "data_batch_1.bin", '2', "", 0); /* a link to somewhere */
    tar_end(&tar);
    expect_error(scratch_write("link.tar", tar.data, tar.size), EX_NOINPUT,
                 "data_batch_1.bin is missing");
    bytes_free(&tar);
    bytes_free(&batch);
}

static void test_prepare_from_cast_data(void **state) {
    Err err = {0};
    (void)state;
    scratch_mkdir("official");
    write_directory("official/image", COLOUR);
    scratch_data(scratch("official"));
    if (!task_prepare(task_find("image"), scratch("made"), &err)) fail_msg("%s", err.text);
    expect_import(scratch("made"), COLOUR);
    /* As a preparation leaves it that was interrupted: made again. */
    unlink(scratch("made/train.safetensors"));
    unlink(scratch("made/val.safetensors"));
    assert_true(task_prepare(task_find("image"), scratch("made"), &err));
    expect_import(scratch("made"), COLOUR);
    scratch_data_back();
}

/* $CAST_DATA/samples: 500 official records and what TensorFlow makes of them. */
static void test_real_samples(void **state) {
    const char *root = getenv("CAST_DATA");
    char path[2][FILE_PATH_MAX];
    (void)state;
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i],
                 "%s/samples/cifar-10-batches-bin/first_500_of_test_batch%s.bin", root ? root : "",
                 i ? ".gray" : "");
    if (!root || !file_exists(path[0]) || !file_exists(path[1])) skip();
    size_t size[2];
    unsigned char *rgb = scratch_read(path[0], &size[0]), *grey = scratch_read(path[1], &size[1]);
    scratch_mkdir("real");
    for (int i = 0; i < BATCHES; i++) {
        char name[64];
        snprintf(name, sizeof name, "real/%s", names[i]);
        scratch_write(name, rgb, size[0]);
    }
    Err err = {0};
    if (!import(scratch("real"), scratch("out_real"), 1, &err)) fail_msg("%s", err.text);
    Dataset d;
    import_open(&d, scratch("out_real"), SPLIT_TEST);
    assert_int_equal(d.examples, 500);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(d.labels[i], grey[i * GREY]);
        assert_memory_equal(d.tokens8 + (size_t)i * PIXELS, grey + i * GREY + 1, PIXELS);
    }
    dataset_close(&d);
    free(rgb);
    free(grey);
}

/* $CAST_DATA/image: all of CIFAR-10, as it is found there. */
static void test_real_data(void **state) {
    const char *root = getenv("CAST_DATA");
    char dir[FILE_PATH_MAX], place[FILE_PATH_MAX];
    Err err = {0};
    (void)state;
    snprintf(dir, sizeof dir, "%s/image", root ? root : "");
    if (!root || !task_find("image")->locate(place, dir)) skip();
    if (!import(dir, scratch("out_all"), 1, &err)) fail_msg("%s", err.text);
    static const int expected[SPLITS] = {45000, 5000, 10000};
    int count[10] = {0};
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        import_open(&d, scratch("out_all"), s);
        assert_int_equal(d.examples, expected[s]);
        for (int i = 0; i < d.examples; i++) count[d.labels[i]]++;
        dataset_close(&d);
    }
    for (int k = 0; k < 10; k++) assert_int_equal(count[k], 6000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_archive),
        cmocka_unit_test(test_every_colour),
        cmocka_unit_test(test_truncated_archive),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_either_record),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_hostile_archive),
        cmocka_unit_test(test_prepare_from_cast_data),
        cmocka_unit_test(test_real_samples),
        cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
