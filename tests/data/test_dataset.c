#include "data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/task.h"
#include "scratch.h"

/* Three sequences as a file would hold them; a test spoils one value and looks at the message. */
typedef struct Parts {
    uint8_t tokens8[6];
    int16_t tokens16[6];
    int64_t offsets[4];
    int32_t labels[3], pairs[6];
    bool wide, paired, wider;
    int64_t ntokens, noffsets, nlabels, npairs;
    Dtype labels_type;
    const char *vocab, *classes, *count, *format, *hash;
} Parts;

static Parts good_parts(void) {
    return (Parts){
        .tokens8 = {0, 1, 2, 3, 4, 4},
        .tokens16 = {0, 1, 2, 3, 4, 4},
        .offsets = {0, 2, 3, 6},
        .labels = {1, 0, 1},
        .pairs = {0, 1, 2, 2, 1, 0},
        .ntokens = 6,
        .noffsets = 4,
        .nlabels = 3,
        .npairs = 3,
        .labels_type = DT_I32,
        .vocab = "5",
        .classes = "2",
    };
}

static const char *write_parts(const Parts *p) {
    StTensor t[4] = {
        {.name = "tokens", .dtype = DT_U8, .ndim = 1, .shape = {p->ntokens}, .data = p->tokens8},
        {.name = "offsets", .dtype = DT_I64, .ndim = 1, .shape = {p->noffsets}, .data = p->offsets},
        {.name = "labels",
         .dtype = p->labels_type,
         .ndim = 1,
         .shape = {p->nlabels},
         .data = p->labels},
        {.name = "pairs", .dtype = DT_I32, .ndim = 2, .shape = {p->npairs, 2}, .data = p->pairs},
    };
    if (p->wide) {
        t[0].dtype = DT_I16;
        t[0].data = p->tokens16;
    }
    if (p->wider) t[0].dtype = DT_I32, t[0].data = p->pairs;
    for (int i = 0; i < 4; i++) {
        size_t elements = (size_t)t[i].shape[0] * (t[i].ndim == 2 ? 2 : 1);
        t[i].bytes = elements * dtype_size(t[i].dtype);
    }
    StMeta meta[5];
    int n = 0;
    const char *const keys[] = {"vocab", "classes", "count", "format", "hash"};
    const char *const values[] = {p->vocab, p->classes, p->count, p->format, p->hash};
    for (int i = 0; i < 5; i++)
        if (values[i]) meta[n++] = (StMeta){keys[i], values[i]};
    Err err;
    const char *path = scratch("parts.safetensors");
    if (!st_write(path, KIND_DATASET, t, p->paired ? 4 : 3, meta, n, &err))
        fail_msg("%s", err.text);
    return path;
}

static void expect_error(const Parts *p, const char *what) {
    Dataset d;
    Err err = {0};
    const char *path = write_parts(p);
    assert_false(dataset_open(&d, path, &err));
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    assert_non_null(strstr(err.text, path));
}

static void expect_open(const Parts *p) {
    Dataset d;
    Err err = {0};
    if (!dataset_open(&d, write_parts(p), &err)) fail_msg("%s", err.text);
    assert_int_equal(d.examples, 3);
    assert_int_equal(d.documents, 3);
    assert_int_equal(d.per_example, p->paired ? 2 : 1);
    assert_int_equal(d.vocab, 5);
    assert_int_equal(d.classes, 2);
    assert_int_equal(dataset_document(&d, 1, 0), p->paired ? 2 : 1);
    assert_int_equal(dataset_document(&d, 2, p->paired ? 1 : 0), p->paired ? 0 : 2);
    assert_int_equal(dataset_length(&d, 2), 3);
    int ids[3] = {-1, -1, -1};
    assert_int_equal(dataset_tokens(&d, 2, 2, ids), 2);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[1], 4);
    assert_int_equal(ids[2], -1);
    assert_int_equal(dataset_tokens(&d, 1, 1000, ids), 1);
    assert_int_equal(ids[0], 2);
    dataset_close(&d);
}

