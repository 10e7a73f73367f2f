#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/import.h"

/* Five columns, with each form of the label, quotes that mean nothing, bytes that are not UTF-8,
 * both ends of lines, and no end behind the last. */
static const char train[] = "1\tA00-1\tB00-2\t\"alpha\t\xff\xfe be\xc3\xaat\n"
                            "0.0\tB00-2\tC00-3\t\xff\xfe be\xc3\xaat\tgam ma\r\n"
                            "1.0\tA00-1\tA00-1\t\"alpha\t\"alpha\n"
                            "0\tC00-3\tA00-1\tgam ma\t\"alpha";
static const char eval[] = "1.0\tB00-2\tA00-1\tanother text\t\"alpha\n";
static const char test[] = "0.0\tD.x_4\tE\td\te\r\n";

static const char *make_tables(const char *dir) {
    char name[256];
    scratch_mkdir(dir);
    snprintf(name, sizeof name, "%s/new_aan_pairs.train.tsv", dir);
    import_write(name, train);
    snprintf(name, sizeof name, "%s/new_aan_pairs.eval.tsv", dir);
    import_write(name, eval);
    snprintf(name, sizeof name, "%s/new_aan_pairs.test.tsv", dir);
    import_write(name, test);
    return scratch(dir);
}

/* The first three columns of a table, and its texts as files. */
static void make_list(const char *dir, const char *split, const char *table) {
    char name[512], list[1024] = "", row[4][64];
    for (const char *at = table; *at;) {
        char label[8];
        int n = 0;
        assert_int_equal(sscanf(at, "%7[^\t]\t%63[^\t]\t%63[^\t]\t%63[^\t]\t%63[^\r\n]%n", label,
                                row[0], row[1], row[2], row[3], &n),
                         5);
        at += n;
        at += strspn(at, "\r\n");
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\t%s\t%s\n", label, row[0],
                 row[1]);
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%s/papers_text/%s.txt", dir, row[i]);
            import_write(name, row[2 + i]);
        }
    }
    snprintf(name, sizeof name, "%s/new_aan_pairs.%s.only_ids.tsv", dir, split);
    import_write(name, list);
}

static const char *make_lists(const char *dir) {
    char name[256];
    scratch_mkdir(dir);
    snprintf(name, sizeof name, "%s/papers_text", dir);
    scratch_mkdir(name);
    make_list(dir, "eval", eval);
    make_list(dir, "test", test);
    make_list(dir, "train", train);
    return scratch(dir);
}

static void expect_train(const char *out) {
    static const int pairs[] = {0, 1, 1, 2, 0, 0, 2, 0}, labels[] = {1, 0, 1, 0};
    static const char *const texts[] = {"\"alpha", "\xff\xfe be\xc3\xaat", "gam ma"};
    Dataset d;
    import_open(&d, out, SPLIT_TRAIN);
    assert_int_equal(d.examples, 4);
    assert_int_equal(d.documents, 3); /* each paper once */
    assert_int_equal(d.per_example, 2);
    assert_int_equal(d.vocab, 257);
    for (int i = 0; i < 3; i++) assert_true(import_is(&d, i, texts[i], strlen(texts[i])));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(d.labels[i], labels[i]);
        for (int k = 0; k < 2; k++) assert_int_equal(dataset_document(&d, i, k), pairs[2 * i + k]);
    }
    dataset_close(&d);
}

static void expect_test(const char *out) {
    Dataset d;
    import_open(&d, out, SPLIT_TEST);
    assert_int_equal(d.examples, 1);
    assert_int_equal(d.labels[0], 0);
    assert_true(import_is(&d, 0, "d", 1) && import_is(&d, 1, "e", 1));
    dataset_close(&d);
}

static void test_tables(void **state) {
    (void)state;
    import_expect("retrieval", make_tables("tsv"), scratch("out_tsv"));
    expect_train(scratch("out_tsv"));
    expect_test(scratch("out_tsv"));
    scratch_mkdir("release");
    scratch_mkdir("release/lra_release");
    make_tables("release/lra_release/tsv_data");
    import_expect("retrieval", scratch("release"), scratch("out_release"));
    for (int s = 0; s < SPLITS; s++)
        assert_true(import_same(scratch("out_tsv"), scratch("out_release"), s));
}

