#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "archive.h"
#include "core/lanes.h"
#include "data/dataset.h"
#include "data/import.h"
#include "data/pathfinder_tree.h"
#include "data/task.h"
#include "io/png.h"
#include "streams.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, BATCHES = 2, IMAGES = 20 /* of a batch */ };

/* What is written of the official files, and how. */
typedef enum Form { TEXT, TABLE } Form;

/* Image k of batch b: a picture of its own, of which the label is the parity of k + b. */
static void fill(unsigned char *p, int b, int k) {
    for (int i = 0; i < PIXELS; i++) p[i] = (unsigned char)(i * 7 + k * 13 + b * 101);
}

static int label_of(int b, int k) { return (b + k) % 2; }

static void add_row(Bytes *b, int batch, int k, Form form) {
    char field[5][24] = {"", "", "", "", "1.0"};
    snprintf(field[0], 24, "imgs/%d", batch);
    snprintf(field[1], 24, "sample_%d.png", k);
    snprintf(field[2], 24, "%d", k);
    snprintf(field[3], 24, "%d", label_of(batch, k));
    for (int i = 0; i < 5; i++) {
        if (form == TEXT) {
            bytes_add(b, field[i], strlen(field[i]));
            bytes_add(b, i < 4 ? " " : "\n", 1);
        }
        for (int c = 0; form == TABLE && c < 24; c++) {
            unsigned char wide[4] = {(unsigned char)field[i][c]};
            bytes_add(b, wide, 4);
        }
    }
}

static Bytes make_metadata(int batch, Form form) {
    Bytes b = {0};
    if (form == TABLE) {
        char header[128];
        int n = snprintf(header, sizeof header,
                         "{'descr': '<U24', 'fortran_order': False, 'shape': (%d, 5), }\n", IMAGES);
        bytes_add(&b, "\x93NUMPY\1\0", 8);
        bytes_add(&b, &(unsigned char){(unsigned char)n}, 1);
        bytes_add(&b, "", 1);
        bytes_add(&b, header, (size_t)n);
    }
    for (int k = 0; k < IMAGES; k++) add_row(&b, batch, k, form);
    return b;
}

static void write_tree(const char *dir, Form form) {
    char name[128];
    unsigned char p[PIXELS];
    Err err;
    scratch_mkdir(dir);
    snprintf(name, sizeof name, "%s/imgs", dir);
    scratch_mkdir(name);
    snprintf(name, sizeof name, "%s/metadata", dir);
    scratch_mkdir(name);
    for (int b = 0; b < BATCHES; b++) {
        Bytes meta = make_metadata(b, form);
        snprintf(name, sizeof name, "%s/metadata/%d.npy", dir, b);
        scratch_write(name, meta.data, meta.size);
        bytes_free(&meta);
        snprintf(name, sizeof name, "%s/imgs/%d", dir, b);
        scratch_mkdir(name);
        for (int k = 0; k < IMAGES; k++) {
            snprintf(name, sizeof name, "%s/imgs/%d/sample_%d.png", dir, b, k);
            fill(p, b, k);
            if (!png_grey_write(scratch(name), p, SIDE, SIDE, &err)) fail_msg("%s", err.text);
        }
    }
}

/* The same in an archive, below `root`, from a directory that write_tree wrote. */
static void add_tree(Bytes *tar, const char *root, const char *dir, bool metadata_first) {
    char name[48], path[100];
    for (int pass = 0; pass < 2; pass++) {
        bool metadata = (pass == 0) == metadata_first;
        for (int i = 0; i < (metadata ? BATCHES : BATCHES * IMAGES); i++) {
            size_t size;
            if (metadata)
                snprintf(name, sizeof name, "metadata/%d.npy", i);
            else
                snprintf(name, sizeof name, "imgs/%d/sample_%d.png", i / IMAGES, i % IMAGES);
            snprintf(path, sizeof path, "%.48s/%s", dir, name);
            unsigned char *data = scratch_read(scratch(path), &size);
            snprintf(path, sizeof path, "%.48s%s", root, name);
            tar_add(tar, path, '0', data, size);
            free(data);
        }
    }
    tar_add(tar, "imgs/readme.txt", '0', "hello", 5);
}

