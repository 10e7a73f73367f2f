#include "io/tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "archive.h"
#include "scratch.h"

static const TarLimits limits = {.bytes = 1 << 24, .entries = 100};

/* What an archive holds, as "name=content;" of each regular file; false on error. */
static bool list(const char *path, TarLimits most, char *out, size_t size, Err *err) {
    Tar *t = tar_open(path, most, err);
    if (!t) return false;
    TarEntry e;
    bool ok;
    size_t at = 0;
    out[0] = 0;
    while ((ok = tar_next(t, &e, err)) && e.name) {
        char content[64];
        size_t got;
        ok = tar_read(t, content, sizeof content - 1, &got, err);
        if (!ok) break;
        content[got] = 0;
        at += (size_t)snprintf(out + at, size - at, "%s=%s;", e.name, content);
        assert_true(at < size);
    }
    tar_close(t);
    return ok;
}

static void expect_list(const Bytes *b, const char *expected) {
    char text[2048];
    Err err = {0};
    Bytes z = {0};
    if (!list(scratch_write("a.tar", b->data, b->size), limits, text, sizeof text, &err))
        fail_msg("%s", err.text);
    assert_string_equal(text, expected);
    gzip_add(&z, b->data, b->size);
    if (!list(scratch_write("a.tar.gz", z.data, z.size), limits, text, sizeof text, &err))
        fail_msg("%s", err.text);
    assert_string_equal(text, expected);
    bytes_free(&z);
}

static void expect_error(const Bytes *b, const char *what) {
    char text[2048];
    Err err = {0};
    const char *path = scratch_write("bad.tar", b->data, b->size);
    assert_false(list(path, limits, text, sizeof text, &err));
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    assert_non_null(strstr(err.text, path));
}

static void test_files(void **state) {
    Bytes b = {0};
    (void)state;
    tar_add(&b, "folder/", '5', "", 0);
    tar_add(&b, "folder/a", '0', "alpha", 5);
    tar_add(&b, "empty", '0', "", 0);
    tar_add(&b, "old", 0, "beta", 4);
    tar_add(&b, "oldfolder/", 0, "", 0);
    tar_add(&b, "../../etc/passwd", '0', "harmless", 8);
    tar_add(&b, "/absolute", '0', "too", 3);
    tar_end(&b);
    expect_list(&b, "folder/a=alpha;empty=;old=beta;../../etc/passwd=harmless;/absolute=too;");
    bytes_free(&b);
}

/* Links and devices are passed over, and a size that one states is not followed by bytes. */
static void test_other_kinds(void **state) {
    Bytes b = {0};
    (void)state;
    for (char type = '1'; type <= '6'; type++) tar_header(&b, "other", type, type == '1' ? 700 : 0);
    tar_add(&b, "volume", 'V', "skipped bytes", 13);
    tar_add(&b, "global", 'g', "19 comment=whatever\n", 20);
    tar_add(&b, "file", '0', "x", 1);
    tar_end(&b);
    expect_list(&b, "file=x;");
    bytes_free(&b);
}

static void test_long_names(void **state) {
    Bytes b = {0};
    char name[301], expected[400];
    (void)state;
    memset(name, 'n', 300);
    name[300] = 0;
    tar_add(&b, "././@LongLink", 'L', name, 301);
    tar_add(&b, "cut", '0', "gnu", 3);
    size_t at = tar_add(&b, "base", '0', "prefix", 6);
    memcpy(b.data + at + 345, "dir/sub", 7);
    tar_seal(b.data + at);
    at = tar_add(&b, "base", '0', "gnu", 3);
    memcpy(b.data + at + 257, "ustar  ", 8);
    memcpy(b.data + at + 345, "notname", 7);
    tar_seal(b.data + at);
    tar_end(&b);
    snprintf(expected, sizeof expected, "%s=gnu;dir/sub/base=prefix;base=gnu;", name);
    expect_list(&b, expected);
    bytes_free(&b);
}

static void test_pax(void **state) {
    Bytes b = {0};
    (void)state;
    static const char pax[] = "20 path=new/name.bin\n"
                              "10 size=6\n"
                              "13 mtime=1.5\n";
    tar_add(&b, "PaxHeaders/1", 'x', "21 path=new/name.bin\n10 size=6\n13 mtime=1.5\n", 44);
    tar_header(&b, "short", '0', 3);
    bytes_add(&b, "sixsix", 6);
    tar_pad(&b);
    tar_add(&b, "after", '0', "nothing of it", 13);
    tar_end(&b);
    expect_list(&b, "new/name.bin=sixsix;after=nothing of it;");
    b.size = 0;
    tar_add(&b, "PaxHeaders/1", 'x', pax, sizeof pax - 1); /* its first length is one short */
    expect_error(&b, "malformed pax");
    bytes_free(&b);
}

