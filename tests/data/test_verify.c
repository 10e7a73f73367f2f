#include "data/verify.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/log.h"
#include "scratch.h"

/* Splits of a few documents into the directory `name`; without the metadata's hash and crc32 where
 * `plain`. */
static void make(const char *name, bool plain) {
    char inner[64];
    for (int s = 0; s < SPLITS; s++) {
        const uint8_t tokens[] = {0, 1, 2, 3, 4, (uint8_t)s};
        const int64_t total = 6, offsets[] = {0, 2, 6}, noffsets = 3, nlabels = 2;
        const int32_t labels[] = {1, 0};
        const StTensor t[] = {st_tensor("tokens", DT_U8, 1, &total, tokens),
                              st_tensor("offsets", DT_I64, 1, &noffsets, offsets),
                              st_tensor("labels", DT_I32, 1, &nlabels, labels)};
        const StMeta meta[] = {{"vocab", "5"}, {"classes", "2"}};
        Err err;
        scratch_mkdir(name);
        snprintf(inner, sizeof inner, "%s/%s.safetensors", name, split_names[s]);
        if (!st_write(scratch(inner), KIND_DATASET, t, 3, meta, 2, &err)) fail_msg("%s", err.text);
        size_t size;
        unsigned char *data = scratch_read(scratch(inner), &size);
        /* st_write adds two sums: under other names they mean nothing. */
        for (char *crc; plain && (crc = strstr((char *)data + 8, "crc32"));)
            memcpy(crc, "other", 5);
        scratch_write(inner, data, size);
        free(data);
    }
}

/* One that dataset_writer made, with a hash. */
static void make_whole(const char *name) {
    DatasetWriter *w[SPLITS];
    Err err;
    for (int s = 0; s < SPLITS; s++) {
        w[s] = dataset_writer("test", split_names[s], "made here", 5, 2, false);
        dataset_add_document(w[s], (const int[]){0, 1, 2, s}, 4);
        dataset_add_example(w[s], 1, 0, -1);
    }
    if (!dataset_write_splits(w, scratch(name), &err)) fail_msg("%s", err.text);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
}

static void open_splits(Dataset d[SPLITS], const char *name) {
    char path[FILE_PATH_MAX];
    Err err;
    for (int s = 0; s < SPLITS; s++)
        if (!dataset_path(path, scratch(name), s, &err) || !dataset_open(&d[s], path, &err))
            fail_msg("%s", err.text);
}

static void close_splits(Dataset d[SPLITS]) {
    for (int s = 0; s < SPLITS; s++) dataset_close(&d[s]);
}

static bool verify(const char *name, char hash[DATASET_HASH], Err *err) {
    Dataset d[SPLITS];
    open_splits(d, name);
    const bool ok = verify_now(d, err);
    if (hash) memcpy(hash, d[SPLIT_TRAIN].hash, DATASET_HASH);
    close_splits(d);
    return ok;
}

/* The last byte of the file: of a label or an id, and within what is allowed. */
static void damage(const char *path) {
    size_t size;
    unsigned char *data = scratch_read(path, &size);
    data[size - 1] ^= 1;
    scratch_write(strstr(path, scratch_dir) + strlen(scratch_dir) + 1, data, size);
    free(data);
}

static void refuse(const char *name, const char *what) {
    Err err = {0};
    assert_false(verify(name, NULL, &err));
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
}

static void test_damage(void **state) {
    Err err;
    (void)state;
    make_whole("whole");
    assert_true(verify("whole", NULL, &err));
    damage(scratch("whole/test.safetensors"));
    refuse("whole", "whole/test.safetensors: its data's hash is ");
    make("crc", false);
    assert_true(verify("crc", NULL, &err));
    damage(scratch("crc/val.safetensors"));
    refuse("crc", "crc/val.safetensors: is damaged: the crc32");
}

/* Without any, damage cannot be known; but it is other data then. */
static void test_hash_of_none(void **state) {
    char was[DATASET_HASH], now[DATASET_HASH], own[DATASET_HASH];
    Dataset d[SPLITS];
    Err err;
    (void)state;
    make("plain", true);
    open_splits(d, "plain");
    assert_string_equal(d[SPLIT_TRAIN].hash, "");
    assert_null(st_meta(&d[SPLIT_TRAIN].file, "crc32"));
    dataset_hash(&d[SPLIT_TRAIN], own);
    close_splits(d);
    assert_true(verify("plain", was, &err));
    assert_string_equal(was, own);
    damage(scratch("plain/train.safetensors"));
    assert_true(verify("plain", now, &err));
    assert_string_not_equal(was, now);
    make_whole("whole");
    open_splits(d, "whole");
    dataset_hash(&d[SPLIT_TRAIN], own);
    assert_string_equal(d[SPLIT_TRAIN].hash, own);
    close_splits(d);
}

/* What was changed long enough ago to be noted. */
static int open_settled(void **state) {
    const struct timespec a_while = {1, 100000000};
    if (scratch_open(state) != 0) return -1;
    make("noted", true);
    make_whole("noted-whole");
    make("no-note", true);
    return nanosleep(&a_while, NULL);
}