static bool import(const char *from, const char *out, uint64_t seed, Err *err) {
    return import_seeded("pathfinder", from, out, seed, err);
}

static void expect_error(const char *from, int code, const char *what) {
    import_refused("pathfinder", from, code, what);
}

/* Every image but `missing` is in exactly one split, in the order of the metadata. */
static void expect_import(const char *out, int missing) {
    Dataset d[SPLITS];
    int at[SPLITS] = {0}, n = 0;
    unsigned char p[PIXELS];
    for (int s = 0; s < SPLITS; s++) {
        import_open(&d[s], out, s);
        n += d[s].examples;
    }
    assert_int_equal(n, BATCHES * IMAGES - (missing >= 0));
    assert_true(d[SPLIT_VAL].examples >= 3 && d[SPLIT_TEST].examples >= 3);
    for (int i = 0; i < BATCHES * IMAGES; i++) {
        int s = 0;
        if (i == missing) continue;
        fill(p, i / IMAGES, i % IMAGES);
        while (s < SPLITS && (at[s] == d[s].examples ||
                              memcmp(d[s].tokens8 + (size_t)at[s] * PIXELS, p, PIXELS) != 0))
            s++;
        assert_true(s < SPLITS);
        assert_int_equal(d[s].labels[at[s]++], label_of(i / IMAGES, i % IMAGES));
    }
    for (int s = 0; s < SPLITS; s++) dataset_close(&d[s]);
}