/* Wherever a text comes from, it is whole or refused. */
static void test_nul_bytes(void **state) {
    static const char line[] = "1\tA00-1\tB00-2\tal\0pha\tbeta\n";
    (void)state;
    make_tables("nul");
    scratch_write("nul/new_aan_pairs.eval.tsv", line, sizeof line - 1);
    import_refused("retrieval", scratch("nul"), EX_DATAERR,
                   "new_aan_pairs.eval.tsv: line 1: byte 17 is NUL");
    make_lists("nul_lists");
    scratch_write("nul_lists/papers_text/C00-3.txt", "gam\0ma", 6);
    import_refused("retrieval", scratch("nul_lists"), EX_DATAERR,
                   "papers_text/C00-3.txt: byte 3 is NUL");
}

static void test_lists(void **state) {
    (void)state;
    import_expect("retrieval", make_lists("lists"), scratch("out_lists"));
    expect_train(scratch("out_lists"));
    expect_test(scratch("out_lists"));
    /* Where both are there, the tables are read. */
    unlink(scratch("lists/papers_text/A00-1.txt"));
    make_tables("lists");
    import_expect("retrieval", scratch("lists"), scratch("out_both"));
    expect_train(scratch("out_both"));
}

/* A split's paper with two texts is two documents, each where its line has it. */
static void test_two_texts(void **state) {
    (void)state;
    const char *dir = make_tables("two");
    import_write("two/new_aan_pairs.test.tsv", "0\tA\tB\tone\ttwo\n1\tB\tA\ttwo\tother\n"
                                               "1\tA\tA\tone\tother\n0\tB\tA\ttwo\tone\n");
    import_expect("retrieval", dir, scratch("out_two"));
    static const int pairs[] = {0, 1, 1, 2, 0, 2, 1, 0};
    Dataset d;
    import_open(&d, scratch("out_two"), SPLIT_TEST);
    assert_int_equal(d.documents, 3);
    for (int i = 0; i < 8; i++) assert_int_equal(dataset_document(&d, i / 2, i % 2), pairs[i]);
    assert_true(import_is(&d, 0, "one", 3) && import_is(&d, 2, "other", 5));
    dataset_close(&d);
}

/* More papers than the tables of them begin with. */
static void test_many(void **state) {
    enum { LINES = 3000 };
    (void)state;
    const char *dir = make_tables("many");
    FILE *f = fopen(scratch("many/new_aan_pairs.train.tsv"), "w");
    assert_non_null(f);
    for (int i = 0; i < LINES; i++)
        fprintf(f, "%d\tP%d\tP%d\ttext %d\ttext %d\n", i % 2, i, i / 2, i, i / 2);
    assert_int_equal(fclose(f), 0);
    import_expect("retrieval", dir, scratch("out_many"));
    Dataset d;
    import_open(&d, scratch("out_many"), SPLIT_TRAIN);
    assert_int_equal(d.documents, LINES);
    for (int i = 0; i < LINES; i++) {
        assert_int_equal(dataset_document(&d, i, 0), i);
        assert_int_equal(dataset_document(&d, i, 1), i / 2);
    }
    dataset_close(&d);
}

static void test_bad_tables(void **state) {
    static const struct {
        const char *text, *what;
    } bad[] = {
        {"1\tA\tB\ta\tb\n1\tA\tB\ta\n", "test.tsv: line 2: 4 columns, expected 5: label, two ids"},
        {"1\tA\tB\ta\tb\tc\n", "line 1: 6 columns, expected 5"},
        {"1\tA\tB\ta\tb\n\n", "line 2: 1 columns, expected 5"},
        {"label\tid1\tid2\ttext1\ttext2\n", "expected the label 0, 1, 0.0 or 1.0, got \"label\""},
        {"2\tA\tB\ta\tb\n", "line 1: expected the label 0, 1, 0.0 or 1.0, got \"2\""},
        {"\tA\tB\ta\tb\n", "got \"\""},
        {"-1\tA\tB\ta\tb\n", "got \"-1\""},
        {"0.5\tA\tB\ta\tb\n", "got \"0.5\""},
        {" 1\tA\tB\ta\tb\n", "got \" 1\""},
        {"1e999\tA\tB\ta\tb\n", "got \"1e999\""},
        {"1\t\tB\ta\tb\n", "line 1: expected a paper's id"},
        {"1\tA\t../B\ta\tb\n", "got \"../B\""},
        {"1\tA\tB\ta\t\n", "line 1: an empty text of a paper, got \"B\""},
        {"1\tA\tB\t\tb\n", "line 1: an empty text of a paper, got \"A\""},
        {"", "the file is empty"},
    };
    (void)state;
    make_tables("bad");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        import_write("bad/new_aan_pairs.test.tsv", bad[i].text);
        import_refused("retrieval", scratch("bad"), EX_DATAERR, bad[i].what);
    }
    scratch_write("bad/new_aan_pairs.test.tsv", "1\tA\tB\ta\0b\tb\n", 12);
    import_refused("retrieval", scratch("bad"), EX_DATAERR, "test.tsv: line 1: byte 8 is NUL");
    import_sparse("bad/new_aan_pairs.test.tsv", "1\tA\tB\ta\tb\n1\tA\tB\ta\tb", 1 << 30);
    import_refused("retrieval", scratch("bad"), EX_DATAERR, "line 2: longer than 1048576 bytes");
    unlink(scratch("bad/new_aan_pairs.test.tsv"));
    assert_int_equal(mkfifo(scratch("bad/new_aan_pairs.test.tsv"), 0666), 0);
    import_refused("retrieval", scratch("bad"), EX_DATAERR, "test.tsv: is a pipe or device");
    unlink(scratch("bad/new_aan_pairs.test.tsv"));
    import_refused("retrieval", scratch("bad"), EX_NOINPUT, "bad/new_aan_pairs.test.tsv");
    unlink(scratch("bad/new_aan_pairs.train.tsv"));
    import_refused("retrieval", scratch("bad"), EX_NOINPUT,
                   "bad: holds no new_aan_pairs.train.tsv");
    import_refused("retrieval", scratch("nowhere"), EX_NOINPUT, "nowhere: no such file");
}