static void test_open(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        Parts p = good_parts();
        p.wide = variant & 1;
        p.paired = variant & 2;
        expect_open(&p);
        p.count = "3";
        p.format = "cast-dataset-1";
        expect_open(&p);
    }
}

static void test_bad_offsets(void **state) {
    (void)state;
    Parts p = good_parts();
    p.offsets[0] = 1;
    expect_error(&p, "offsets begin with 1, expected 0");
    p = good_parts();
    p.offsets[2] = 2;
    expect_error(&p, "example 1: its offsets are 2 to 2");
    p.offsets[2] = 1;
    expect_error(&p, "example 1: its offsets are 2 to 1");
    p.paired = true;
    expect_error(&p, "document 1: its offsets are 2 to 1");
    p = good_parts();
    p.offsets[2] = -1;
    expect_error(&p, "example 1: its offsets are 2 to -1");
    p.offsets[2] = 7;
    expect_error(&p, "example 1: its offsets are 2 to 7");
    p.offsets[2] = INT64_MAX;
    expect_error(&p, "example 1: its offsets are 2 to 9223372036854775807");
    p.offsets[1] = INT64_MIN;
    expect_error(&p, "example 0: its offsets are 0 to -9223372036854775808");
    p = good_parts();
    p.offsets[3] = 5;
    expect_error(&p, "offsets end at 5, but there are 6 tokens");
    p.noffsets = 1;
    expect_error(&p, "offsets");
    p.noffsets = 3;
    expect_error(&p, "3 labels for 2 sequences");
}

static void test_bad_ids(void **state) {
    (void)state;
    Parts p = good_parts();
    p.tokens8[4] = 5;
    expect_error(&p, "example 2: token 1 is 5, expected 0 to 4");
    p.paired = true;
    expect_error(&p, "document 2: token 1 is 5, expected 0 to 4");
    p = good_parts();
    p.wide = true;
    p.tokens16[0] = -1;
    expect_error(&p, "example 0: token 0 is -1, expected 0 to 4");
    p.tokens16[0] = 300;
    expect_error(&p, "example 0: token 0 is 300, expected 0 to 4");
    p.wider = true;
    expect_error(&p, "'tokens' must be U8, or I16 where ids are above 255, is I32 [6]");
}

static void test_bad_labels(void **state) {
    (void)state;
    Parts p = good_parts();
    p.labels[2] = 2;
    expect_error(&p, "example 2: label 2, expected 0 to 1");
    p.labels[2] = -1;
    expect_error(&p, "example 2: label -1, expected 0 to 1");
    p.labels_type = DT_U32;
    expect_error(&p, "labels");
    p = good_parts();
    p.nlabels = 2;
    expect_error(&p, "2 labels for 3 sequences");
    p.nlabels = 0;
    expect_error(&p, "labels");
}

static void test_bad_pairs(void **state) {
    (void)state;
    Parts p = good_parts();
    p.paired = true;
    p.pairs[3] = 3;
    expect_error(&p, "example 1: pairs names document 3, expected 0 to 2");
    p.pairs[3] = -1;
    expect_error(&p, "example 1: pairs names document -1, expected 0 to 2");
    p = good_parts();
    p.paired = true;
    p.npairs = 2;
    expect_error(&p, "pairs");
}

static void test_bad_metadata(void **state) {
    static const char *const bad[] = {NULL, "", "0", "-5", "five", "5x", "99999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Parts p = good_parts();
        p.vocab = bad[i];
        expect_error(&p, "\"vocab\"");
        p = good_parts();
        p.classes = bad[i];
        expect_error(&p, "\"classes\"");
    }
    Parts p = good_parts();
    p.vocab = "32769";
    expect_error(&p, "expected 1 to 32768");
    p = good_parts();
    p.count = "4";
    expect_error(&p, "says 4, but there are 3 examples");
    p.count = NULL;
    p.format = "cast-dataset-2";
    expect_error(&p, "cast-dataset-2");
}