static void test_directories(void **state) {
    Err err = {0};
    (void)state;
    write_tree("text", TEXT);
    if (!import(scratch("text"), scratch("out_text"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_text"), -1);
    write_tree("table", TABLE);
    if (!import(scratch("table"), scratch("out_table"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_table"), -1);
    scratch_mkdir("outer");
    write_tree("outer/curv_contour_length_14", TEXT);
    if (!import(scratch("outer"), scratch("out_outer"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_outer"), -1);
    char place[FILE_PATH_MAX];
    assert_true(task_find("pathx")->locate(place, scratch("outer")));
    assert_string_equal(place, scratch("outer/curv_contour_length_14"));
    assert_false(task_find("pathx")->locate(place, scratch_mkdir("void")));
}

static void expect_same(const char *a, const char *b) {
    for (int i = 0; i < SPLITS; i++) assert_true(import_same(a, b, i));
}

static void import_archive(const Bytes *tar, const char *name, const char *out) {
    Bytes z = {0};
    Err err = {0};
    gzip_add(&z, tar->data, tar->size);
    if (!import(scratch_write(name, z.data, z.size), out, 1, &err)) fail_msg("%s", err.text);
    expect_import(out, -1);
    bytes_free(&z);
}

static void test_archives(void **state) {
    Bytes tar = {0};
    Err err = {0};
    (void)state;
    write_tree("packed", TEXT);
    assert_true(import(scratch("packed"), scratch("out_plain"), 1, &err));
    add_tree(&tar, "", "packed", true);
    tar_end(&tar);
    if (!import(scratch_write("plain.tar", tar.data, tar.size), scratch("out_tar"), 1, &err))
        fail_msg("%s", err.text);
    expect_same(scratch("out_plain"), scratch("out_tar"));
    tar.size = 0;
    add_tree(&tar, "./some/where/", "packed", false);
    tar_end(&tar);
    import_archive(&tar, "late.tar.gz", scratch("out_late"));
    expect_same(scratch("out_plain"), scratch("out_late"));
    /* Of several, the one that is called as LRA's release calls it. */
    tar.size = 0;
    add_tree(&tar, "lra/pathfinder32/curv_baseline/", "packed", true);
    add_tree(&tar, "lra/pathfinder32/curv_contour_length_14/", "packed", true);
    add_tree(&tar, "lra/pathfinder64/curv_contour_length_14/", "packed", true);
    tar_end(&tar);
    import_archive(&tar, "several.tar.gz", scratch("out_several"));
    tar.size = 0;
    add_tree(&tar, "a/pathfinder32/curv_contour_length_14/", "packed", true);
    add_tree(&tar, "b/pathfinder32/curv_contour_length_14/", "packed", true);
    tar_end(&tar);
    expect_error(scratch_write("two.tar", tar.data, tar.size), EX_NOINPUT, "2 folders in it");
    bytes_free(&tar);
}

static void test_bad_archives(void **state) {
    Bytes tar = {0}, z = {0};
    (void)state;
    write_tree("cut", TEXT);
    add_tree(&tar, "", "cut", true);
    tar_end(&tar);
    gzip_add(&z, tar.data, tar.size);
    for (size_t size = 512; size < z.size; size += 512)
        expect_error(scratch_write("cut.tar.gz", z.data, size), EX_DATAERR, "breaks off");
    tar.size = 0;
    tar_add(&tar, "metadata/0.npy", '0', "imgs/0 sample_0.png 0 1\n", 24);
    tar_end(&tar);
    expect_error(scratch_write("lost.tar", tar.data, tar.size), EX_DATAERR, "expected at least 10");
    tar.size = 0;
    tar_add(&tar, "metadata/7.npy", '0', "", 0);
    tar_end(&tar);
    expect_error(scratch_write("none.tar", tar.data, tar.size), EX_DATAERR,
                 "metadata/7.npy: names no image");
    tar.size = 0;
    for (int i = 0; i < 65; i++) {
        char name[64];
        snprintf(name, sizeof name, "%d/metadata/0.npy", i);
        tar_add(&tar, name, '0', "wrong\n", 6);
    }
    tar_end(&tar);
    expect_error(scratch_write("many.tar", tar.data, tar.size), EX_DATAERR, "more than 64 folders");
    tar.size = 0;
    tar_add(&tar, "imgs/0/sample_0.png", '0', "x", 1);
    tar_end(&tar);
    expect_error(scratch_write("bare.tar", tar.data, tar.size), EX_NOINPUT,
                 "no metadata/<number>.npy in it");
    tar.size = 0;
    add_tree(&tar, "", "cut", true);
    tar_add(&tar, "imgs/0/sample_0.png", '0', "", 0);
    tar_end(&tar);
    expect_error(scratch_write("twice.tar", tar.data, tar.size), EX_DATAERR, "is there twice");
    tar.size = 0;
    tar_header(&tar, "metadata/0.npy", '0', 1000000000);
    expect_error(scratch_write("huge.tar", tar.data, tar.size), EX_DATAERR, "1000000000 bytes");
    expect_error(scratch_write("text.txt", "not an archive at all", 21), EX_DATAERR,
                 "not a tar archive");
    bytes_free(&tar);
    bytes_free(&z);
}

static void test_empty_image(void **state) {
    Err err = {0};
    (void)state;
    write_tree("holes", TEXT);
    scratch_write("holes/imgs/1/sample_5.png", "", 0);
    if (!import(scratch("holes"), scratch("out_holes"), 1, &err)) fail_msg("%s", err.text);
    expect_import(scratch("out_holes"), IMAGES + 5);
    Bytes tar = {0};
    add_tree(&tar, "", "holes", true);
    tar_end(&tar);
    if (!import(scratch_write("holes.tar", tar.data, tar.size), scratch("out_tar_holes"), 1, &err))
        fail_msg("%s", err.text);
    expect_same(scratch("out_holes"), scratch("out_tar_holes"));
    bytes_free(&tar);
}

/* The split of that directory holds these images, by their places in the metadata. */
static void expect_images(const char *out, int split, const int *places, int n) {
    Dataset d;
    unsigned char p[PIXELS];
    import_open(&d, out, split);
    assert_int_equal(d.examples, n);
    for (int i = 0; i < n; i++) {
        fill(p, places[i] / IMAGES, places[i] % IMAGES);
        assert_memory_equal(d.tokens8 + (size_t)i * PIXELS, p, PIXELS);
    }
    dataset_close(&d);
}

/* The same seed gives the same split, which docs/method.md tells; another seed another one. */
static void test_seed(void **state) {
    Err err = {0};
    (void)state;
    write_tree("seeded", TEXT);
    assert_true(import(scratch("seeded"), scratch("seed1"), 1, &err));
    assert_true(import(scratch("seeded"), scratch("seed1b"), 1, &err));
    assert_true(import(scratch("seeded"), scratch("seed2"), 2, &err));
    expect_same(scratch("seed1"), scratch("seed1b"));
    expect_import(scratch("seed2"), -1);
    expect_images(scratch("seed1"), SPLIT_VAL, stream_pathfinder_val, BATCHES * IMAGES / 10);
    expect_images(scratch("seed1"), SPLIT_TEST, stream_pathfinder_test, BATCHES * IMAGES / 10);
    size_t n[2];
    unsigned char *a = scratch_read(scratch("seed1/val.safetensors"), &n[0]);
    unsigned char *b = scratch_read(scratch("seed2/val.safetensors"), &n[1]);
    assert_true(n[0] != n[1] || memcmp(a, b, n[0]) != 0);
    free(a);
    free(b);
}

static void test_bad_metadata(void **state) {
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"imgs/0 sample_0.png 0 2\n", "0.npy: line 1: label '2', expected 0 or 1"},
        {"imgs/0 sample_0.png 0 1\nimgs/0 sample_1.png 1\n", "line 2: expected folder"},
        {"imgs/0 sample_0.png 0 1\nimgs/0 sample_0.png 0 1\n", "imgs/0/sample_0.png twice"},
        {"../imgs/0 sample_0.png 0 1\n", "line 1 names '../imgs/0'"},
        {"imgs/.. sample_0.png 0 1\n", "line 1 names 'imgs/..'"},
        {"imgs/0 ../../../etc/passwd 0 1\n", "names 'imgs/0' '../../../etc/passwd'"},
        {"imgs/0 sample_00.png 0 1\n", "names 'imgs/0' 'sample_00.png'"},
        {"imgs/0 sample_99999999999.png 0 1\n", "sample_99999999999.png"},
        {"imgs/0 sample_0.png  1 1\n", "line 1: expected folder"},
        {"\n", "line 1: expected folder"},
        {"imgs/0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0 1\n",
         "line 1"},
        {"imgs/0 sample_0.png 0 1\n", "1 images, expected at least 10"},
    };
    (void)state;
    write_tree("meta", TEXT);
    unlink(scratch("meta/metadata/1.npy"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("meta/metadata/0.npy", cases[i].text, strlen(cases[i].text));
        expect_error(scratch("meta"), EX_DATAERR, cases[i].what);
    }
    scratch_write("meta/metadata/0.npy", "imgs/0 sample_0.png\0 0 1\n", 25);
    expect_error(scratch("meta"), EX_DATAERR, "line 1");
    scratch_write("meta/metadata/0.npy", "", 0);
    expect_error(scratch("meta"), EX_DATAERR, "empty");
    unlink(scratch("meta/metadata/0.npy"));
    expect_error(scratch("meta"), EX_NOINPUT, "no <number>.npy in it");
    Bytes b = make_metadata(0, TABLE);
    for (size_t n = 6; n < b.size; n += 41) {
        scratch_write("meta/metadata/0.npy", b.data, n);
        expect_error(scratch("meta"), EX_DATAERR, "0.npy");
    }
    bytes_free(&b);
}

/* One row of metadata as NumPy's table of byte strings. */
static void refuse_table(int rows, int columns, const char *const field[], const char *what) {
    Bytes b = {0};
    char header[128];
    int n =
        snprintf(header, sizeof header,
                 "{'descr': '|S16', 'fortran_order': False, 'shape': (%d, %d), }\n", rows, columns);
    const unsigned char length[2] = {(unsigned char)n, 0};
    bytes_add(&b, "\x93NUMPY\1\0", 8);
    bytes_add(&b, length, 2);
    bytes_add(&b, header, (size_t)n);
    for (int i = 0; i < rows * columns; i++)
        memcpy(bytes_add(&b, NULL, 16), field[i], strlen(field[i]));
    scratch_write("table_meta/metadata/0.npy", b.data, b.size);
    expect_error(scratch("table_meta"), EX_DATAERR, what);
    bytes_free(&b);
}

static void test_bad_tables(void **state) {
    static const char *const right[] = {"imgs/0", "sample_0.png", "0", "1"};
    static const char *const label[] = {"imgs/0", "sample_0.png", "0", "one"};
    static const char *const folder[] = {"/etc/0", "sample_0.png", "0", "1"};
    static const char *const letter[] = {"imgs/0", "sample_\xe9.png", "0", "1"};
    (void)state;
    write_tree("table_meta", TABLE);
    unlink(scratch("table_meta/metadata/1.npy"));
    refuse_table(1, 4, right, "1 images, expected at least 10");
    refuse_table(1, 3, right, "0.npy: 3 columns, expected at least 4");
    refuse_table(0, 4, right, "0.npy: names no image");
    refuse_table(1, 4, label, "0.npy: row 0: label 'one', expected 0 or 1");
    refuse_table(1, 4, folder, "row 0 names '/etc/0'");
    refuse_table(1, 4, letter, "0.npy: row 0: column 1 is no short text");
}

/* Metadata that are far too large, without the room. */
static void test_large_metadata(void **state) {
    (void)state;
    write_tree("large", TEXT);
    assert_int_equal(truncate(scratch("large/metadata/0.npy"), (512 << 20) + 1), 0);
    expect_error(scratch("large"), EX_DATAERR,
                 "0.npy: 536870913 bytes, expected at most 536870912");
}

/* What is wrong in a folder that is not read does not matter. */
static void test_other_roots(void **state) {
    Bytes tar = {0};
    Err err = {0};
    (void)state;
    write_tree("right", TEXT);
    add_tree(&tar, "lra/pathfinder32/curv_contour_length_14/", "right", true);
    tar_add(&tar, "lra/pathfinder32/curv_contour_length_9/metadata/0.npy", '0', "wrong\n", 6);
    tar_end(&tar);
    if (!import(scratch_write("roots.tar", tar.data, tar.size), scratch("out_roots"), 1, &err))
        fail_msg("%s", err.text);
    expect_import(scratch("out_roots"), -1);
    bytes_free(&tar);
}

/* `paddles`: of the first half of the images, and of the others. */
static void expect_source(const char *first, const char *second, const char *want) {
    char text[IMAGES * 64] = "";
    Err err = {0};
    Dataset d;
    for (int i = 0; i < IMAGES; i++)
        snprintf(text + strlen(text), 64, "imgs/0 sample_%d.png %d %d 1.8%s\n", i, i,
                 label_of(0, i), i < IMAGES / 2 ? first : second);
    scratch_write("lengths/metadata/0.npy", text, strlen(text));
    if (!import(scratch("lengths"), scratch("out_lengths"), 1, &err)) fail_msg("%s", err.text);
    import_open(&d, scratch("out_lengths"), SPLIT_TRAIN);
    const char *source = st_meta(&d.file, "source");
    if (!source || !strstr(source, want)) fail_msg("%s, expected %s", source, want);
    dataset_close(&d);
}

static void test_lengths_of_contours(void **state) {
    (void)state;
    write_tree("lengths", TEXT);
    unlink(scratch("lengths/metadata/1.npy"));
    expect_source(" 14 5", " 14 5", "side 32, 14 paddles; split");
    expect_source(" 9", " 9", "side 32, 9 paddles; split");
    expect_source(" 9", " 14", "side 32; split");
    expect_source("", "", "side 32; split");
}

static void test_bad_images(void **state) {
    unsigned char p[64 * 64] = {0};
    size_t size;
    Err err;
    (void)state;
    write_tree("bad", TEXT);
    assert_true(png_grey_write(scratch("bad/imgs/0/sample_3.png"), p, 64, 64, &err));
    expect_error(scratch("bad"), EX_DATAERR, "imgs/0/sample_3.png: 64 x 64 pixels");
    unlink(scratch("bad/imgs/0/sample_3.png"));
    expect_error(scratch("bad"), EX_NOINPUT, "imgs/0/sample_3.png");
    unsigned char *data = scratch_read(scratch("bad/imgs/0/sample_4.png"), &size);
    scratch_write("bad/imgs/0/sample_3.png", data, size - 1);
    expect_error(scratch("bad"), EX_DATAERR, "sample_3.png: no whole PNG");
    free(data);
    expect_error(scratch("nowhere"), EX_NOINPUT, "no such file or directory");
    expect_error(scratch_mkdir("nothing"), EX_NOINPUT, "holds no imgs and metadata");
}

static void test_prepare_from_cast_data(void **state) {
    Err err = {0};
    (void)state;
    scratch_mkdir("official");
    write_tree("official/pathfinder", TABLE);
    scratch_data(scratch("official"));
    if (!task_prepare(task_find("pathfinder"), scratch("prepared"), &err)) fail_msg("%s", err.text);
    expect_import(scratch("prepared"), -1);
    scratch_data_back();
}

/* $CAST_DATA/samples: images of the official program, with metadata as text and as a table. */
static void expect_sample(const char *name, int images) {
    const char *root = getenv("CAST_DATA");
    char from[FILE_PATH_MAX], tree[FILE_PATH_MAX];
    Err err = {0};
    snprintf(from, sizeof from, "%s/samples/%s", root ? root : "", name);
    if (!root || !tree_locate(tree, from)) {
        print_message("skipped: no %s in $CAST_DATA/samples\n", name);
        skip();
    }
    if (!import(from, scratch("real"), 1, &err)) fail_msg("%s", err.text);
    int n = 0, labels = 0;
    double sum = 0;
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        import_open(&d, scratch("real"), s);
        for (int i = 0; i < d.examples * PIXELS; i++) sum += d.tokens8[i];
        for (int i = 0; i < d.examples; i++) labels += d.labels[i];
        n += d.examples;
        dataset_close(&d);
    }
    assert_int_equal(n, images);
    assert_true(labels > images / 4 && labels < images * 3 / 4);
    assert_true(sum / n / PIXELS > 12 && sum / n / PIXELS < 24);
}

static void test_real_text(void **state) {
    (void)state;
    expect_sample("pathfinder32_text", 40);
}

static void test_real_table(void **state) {
    (void)state;
    expect_sample("pathfinder32_binary/curv_contour_length_9", 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),  cmocka_unit_test(test_archives),
        cmocka_unit_test(test_bad_archives), cmocka_unit_test(test_empty_image),
        cmocka_unit_test(test_seed),         cmocka_unit_test(test_bad_metadata),
        cmocka_unit_test(test_bad_images),   cmocka_unit_test(test_prepare_from_cast_data),
        cmocka_unit_test(test_real_text),    cmocka_unit_test(test_real_table),
        cmocka_unit_test(test_bad_tables),   cmocka_unit_test(test_large_metadata),
        cmocka_unit_test(test_other_roots),  cmocka_unit_test(test_lengths_of_contours),
    };
    lanes_open(1);
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