static void test_bad_lists(void **state) {
    static const struct {
        const char *text, *what;
        int code;
    } bad[] = {
        {"1\tA00-1\n", "test.only_ids.tsv: line 1: 2 columns, expected 3: label, two ids",
         EX_DATAERR},
        {"1\tA00-1\tB00-2\ta\tb\n", "line 1: 5 columns, expected 3", EX_DATAERR},
        {"1\tA00-1\t../new_aan\n", "got \"../new_aan\"", EX_DATAERR},
        {"1\t/etc/passwd\tA00-1\n", "got \"/etc/passwd\"", EX_DATAERR},
        {"1\t..\tA00-1\n", "got \"..\"", EX_DATAERR},
        {"1\tA00-1\tB 2\n", "got \"B 2\"", EX_DATAERR},
        {"1\tA00-1\tB00-2 \n", "got \"B00-2 \"", EX_DATAERR},
        {"1\tA00-1\tB\xc3\xa4\n", "expected a paper's id", EX_DATAERR},
        {"1\tA00-1\tX00-9\n", "line 1: ", EX_NOINPUT},
        {"1\tA00-1\tX00-9\n", "papers_text/X00-9.txt: cannot be read", EX_NOINPUT},
        {"1\tA00-1\tempty\n", "papers_text/empty.txt: the file is empty", EX_DATAERR},
        {"1\tA00-1\tbig\n", "papers_text/big.txt: 1048577 bytes, expected at most", EX_DATAERR},
    };
    char id[80] = "1\tA00-1\t";
    (void)state;
    make_lists("badlists");
    import_write("badlists/papers_text/empty.txt", "");
    import_sparse("badlists/papers_text/big.txt", "big", (1 << 20) + 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        import_write("badlists/new_aan_pairs.test.only_ids.tsv", bad[i].text);
        import_refused("retrieval", scratch("badlists"), bad[i].code, bad[i].what);
    }
    memset(id + strlen(id), 'x', 65);
    import_write("badlists/new_aan_pairs.test.only_ids.tsv", id);
    import_refused("retrieval", scratch("badlists"), EX_DATAERR, "expected a paper's id");
}

/* $CAST_DATA/retrieval: lists of pairs and the papers' texts. */
static void test_real_data(void **state) {
    char dir[FILE_PATH_MAX], place[FILE_PATH_MAX];
    (void)state;
    if (!import_official(dir, "retrieval") || !task_find("retrieval")->locate(place, dir)) skip();
    import_expect("retrieval", dir, scratch("out_real"));
    for (int s = 0; s < SPLITS; s++) {
        Dataset d;
        import_open(&d, scratch("out_real"), s);
        assert_true(d.examples >= 2000 && d.documents < 2 * d.examples);
        int *named = calloc((size_t)d.documents, sizeof *named), unnamed = 0;
        assert_non_null(named);
        for (int i = 0; i < 2 * d.examples; i++) named[dataset_document(&d, i / 2, i % 2)]++;
        for (int i = 0; i < d.documents; i++) unnamed += named[i] == 0;
        assert_int_equal(unnamed, 0);
        free(named);
        dataset_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_nul_bytes), cmocka_unit_test(test_two_texts),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_bad_tables),
        cmocka_unit_test(test_bad_lists), cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
