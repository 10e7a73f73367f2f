#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "archive.h"
#include "data/import.h"

/* Reviews of a small aclImdb. The numbers are not in the order of names; the last one has each byte
 * there is. */
typedef struct File {
    const char *name, *text;
    int label;
} File;

static const File train[] = {
    {"train/neg/0_1.txt", "Bad.", 0},
    {"train/pos/0_9.txt", "Good!<br /><br />\"Very\" good.", 1},
    {"train/neg/2_4.txt", "\xff\xfe not UTF-8 \xc3", 0},
    {"train/pos/2_10.txt", "na\xc3\xafve", 1},
    {"train/neg/10_3.txt", " ", 0},
};
static const File test[] = {
    {"test/neg/0_2.txt", "Worse\n than\tthat", 0},
    {"test/pos/7_7.txt", "Fine\r\n", 1},
    {"test/pos/12499_8.txt", NULL, 1},
};
static const File other[] = {
    {"README", "what this is", 0},        {"train/unsup/0_0.txt", "no label", 0},
    {"train/urls_pos.txt", "http://", 0}, {"train/pos/readme.txt", "x", 0},
    {"train/pos/0_9.txt~", "x", 0},       {"train/pos/a0_9.txt", "x", 0},
    {"train/pos/0_9_.txt", "x", 0},       {"train/pos/1234567890_9.txt", "x", 0},
    {"train/pos/_9.txt", "x", 0},         {"test/pos/.DS_Store", "x", 0},
};
enum {
    TRAIN = sizeof train / sizeof *train,
    TEST = sizeof test / sizeof *test,
    OTHER = sizeof other / sizeof *other,
    FILES = TRAIN + TEST + OTHER
};

static const void *content(const File *f, size_t *size) {
    static unsigned char all[256];
    if (f->text) {
        *size = strlen(f->text);
        return f->text;
    }
    for (int i = 0; i < 256; i++) all[i] = (unsigned char)i;
    *size = sizeof all;
    return all;
}

static const File *file_at(int i) {
    return i < TRAIN ? &train[i] : i < TRAIN + TEST ? &test[i - TRAIN] : &other[i - TRAIN - TEST];
}

static void make_folders(const char *root) {
    static const char *const folders[] = {"",      "/train",       "/train/pos", "/train/neg",
                                          "/test", "/train/unsup", "/test/pos",  "/test/neg"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", root, folders[i]);
        scratch_mkdir(name);
    }
}

static const char *make_directory(const char *root) {
    make_folders(root);
    for (int i = 0; i < FILES; i++) {
        char name[256];
        size_t size;
        const void *data = content(file_at(i), &size);
        snprintf(name, sizeof name, "%s/%s", root, file_at(i)->name);
        scratch_write(name, data, size);
    }
    return scratch(root);
}

/* With the files in an order of its own. */
static Bytes make_tar(void) {
    Bytes tar = {0};
    tar_add(&tar, "aclImdb/", '5', "", 0);
    for (int i = 0; i < FILES; i++) {
        char name[64];
        size_t size;
        const File *f = file_at(i * 7 % FILES);
        const void *data = content(f, &size);
        snprintf(name, sizeof name, "aclImdb/%s", f->name);
        tar_add(&tar, name, '0', data, size);
    }
    return tar;
}

static void expect_split(const char *out, int split, const File *files, int n) {
    Dataset d;
    import_open(&d, out, split);
    assert_int_equal(d.examples, n);
    assert_int_equal(d.vocab, 257);
    assert_int_equal(d.classes, 2);
    for (int i = 0; i < n; i++) {
        size_t size;
        const void *data = content(&files[i], &size);
        assert_int_equal(d.labels[i], files[i].label);
        assert_true(import_is(&d, i, data, size));
    }
    dataset_close(&d);
}

static void expect_all(const char *out) {
    expect_split(out, SPLIT_TRAIN, train, TRAIN);
    expect_split(out, SPLIT_VAL, test, TEST);
    expect_split(out, SPLIT_TEST, test, TEST);
}