static DatasetWriter *small_writer(int vocab, bool pairs) {
    DatasetWriter *w = dataset_writer("test", "train", "made here", vocab, 3, pairs);
    for (int i = 0; i < 1000; i++) {
        int ids[8], n = 1 + i % 8;
        for (int j = 0; j < n; j++) ids[j] = (i * 31 + j * 7) % vocab;
        int doc = dataset_add_document(w, ids, n);
        assert_int_equal(doc, i);
        if (!pairs) dataset_add_example(w, i % 3, doc, -1);
    }
    for (int i = 0; pairs && i < 500; i++) dataset_add_example(w, i % 3, 999 - i, i);
    return w;
}

static void expect_small(const Dataset *d, int vocab, bool pairs) {
    assert_int_equal(d->examples, pairs ? 500 : 1000);
    assert_int_equal(d->documents, 1000);
    assert_int_equal(d->vocab, vocab);
    assert_int_equal(d->classes, 3);
    assert_true(vocab <= 256 ? d->tokens8 && !d->tokens16 : d->tokens16 && !d->tokens8);
    for (int i = 0; i < 1000; i++) {
        int ids[8], n = dataset_tokens(d, i, 8, ids);
        assert_int_equal(n, 1 + i % 8);
        for (int j = 0; j < n; j++) assert_int_equal(ids[j], (i * 31 + j * 7) % vocab);
    }
    for (int i = 0; i < d->examples; i++) {
        assert_int_equal(d->labels[i], i % 3);
        assert_int_equal(dataset_document(d, i, 0), pairs ? 999 - i : i);
        if (pairs) assert_int_equal(dataset_document(d, i, 1), i);
    }
}

static void test_round_trip(void **state) {
    static const int vocabs[] = {1, 16, 256, 257, 32768};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof vocabs / sizeof *vocabs; i++) {
        int vocab = vocabs[i / 2];
        bool pairs = i % 2;
        DatasetWriter *w = small_writer(vocab, pairs);
        const char *path = scratch("small.safetensors");
        Dataset d;
        Err err = {0};
        if (!dataset_write(w, path, &err) || !dataset_open(&d, path, &err))
            fail_msg("%s", err.text);
        expect_small(&d, vocab, pairs);
        assert_string_equal(st_meta(&d.file, "task"), "test");
        assert_string_equal(st_meta(&d.file, "split"), "train");
        assert_string_equal(st_meta(&d.file, "source"), "made here");
        assert_true(dataset_check_hash(&d, &err));
        dataset_close(&d);
        dataset_writer_free(w);
    }
}

/* A bit that flips within what is allowed is not seen when opening, but by the hash. */
static void test_hash(void **state) {
    Err err = {0};
    Dataset d;
    (void)state;
    Parts p = good_parts();
    p.hash = "00000000";
    assert_true(dataset_open(&d, write_parts(&p), &err));
    assert_false(dataset_check_hash(&d, &err));
    assert_int_equal(err.code, EX_DATAERR);
    assert_non_null(strstr(err.text, "hash"));
    dataset_close(&d);

    DatasetWriter *w = small_writer(256, false);
    const char *path = scratch("flip.safetensors");
    assert_true(dataset_write(w, path, &err));
    dataset_writer_free(w);
    size_t size;
    unsigned char *data = scratch_read(path, &size);
    data[size - 1] ^= 1;
    scratch_write("flip.safetensors", data, size);
    free(data);
    assert_true(dataset_open(&d, path, &err));
    assert_false(dataset_check_hash(&d, &err));
    dataset_close(&d);
}

static bool write_splits(const char *dir, Err *err) {
    DatasetWriter *w[SPLITS];
    for (int s = 0; s < SPLITS; s++) w[s] = small_writer(16, false);
    bool ok = dataset_write_splits(w, dir, err);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
    return ok;
}