static char *read_note(void) {
    size_t size;
    char *text = (char *)scratch_read(scratch("noted/train.safetensors.checked"), &size);
    text[size] = '\0';
    return text;
}

/* Another hash in a note shows whether that is believed. */
static void forge(const char *note, const char *hash) {
    char text[256];
    const int n = snprintf(text, sizeof text, "%.*s%s\n", (int)strlen(note) - 9, note, hash);
    scratch_write("noted/train.safetensors.checked", text, (size_t)n);
}

static void expect_hash(const char *want) {
    char hash[DATASET_HASH];
    Err err;
    if (!verify("noted", hash, &err)) fail_msg("%s", err.text);
    assert_string_equal(hash, want);
}

static void test_notes(void **state) {
    char hash[DATASET_HASH];
    Err err;
    (void)state;
    make("new", true);
    /* However long the other splits took to write; again where the machine stood still meanwhile.
     */
    double changed = 0;
    for (int i = 0; i < 10 && (!changed || clock_seconds() - changed > 0.9); i++) {
        unlink(scratch("new/train.safetensors.checked"));
        changed = clock_seconds();
        assert_int_equal(chmod(scratch("new/train.safetensors"), 0600), 0);
        assert_int_equal(chmod(scratch("new/train.safetensors"), 0644), 0);
        assert_true(verify("new", hash, &err));
    }
    assert_false(file_exists(scratch("new/train.safetensors.checked")));
    expect_hash(hash);
    assert_true(file_exists(scratch("noted/train.safetensors.checked")));
    char *note = read_note();
    assert_int_equal(strncmp(note, "cast-checked-1 ", 15), 0);
    forge(note, "0123abcd");
    expect_hash("0123abcd");
    const char *const bad[] = {"0123abc", "0123abcde", "0123abcX", "", " 123abcd"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        forge(note, bad[i]);
        expect_hash(hash); /* and writes it anew */
    }
    scratch_write("noted/train.safetensors.checked", "", 0);
    expect_hash(hash);
    scratch_write("noted/train.safetensors.checked", note, strlen(note) - 4);
    expect_hash(hash);
    /* The same bytes, written again: another time. */
    forge(note, "0123abcd");
    damage(scratch("noted/train.safetensors"));
    damage(scratch("noted/train.safetensors"));
    expect_hash(hash);
    free(note);
}

/* What is noted and has a hash in its metadata is not read again; once changed, it is, with the
 * time of its last change put back, too. */
static void test_noted_damage(void **state) {
    const char *train = scratch("noted-whole/train.safetensors");
    FileStamp was;
    Err err;
    (void)state;
    assert_true(verify("noted-whole", NULL, &err));
    for (int s = 0; s < SPLITS; s++) {
        char note[64];
        snprintf(note, sizeof note, "noted-whole/%s.safetensors.checked", split_names[s]);
        assert_true(file_exists(scratch(note)));
    }
    assert_true(file_stamp(&was, train));
    damage(train);
    const struct timespec times[] = {was.modified, was.modified};
    assert_int_equal(utimensat(AT_FDCWD, train, times, 0), 0);
    refuse("noted-whole", "noted-whole/train.safetensors: its data's hash is ");
    refuse("noted-whole", "noted-whole/train.safetensors: its data's hash is ");
}

/* A file cannot take the place of a directory. */
static void test_no_note(void **state) {
    char hash[DATASET_HASH], again[DATASET_HASH];
    Err err;
    (void)state;
    scratch_mkdir("no-note/train.safetensors.checked");
    assert_true(verify("no-note", hash, &err));
    assert_true(verify("no-note", again, &err));
    assert_string_equal(hash, again);
    assert_true(file_is_dir(scratch("no-note/train.safetensors.checked")));
    assert_true(file_exists(scratch("no-note/val.safetensors.checked")));
}

static void test_background(void **state) {
    Dataset d[SPLITS];
    Verify v;
    Err err = {0};
    (void)state;
    make_whole("whole");
    open_splits(d, "whole");
    dataset_close(&d[SPLIT_TEST]);
    assert_true(dataset_open(&d[SPLIT_TEST], d[SPLIT_TRAIN].file.path, &err));
    assert_true(verify_start(&v, d, 0, &err));
    assert_int_equal(v.n, 2); /* train once */
    assert_true(verify_wait(&v, &err));
    assert_true(verify_wait(&v, &err));
    verify_close(&v);
    close_splits(d);

    damage(scratch("whole/train.safetensors"));
    open_splits(d, "whole");
    if (verify_start(&v, d, 0, &err)) assert_false(verify_wait(&v, &err));
    assert_int_equal(err.code, EX_DATAERR);
    verify_close(&v);
    dataset_close(&d[SPLIT_TRAIN]); /* one that is not open is passed over */
    assert_true(verify_now(d, &err));
    close_splits(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage),  cmocka_unit_test(test_hash_of_none),
        cmocka_unit_test(test_notes),   cmocka_unit_test(test_noted_damage),
        cmocka_unit_test(test_no_note), cmocka_unit_test(test_background),
    };
    return cmocka_run_group_tests(tests, open_settled, scratch_close);
}