static void test_bad_pax(void **state) {
    static const char *const bad[] = {"",
                                      "x",
                                      "5",
                                      "5 ab\n",
                                      "6 a=b",
                                      "99 path=x\n",
                                      "6 a=bcd",
                                      "0 a=b\n",
                                      "3 =\n",
                                      "12 size=-10\n",
                                      "11 size=1e9\n",
                                      "8 size=\n",
                                      "18446744073709551616 a=b\n",
                                      "28 size=99999999999999999999\n",
                                      "25 GNU.sparse.major=1234\n"};
    (void)state;
    for (size_t i = 1; i < sizeof bad / sizeof *bad; i++) {
        Bytes b = {0};
        tar_add(&b, "pax", 'x', bad[i], strlen(bad[i]));
        tar_add(&b, "file", '0', "x", 1);
        tar_end(&b);
        char text[256];
        Err err = {0};
        if (list(scratch_write("pax.tar", b.data, b.size), limits, text, sizeof text, &err))
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.code, EX_DATAERR);
        bytes_free(&b);
    }
}

/* Five bytes of a file, of which pax says that they are `size`; then another file. */
static Bytes lying_pax(const char *size) {
    Bytes b = {0};
    tar_add(&b, "pax", 'x', size, strlen(size));
    tar_add(&b, "file", '0', "12345", 5);
    tar_add(&b, "after", '0', "none", 4);
    tar_end(&b);
    return b;
}

static void test_lying_pax(void **state) {
    (void)state;
    Bytes b = lying_pax("17 size=16777217\n");
    expect_error(&b, "larger than the whole archive");
    bytes_free(&b);
    b = lying_pax("17 size=16777216\n");
    expect_error(&b, "breaks off");
    bytes_free(&b);
    b = lying_pax("10 size=0\n"); /* its bytes would be a header */
    expect_error(&b, "header checksum");
    bytes_free(&b);
    b = lying_pax("12 size=600\n"); /* swallows the next header, and ends in a file's bytes */
    expect_error(&b, "header checksum");
    bytes_free(&b);
    tar_add(&b, "pax", 'x', "12 size=600\n", 12);
    tar_header(&b, "folder/", '5', 0);
    tar_add(&b, "file", '0', "x", 1);
    tar_end(&b);
    expect_list(&b, "file=x;");
    bytes_free(&b);
}

/* A header that says `size` in the twelve bytes of `field`. */
static void size_field(Bytes *b, const char *field) {
    size_t at = tar_add(b, "file", '0', "12345", 5);
    memcpy(b->data + at + 124, field, 12);
    tar_seal(b->data + at);
    tar_end(b);
}