static void test_directory(void **state) {
    (void)state;
    import_expect("text", make_directory("aclImdb"), scratch("out_dir"));
    expect_all(scratch("out_dir"));
    scratch_mkdir("outer");
    make_directory("outer/aclImdb");
    import_expect("text", scratch("outer"), scratch("out_outer"));
    for (int s = 0; s < SPLITS; s++)
        assert_true(import_same(scratch("out_dir"), scratch("out_outer"), s));
    Dataset d;
    import_open(&d, scratch("out_dir"), SPLIT_VAL);
    assert_non_null(strstr(st_meta(&d.file, "source"), "the test set once more"));
    dataset_close(&d);
}

static void test_archive(void **state) {
    (void)state;
    Bytes tar = make_tar(), z = {0};
    tar_end(&tar);
    gzip_add(&z, tar.data, tar.size);
    scratch_mkdir("holder");
    const char *path = scratch_write("holder/aclImdb_v1.tar.gz", z.data, z.size);
    import_expect("text", path, scratch("out_tar"));
    expect_all(scratch("out_tar"));
    import_expect("text", scratch("holder"), scratch("out_holder"));
    import_expect("text", make_directory("again"), scratch("out_again"));
    for (int s = 0; s < SPLITS; s++) {
        assert_true(import_same(scratch("out_tar"), scratch("out_holder"), s));
        assert_true(import_same(scratch("out_tar"), scratch("out_again"), s));
    }
    for (size_t size = 64; size < z.size; size += 64)
        import_refused("text", scratch_write("cut.tar.gz", z.data, size), EX_DATAERR,
                       "cut.tar.gz: the gzip data breaks off");
    for (size_t size = 512; size < tar.size - 1024; size += 512)
        import_refused("text", scratch_write("cut.tar", tar.data, size), EX_DATAERR, "cut.tar");
    bytes_free(&z);
    bytes_free(&tar);
}

static void refuse_entry(const char *name, char type, const char *text, int code,
                         const char *what) {
    Bytes tar = make_tar();
    tar_add(&tar, name, type, text, strlen(text));
    tar_end(&tar);
    import_refused("text", scratch_write("bad.tar", tar.data, tar.size), code, what);
    bytes_free(&tar);
}

static void test_bad_archives(void **state) {
    (void)state;
    refuse_entry("aclImdb/train/pos/5_9.txt", '0', "", EX_DATAERR,
                 "bad.tar: aclImdb/train/pos/5_9.txt: the review is empty");
    refuse_entry("aclImdb/train/pos/0_9.txt", '0', "Good", EX_DATAERR,
                 "train/pos: review 0 is there twice (0_9.txt, 0_9.txt)");
    refuse_entry("copy/../train/pos/0_9.txt", '0', "Good", EX_DATAERR,
                 "train/pos: review 0 is there twice");
    refuse_entry("/test/neg/0_1.txt", '0', "Bad", EX_DATAERR, "test/neg: review 0 is there twice");
    Bytes tar = {0};
    tar_header(&tar, "aclImdb/test/pos/1_7.txt", '0', 100000001);
    import_refused("text", scratch_write("big.tar", tar.data, tar.size), EX_DATAERR,
                   "test/pos/1_7.txt: 100000001 bytes, expected at most 100000000");
    tar.size = 0;
    tar_add(&tar, "aclImdb/train/pos/1_7.txt", '0', "Good", 4);
    tar_end(&tar);
    import_refused("text", scratch_write("one.tar", tar.data, tar.size), EX_NOINPUT,
                   "train/neg: no reviews");
    bytes_free(&tar);
    import_refused("text", import_write("no.tar", "no archive at all"), EX_DATAERR,
                   "not a tar archive");
}

/* More entries than such an archive has, each of them empty. */
static void test_many_entries(void **state) {
    enum { ENTRIES = 200001 };
    Bytes tar = {0};
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        char name[64];
        snprintf(name, sizeof name, "aclImdb/train/unsup/%d_0.txt", i);
        tar_header(&tar, name, '0', 0);
    }
    const char *path = scratch_write("many.tar", tar.data, tar.size);
    import_refused("text", path, EX_DATAERR, "more entries than such an archive may have");
    unlink(path);
    bytes_free(&tar);
}

