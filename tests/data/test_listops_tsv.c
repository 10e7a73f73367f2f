#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/lanes.h"
#include "data/import.h"
#include "data/listops_tsv.h"
#include "data/listops_value.h"

#define HEAD "Source\tTarget\r\n"

static const char *const files[SPLITS] = {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"};

static const char *write_split(const char *dir, int split, const char *text) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", dir, files[split]);
    return import_write(name, text);
}

static const char *make_directory(const char *dir, const char *text) {
    scratch_mkdir(dir);
    for (int s = 0; s < SPLITS; s++) write_split(dir, s, text);
    return scratch(dir);
}

/* LRA's form, and forms that mean the same: without parentheses, with other blanks and ends of
 * lines. */
static void test_forms(void **state) {
    static const int ids[] = {2, 10, 1, 8, 9, 5, 5}; /* [MAX 4 [MIN 2 3 ] ] */
    (void)state;
    const char *dir =
        make_directory("forms", HEAD "( ( ( [MAX 4 ) ( ( ( [MIN 2 ) 3 ) ] ) ) ] )\t4\r\n"
                                     "[MAX 4 [MIN 2 3 ] ]\t4\n  [MAX  ((4)[MIN 2 3 ] ]) \t4\n7\t7");
    import_expect("listops", dir, scratch("out_forms"));
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        import_open(&d, scratch("out_forms"), s);
        assert_int_equal(d.examples, 4);
        for (int i = 0; i < 3; i++) {
            int got[8];
            assert_int_equal(dataset_tokens(&d, i, 8, got), 7);
            assert_memory_equal(got, ids, sizeof ids);
            assert_int_equal(d.labels[i], 4);
        }
        assert_int_equal(dataset_length(&d, 3), 1);
        assert_int_equal(d.labels[3], 7);
        dataset_close(&d);
    }
    scratch_mkdir("release");
    scratch_mkdir("release/lra_release");
    make_directory("release/lra_release/listops-1000", HEAD "7\t7\r\n");
    import_expect("listops", scratch("release"), scratch("out_release"));
}

/* What is generated, written as LRA's files and read again is what was generated. */
static void test_round_trip(void **state) {
    TaskRequest r = {.out = scratch("made"), .seed = 2, .train = 40, .val = 10, .test = 10};
    const Task *t = task_find("listops");
    Err err;
    (void)state;
    lanes_open(1);
    assert_true(task_generate(t, &r, &err));
    if (!listops_export(r.out, scratch("tsv/deeper"), &err)) fail_msg("%s", err.text);
    import_expect("listops", scratch("tsv/deeper"), scratch("read"));
    for (int s = 0; s < SPLITS; s++) {
        Dataset a, b;
        import_open(&a, r.out, s);
        import_open(&b, scratch("read"), s);
        assert_string_equal(st_meta(&a.file, "hash"), st_meta(&b.file, "hash"));
        dataset_close(&a);
        dataset_close(&b);
    }
}