/* What fails in a directory of a whole set leaves it so (test_regenerate.c has the rest). */
static void test_all_or_nothing(void **state) {
    Err err = {0};
    (void)state;
    const char *dir = scratch("deep/er/splits");
    assert_true(write_splits(dir, &err));
    assert_true(file_exists(scratch("deep/er/splits/train.safetensors")));
    const char *val = scratch("deep/er/splits/val.safetensors");
    unlink(val);
    scratch_mkdir("deep/er/splits/val.safetensors"); /* which no file can replace */
    assert_false(write_splits(dir, &err));
    assert_true(err.code == EX_CANTCREAT || err.code == EX_IOERR);
    assert_true(file_exists(scratch("deep/er/splits/train.safetensors")));
}

static void test_prepare(void **state) {
    Err err = {0};
    (void)state;
    unsetenv("CAST_DATA");
    const char *dir = scratch("ready");
    assert_true(write_splits(dir, &err));
    assert_true(task_prepare(task_find("image"), dir, &err));
    unlink(scratch("ready/test.safetensors"));
    assert_false(task_prepare(task_find("image"), dir, &err));
    assert_int_equal(err.code, EX_NOINPUT);
    assert_non_null(strstr(err.text, "test.safetensors is missing"));
    assert_true(file_exists(scratch("ready/train.safetensors")));

    dir = scratch("nothing");
    assert_false(task_prepare(task_find("image"), dir, &err));
    assert_int_equal(err.code, EX_NOINPUT);
    assert_non_null(strstr(err.text, "cast_data import image cifar-10-binary.tar.gz --out"));
    assert_non_null(strstr(err.text, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"));
    assert_false(task_prepare(task_find("custom"), dir, &err));
    assert_int_equal(err.code, EX_NOINPUT);
    assert_non_null(strstr(err.text, "data.dir"));
    assert_false(file_exists(dir));
}

static void test_table(void **state) {
    (void)state;
    for (int i = 0; task_table[i]; i++) {
        const Task *t = task_table[i];
        assert_ptr_equal(task_find(t->name), t);
        assert_non_null(t->title);
        if (t->vocab == 0) continue; /* the data say it */
        assert_true(t->vocab > 1 && t->classes > 1 && t->max_length > 0);
        assert_true(t->per_example == 1 || t->per_example == 2);
        assert_true(t->import || t->generate);
        assert_true(task_fits(t, t->vocab, t->classes, t->per_example));
        assert_false(task_fits(t, t->vocab + 1, t->classes, t->per_example));
        assert_false(task_fits(t, t->vocab, t->classes + 1, t->per_example));
        assert_false(task_fits(t, t->vocab, t->classes, 3 - t->per_example));
        assert_true(!t->import == !t->locate && !t->import == !t->holds && !t->import == !t->url &&
                    !t->import == !t->archive);
        assert_true(!t->generate == !t->most);
    }
    assert_null(task_find("no such task"));
    TaskRequest r = {.from = "x", .out = "y"};
    Err err = {0};
    assert_true(task_fits(task_find("custom"), 3, 2, 2));
    assert_false(task_import(task_find("custom"), &r, &err));
    assert_int_equal(err.code, EX_USAGE);
    assert_non_null(strstr(err.text, "in the prepared form, which goes into data.dir"));
    assert_false(task_generate(task_find("image"), &r, &err));
    assert_int_equal(err.code, EX_USAGE);
    assert_non_null(strstr(err.text, "cast_data import image"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),           cmocka_unit_test(test_bad_offsets),
        cmocka_unit_test(test_bad_ids),        cmocka_unit_test(test_bad_labels),
        cmocka_unit_test(test_bad_pairs),      cmocka_unit_test(test_bad_metadata),
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_hash),
        cmocka_unit_test(test_all_or_nothing), cmocka_unit_test(test_prepare),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