/* What is no regular file, or goes by another name, is as if it were not there. */
static void test_passed_over(void **state) {
    static const struct {
        const char *name;
        char type;
    } odd[] = {{"aclImdb/train/pos/5_9.txt", '2'},
               {"aclImdb/train/pos/6_9.txt", '1'},
               {"aclImdb/train/pos/7_9.txt", '3'},
               {"aclImdb/train/pos/8_9.txt", '6'},
               {"../../etc/passwd", '0'},
               {"train/pos", '0'},
               {"5_9.txt", '0'},
               {"xtrain/pos/5_9.txt", '0'},
               {"train/pos/5_9.txt/", '5'},
               {"train/pos/sub/5_9.txt", '0'},
               {"train/pos/5_9.TXT", '0'},
               {"\xff\xfe/pos/5_9.txt", '0'}};
    (void)state;
    Bytes tar = make_tar();
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        tar_add(&tar, odd[i].name, odd[i].type, "", 0);
    tar_end(&tar);
    import_expect("text", scratch_write("odd.tar", tar.data, tar.size), scratch("out_odd"));
    expect_all(scratch("out_odd"));
    bytes_free(&tar);
}

static void test_bad_directories(void **state) {
    (void)state;
    const char *dir = make_directory("bad");
    import_write("bad/test/neg/3_1.txt", "");
    import_refused("text", dir, EX_DATAERR, "bad/test/neg/3_1.txt: the file is empty");
    import_sparse("bad/test/neg/3_1.txt", "long", 100000001);
    import_refused("text", dir, EX_DATAERR,
                   "bad/test/neg/3_1.txt: 100000001 bytes, expected at most 100000000");
    unlink(scratch("bad/test/neg/3_1.txt"));
    assert_int_equal(mkfifo(scratch("bad/test/neg/3_1.txt"), 0666), 0);
    import_refused("text", dir, EX_DATAERR, "3_1.txt: is a pipe or device");
    unlink(scratch("bad/test/neg/3_1.txt"));
    import_write("bad/test/neg/0_1.txt", "Twice");
    import_refused("text", dir, EX_DATAERR, "test/neg: review 0 is there twice (0_");
    unlink(scratch("bad/test/neg/0_1.txt"));
    unlink(scratch("bad/test/neg/0_2.txt"));
    import_refused("text", dir, EX_NOINPUT, "test/neg: no reviews");
    rmdir(scratch("bad/test/neg"));
    import_refused("text", dir, EX_NOINPUT, "bad/test/neg: cannot be read");
    import_refused("text", scratch("nowhere"), EX_NOINPUT, "nowhere: no such file or directory");
    import_refused("text", scratch_mkdir("void"), EX_NOINPUT,
                   "holds no train/pos, aclImdb or aclImdb_v1.tar.gz: fetch https://");
}

/* $CAST_DATA/text: all 50,000 reviews, as they are found there. */
static void test_real_data(void **state) {
    char dir[FILE_PATH_MAX], place[FILE_PATH_MAX];
    (void)state;
    if (!import_official(dir, "text") || !task_find("text")->locate(place, dir)) skip();
    import_expect("text", dir, scratch("out_real"));
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        int positive = 0;
        import_open(&d, scratch("out_real"), s);
        assert_int_equal(d.examples, task_find("text")->official[s]);
        for (int i = 0; i < d.examples; i++) {
            assert_int_equal(d.labels[i], i % 2);
            positive += d.labels[i];
        }
        assert_int_equal(positive, 12500);
        if (s == SPLIT_TRAIN) {
            static const char begin[] = "Bromwell High is a cartoon comedy.";
            for (size_t i = 0; i < sizeof begin - 1; i++)
                assert_int_equal(d.tokens16[d.offsets[1] + (int64_t)i], begin[i] + 1);
        }
        dataset_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directory),       cmocka_unit_test(test_archive),
        cmocka_unit_test(test_bad_archives),    cmocka_unit_test(test_passed_over),
        cmocka_unit_test(test_bad_directories), cmocka_unit_test(test_many_entries),
        cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