static void test_sizes(void **state) {
    static const char *const good[] = {"00000000005\0", "          5 ", "000000000005",
                                       "\x80\0\0\0\0\0\0\0\0\0\0\5"};
    static const char *const bad[] = {"\0\0\0\0\0\0\0\0\0\0\0\0",
                                      "            ",
                                      "-0000000005\0",
                                      "0000000000x\0",
                                      "00000000009\0",
                                      "777777777777",
                                      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfb",
                                      "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
                                      "\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                      "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                                      "\x80\0\0\1\0\0\0\0\0\0\0\5"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        Bytes b = {0};
        size_field(&b, good[i]);
        expect_list(&b, "file=12345;");
        bytes_free(&b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Bytes b = {0};
        size_field(&b, bad[i]);
        expect_error(&b, "entry 1 (byte 0");
        bytes_free(&b);
    }
}

static void test_checksums(void **state) {
    Bytes b = {0};
    (void)state;
    tar_add(&b, "one", '0', "1", 1);
    size_t at = tar_add(&b, "two", '0', "2", 1);
    tar_end(&b);
    b.data[at] ^= 1;
    expect_error(&b, "entry 2 (byte 1024 of the unpacked archive): damaged archive");
    b.data[0] ^= 1;
    expect_error(&b, "not a tar archive");
    bytes_free(&b);
    bytes_add(&b, "just some text", 14);
    expect_error(&b, "not a tar archive");
    b.size = 0;
    expect_error(&b, "not a tar archive");
    bytes_free(&b);
}

/* Sums of signed bytes, as some old writers made them. */
static void test_signed_checksum(void **state) {
    Bytes b = {0};
    char text[16];
    int sum = 0;
    (void)state;
    size_t at = tar_add(&b, "caf\xc3\xa9", '0', "x", 1);
    memset(b.data + at + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += (signed char)b.data[at + (size_t)i];
    snprintf(text, sizeof text, "%06o", (unsigned)sum);
    memcpy(b.data + at + 148, text, 7);
    tar_end(&b);
    expect_list(&b, "caf\xc3\xa9=x;");
    bytes_free(&b);
}

static void test_truncated(void **state) {
    Bytes b = {0}, z = {0};
    unsigned char noise[3000];
    uint32_t x = 7;
    (void)state;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
    tar_add(&b, "one", '0', noise, sizeof noise);
    tar_add(&b, "two", '0', noise, 1000);
    size_t content = b.size;
    tar_end(&b);
    /* The second block of zeros may be missing: some writers leave it out. */
    for (size_t size = 512; size <= content; size += 512) {
        Bytes cut = {.data = b.data, .size = size};
        expect_error(&cut, "breaks off");
    }
    gzip_add(&z, b.data, b.size);
    for (size_t size = 512; size < z.size; size += 512) {
        Bytes cut = {.data = z.data, .size = size};
        expect_error(&cut, "breaks off");
    }
    z.data[z.size - 6] ^= 1; /* gzip's own checksum, behind the archive's last byte */
    expect_error(&z, "damaged gzip");
    bytes_free(&b);
    bytes_free(&z);
}

/* An archive in several gzip members, cut wherever, and what may not follow them. */
static void test_members(void **state) {
    Bytes b = {0}, z = {0};
    char text[256];
    Err err = {0};
    (void)state;
    tar_add(&b, "a", '0', "alpha", 5);
    tar_add(&b, "\xff\xfe\x80 b", '0', "beta", 4);
    tar_end(&b);
    for (size_t cut = 0; cut <= b.size; cut += 100) {
        z.size = 0;
        gzip_add(&z, b.data, cut);
        gzip_add(&z, b.data + cut, b.size - cut);
        if (!list(scratch_write("two.gz", z.data, z.size), limits, text, sizeof text, &err))
            fail_msg("%s", err.text);
        assert_string_equal(text, "a=alpha;\xff\xfe\x80 b=beta;");
    }
    bytes_add(&z, "garbage", 7);
    expect_error(&z, "something follows the end of the gzip data");
    bytes_free(&b);
    bytes_free(&z);
}

/* Zeros, as the whole archive and as a file in it: no more of them is unpacked than is needed to
 * see what they are. */
static void test_zeros(void **state) {
    const TarLimits much = {.bytes = 1 << 30, .entries = 100};
    Bytes b = {0}, z = {0};
    char text[256];
    Err err = {0};
    (void)state;
    bytes_add(&b, NULL, 64 << 20);
    gzip_add(&z, b.data, b.size);
    assert_false(list(scratch_write("zeros.gz", z.data, z.size), much, text, sizeof text, &err));
    assert_non_null(strstr(err.text, "200 times its size"));
    b.size = z.size = 0;
    tar_add(&b, "file", '0', NULL, 64 << 20);
    tar_add(&b, "after", '0', "none", 4);
    tar_end(&b);
    gzip_add(&z, b.data, b.size);
    assert_false(list(scratch_write("zeros.gz", z.data, z.size), much, text, sizeof text, &err));
    assert_non_null(strstr(err.text, "200 times its size"));
    assert_int_equal(err.code, EX_DATAERR);
    bytes_free(&b);
    bytes_free(&z);
}

static void test_limits(void **state) {
    Bytes b = {0};
    (void)state;
    for (int i = 0; i < 101; i++) tar_header(&b, "empty", '0', 0);
    tar_end(&b);
    expect_error(&b, "more entries");
    b.size = 0;
    tar_header(&b, "claims", '0', (1 << 24) + 1);
    expect_error(&b, "larger than the whole archive");
    b.size = 0;
    tar_header(&b, "name", 'L', 70000);
    expect_error(&b, "64 KiB");
    b.size = 0;
    tar_add(&b, "sparse", 'S', "", 0);
    expect_error(&b, "sparse");
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),      cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_long_names), cmocka_unit_test(test_pax),
        cmocka_unit_test(test_bad_pax),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_checksums),  cmocka_unit_test(test_signed_checksum),
        cmocka_unit_test(test_truncated),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_lying_pax),  cmocka_unit_test(test_members),
        cmocka_unit_test(test_zeros),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