static void test_bad_export(void **state) {
    Err err;
    (void)state;
    import_expect("listops", make_directory("seven", HEAD "7\t7\r\n"), scratch("sevens"));
    assert_false(listops_export(scratch("nowhere"), scratch("tsv"), &err));
    assert_int_equal(err.code, EX_NOINPUT);
    import_write("file", "");
    assert_false(listops_export(scratch("sevens"), scratch("file"), &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    const int seven = LISTOPS_DIGIT + 7;
    DatasetWriter *w = dataset_writer("listops", "val", "a test", LISTOPS_VOCAB, 10, false);
    dataset_add_example(w, 6, dataset_add_document(w, &seven, 1), -1);
    assert_true(dataset_write(w, scratch("sevens/val.safetensors"), &err));
    dataset_writer_free(w);
    assert_false(listops_export(scratch("sevens"), scratch("wrong"), &err));
    assert_int_equal(err.code, EX_DATAERR);
    assert_non_null(strstr(err.text, "val.safetensors: example 0: its label is not"));
    assert_false(file_exists(scratch("wrong/basic_val.tsv")));
}

static void test_bad_files(void **state) {
    static const struct {
        const char *text, *what;
    } bad[] = {
        {"", "basic_test.tsv: the file is empty"},
        {"7\t7\r\n",
         "basic_test.tsv: line 1: expected the header: \"Source\" and \"Target\" with a TAB"},
        {"Source,Target\r\n7,7\r\n", "line 1: expected the header"},
        {"\xef\xbb\xbf" HEAD "7\t7\r\n", "begins with a byte order mark"},
        {HEAD, "no row behind the header"},
        {HEAD "7\t7\r\n[MIN 3 4 ]\t4\r\n",
         "basic_test.tsv: line 3: its target is 4, but the expression's value is 3"},
        {HEAD "7\r\n", "line 2: 1 columns, expected 2"},
        {HEAD "7\t7\t7\r\n", "line 2: 3 columns, expected 2"},
        {HEAD "7\t7\r\n\r\n", "line 3: 1 columns, expected 2"},
        {HEAD "7\t10\r\n", "expected a target from 0 to 9, got \"10\""},
        {HEAD "7\t-1\r\n", "got \"-1\""},
        {HEAD "7\t\r\n", "got \"\""},
        {HEAD "7\tx\r\n", "got \"x\""},
        {HEAD "\t7\r\n", "no expression"},
        {HEAD "( ) ( )\t7\r\n", "no expression"},
        {HEAD "[MIN 3 [FIRST 4 ] ]\t3\r\n", "an unknown word \"[FIRST\""},
        {HEAD "[MIN 3 44 ]\t3\r\n", "an unknown word \"44\""},
        {HEAD "[min 3 4 ]\t3\r\n", "an unknown word \"[min\""},
        {HEAD "[MIN 3 \xff\xfe ]\t3\r\n", "an unknown word"},
        {HEAD "[MIN 3 <pad> ]\t3\r\n", "an unknown word \"<pad>\""},
        {HEAD "\"[MIN 3 4 ]\"\t3\r\n", "an unknown word \"\"[MIN\""},
        {HEAD "[MIN 3 4\t3\r\n", "not well-formed"},
        {HEAD "[MIN 3 4 ] ]\t3\r\n", "not well-formed"},
        {HEAD "MIN 3 4 ]\t3\r\n", "an unknown word \"MIN\""},
        {HEAD "3 4\t3\r\n", "not well-formed"},
        {HEAD "[MIN ]\t3\r\n", "not well-formed"},
        {HEAD "( [MIN 3 4 ]\t3\r\n", "parentheses that are not balanced"},
        {HEAD ") [MIN 3 4 ] (\t3\r\n", "parentheses that are not balanced"},
        {HEAD "[MIN [MIN [MIN [MIN [MIN [MIN [MIN [MIN [MIN [MIN 1 ] ] ] ] ] ] ] ] ] ]\t1\r\n",
         "nested deeper than LRA's 9"},
    };
    (void)state;
    make_directory("bad", HEAD "7\t7\r\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_split("bad", SPLIT_TEST, bad[i].text);
        import_refused("listops", scratch("bad"), EX_DATAERR, bad[i].what);
    }
    scratch_write("bad/basic_test.tsv", HEAD "7\t7\r\n[MIN 3\0 ]\t3\r\n", 34);
    import_refused("listops", scratch("bad"), EX_DATAERR, "basic_test.tsv: line 3: byte 7 is NUL");
    import_sparse("bad/basic_test.tsv", HEAD "[MIN 3 4", 1 << 30);
    import_refused("listops", scratch("bad"), EX_DATAERR, "line 2: longer than 1048576 bytes");
    unlink(scratch("bad/basic_test.tsv"));
    import_refused("listops", scratch("bad"), EX_NOINPUT, "bad/basic_test.tsv");
    assert_int_equal(mkfifo(scratch("bad/basic_test.tsv"), 0666), 0);
    import_refused("listops", scratch("bad"), EX_DATAERR, "basic_test.tsv: is a pipe or device");
    unlink(scratch("bad/basic_train.tsv"));
    import_refused("listops", scratch("bad"), EX_NOINPUT, "bad: holds no basic_train.tsv");
    import_refused("listops", scratch("nowhere"), EX_NOINPUT, "nowhere: no such file");
}

/* The longest line that is allowed, of nothing but words. */
static void test_long_line(void **state) {
    enum { WORDS = 500000 };
    (void)state;
    char *text = malloc(sizeof HEAD + 2 * WORDS + 32), *end = text;
    assert_non_null(text);
    end += sprintf(end, HEAD "[SM");
    for (int i = 0; i < WORDS; i++) end += sprintf(end, " 1");
    sprintf(end, " ]\t%d\n", WORDS % 10);
    const char *dir = make_directory("long", text);
    free(text);
    import_expect("listops", dir, scratch("out_long"));
    Dataset d;
    import_open(&d, scratch("out_long"), SPLIT_TRAIN);
    assert_int_equal(dataset_length(&d, 0), WORDS + 2);
    dataset_close(&d);
}

/* $CAST_DATA/samples: 100 rows of LRA's own program; written again, they are the same bytes. */
static void test_official_rows(void **state) {
    char path[FILE_PATH_MAX];
    size_t size, again;
    Err err;
    (void)state;
    if (!import_official(path, "samples/listops_official_100.tsv")) skip();
    unsigned char *rows = scratch_read(path, &size);
    rows[size] = 0;
    import_expect("listops", make_directory("official", (char *)rows), scratch("out_official"));
    Dataset d;
    import_open(&d, scratch("out_official"), SPLIT_VAL);
    assert_int_equal(d.examples, 100);
    dataset_close(&d);
    assert_true(listops_export(scratch("out_official"), scratch("rows"), &err));
    for (int s = 0; s < SPLITS; s++) {
        char name[64];
        snprintf(name, sizeof name, "rows/%s", files[s]);
        unsigned char *written = scratch_read(scratch(name), &again);
        assert_int_equal(again, size);
        assert_memory_equal(written, rows, size);
        free(written);
    }
    free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),      cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bad_export), cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_long_line),  cmocka_unit_test(test_official_rows),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
