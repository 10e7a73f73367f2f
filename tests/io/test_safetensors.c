/* safetensors from memory: what is legal, and every way not to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/safetensors.h"

/* A file in memory: header length, header, `data` bytes counting up from 0. Freed by the caller. */
static unsigned char *build(const char *header, size_t data, size_t *size) {
    uint64_t n = strlen(header);
    *size = sizeof n + n + data;
    unsigned char *bytes = malloc(*size);
    memcpy(bytes, &n, sizeof n);
    memcpy(bytes + sizeof n, header, n);
    for (size_t i = 0; i < data; i++) bytes[sizeof n + n + i] = (unsigned char)i;
    return bytes;
}

static bool parse(StFile *f, const char *header, size_t data, unsigned char **bytes, Err *err) {
    size_t size = 0;
    *err = (Err){0};
    *bytes = build(header, data, &size);
    return st_parse(f, *bytes, size, "f", err);
}

typedef struct Row {
    const char *header;
    size_t data;
    const char *message; /* NULL: legal */
} Row;

static void check_rows(const Row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        StFile f;
        Err err;
        unsigned char *bytes;
        bool ok = parse(&f, rows[i].header, rows[i].data, &bytes, &err);
        if (ok != (rows[i].message == NULL)) fail_msg("%s: '%s'", rows[i].header, err.text);
        if (!ok) {
            assert_string_equal(err.text, rows[i].message);
            assert_int_equal(err.code, EX_DATAERR);
        }
        if (ok) st_close(&f);
        free(bytes);
    }
}

#define I32(shape, offsets) "\"dtype\":\"I32\",\"shape\":" shape ",\"data_offsets\":" offsets

static void legal(void **state) {
    (void)state;
    static const Row rows[] = {
        {"{}", 0, NULL},
        {"{\"__metadata__\":{}}", 0, NULL},
        {"  {\"__metadata__\":{\"a\":\"b\"}}  ", 0, NULL},
        {"{\"t\":{" I32("[]", "[0,4]") "}}", 4, NULL},
        {"{\"t\":{" I32("[2,0]", "[0,0]") "}}", 0, NULL},
        {"{\"t\":{" I32("[1,1,1,1,1,1,1,1]", "[0,4]") "}}", 4, NULL},
        {"{\"\":{" I32("[1]", "[4,8]") "},\"a/b\":{" I32("[1]", "[0,4]") "}}", 8, NULL},
        {"{\"z\":{" I32("[0]", "[4,4]") "},\"b\":{" I32(
             "[1]", "[4,8]") "},"
                             "\"a\":{" I32("[1]", "[0,4]") "},\"y\":{" I32("[0]", "[4,4]") "}}",
         8, NULL},
        {"{\"t\":{\"more\":[1]," I32("[1]", "[0,4]") "}}", 4, NULL},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void bad_headers(void **state) {
    (void)state;
    static const Row rows[] = {
        {"", 0, "f: header:1:1: expected a value, found the end of the text"},
        {"{", 0, "f: header:1:2: expected a key in double quotes, found the end of the text"},
        {"\xff", 0, "f: header:1:1: expected a value, found byte 0xff"},
        {"{\"\xff\":1}", 0, "f: header:1:3: expected UTF-8, found byte 0xff"},
        {"[]", 0, "f: the header is not an object"},
        {"{} ;", 0, "f: header:1:4: expected the end of the text, found ';'"},
        {"{\"a\\u0000b\":{" I32("[1]", "[0,4]") "}}", 4,
         "f: header:1:4: \\u0000 is not allowed in a string"},
        {"{\"t\":{" I32("[1]", "[0,4]") "},\"t\":{" I32("[1]", "[0,4]") "}}", 4,
         "f: header:1:55: the key \"t\" occurs twice in its object"},
        {"{\"t\":{" I32("[1]", "[0,4]") ",\"dtype\":\"I32\"}}", 4,
         "f: header:1:54: the key \"dtype\" occurs twice in its object"},
        {"{\"t\":{" I32("[[[[1]]]]", "[0,4]") "}}", 4, "f: header:1:31: nested more than 4 deep"},
        {"{\"__metadata__\":[]}", 0, "f: __metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "f: __metadata__: 'a' is not a string"},
        {"{\"t\":7}", 0, "f: tensor 't': its entry is not an object"},
        {"{\"t\":{}}", 0, "f: tensor 't': its dtype is not a string"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void bad_tensors(void **state) {
    (void)state;
    static const char shape[] = "f: tensor 't': its shape must be at most 8 integers >= 0";
    static const char offsets[] = "f: tensor 't': its data_offsets must be two integers >= 0";
    static const char outside[] =
        "f: tensor 't': its data_offsets lie outside the file, which may be cut short";
    static const char misfit[] = "f: tensor 't': its data_offsets do not fit its dtype and shape";
    static const Row rows[] = {
        {"{\"t\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "f: tensor 't': its dtype 'F8_E4M3' is not supported here"},
        {"{\"t\":{\"dtype\":\"i32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "f: tensor 't': its dtype 'i32' is not supported here"},
        {"{\"t\":{\"dtype\":\"I32\",\"data_offsets\":[0,4]}}", 4, shape},
        {"{\"t\":{" I32("4", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[-1]", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[-0]", "[0,0]") "}}", 0, shape},
        {"{\"t\":{" I32("[1.5]", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[\"1\"]", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[null]", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[1,1,1,1,1,1,1,1,1]", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[2,18446744073709551614]", "[0,16]") "}}", 16, shape},
        {"{\"t\":{" I32("[2,9223372036854775807]", "[0,16]") "}}", 16, shape},
        {"{\"t\":{" I32("[9007199254740993]", "[0,4]") "}}", 4, shape},
        {"{\"t\":{" I32("[4294967296,4294967296]", "[0,0]") "}}", 0,
         "f: tensor 't': its shape overflows"},
        {"{\"t\":{" I32("[4503599627370496,1024]", "[0,0]") "}}", 0,
         "f: tensor 't': its shape overflows"},
        {"{\"t\":{\"dtype\":\"I32\",\"shape\":[1]}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "[0]") "}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "[0,4,8]") "}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "[-4,0]") "}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "[0,\"4\"]") "}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "{\"a\":0,\"b\":4}") "}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "[0,9223372036854775808]") "}}", 4, offsets},
        {"{\"t\":{" I32("[1]", "[4,0]") "}}", 4, outside},
        {"{\"t\":{" I32("[2]", "[0,8]") "}}", 7, outside},
        {"{\"t\":{" I32("[1]", "[9007199254740988,9007199254740990]") "}}", 4, outside},
        {"{\"t\":{" I32("[2,2]", "[0,4]") "}}", 4, misfit},
        {"{\"t\":{" I32("[1]", "[0,3]") "}}", 3, misfit},
        {"{\"t\":{" I32("[]", "[0,0]") "}}", 0, misfit},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void bad_cover(void **state) {
    (void)state;
    static const char gap[] = "f: tensor 't': its data does not begin where the one before it ends";
    static const Row rows[] = {
        {"{\"t\":{" I32("[1]", "[4,8]") "}}", 8, gap},
        {"{\"s\":{" I32("[1]", "[0,4]") "},\"t\":{" I32("[1]", "[8,12]") "}}", 12, gap},
        {"{\"s\":{" I32("[2]", "[0,8]") "},\"t\":{" I32("[2]", "[4,12]") "}}", 12, gap},
        {"{\"s\":{" I32("[1]", "[0,4]") "},\"t\":{" I32("[1]", "[0,4]") "}}", 4, gap},
        {"{\"s\":{" I32("[2]", "[0,8]") "},\"t\":{" I32("[0]", "[4,4]") "}}", 8, gap},
        {"{\"t\":{" I32("[1]", "[0,4]") "}}", 7, "f: 3 bytes follow the last tensor"},
        {"{}", 1, "f: 1 bytes follow the last tensor"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void bad_lengths(void **state) {
    (void)state;
    static const struct {
        uint64_t n;
        const char *message;
    } rows[] = {
        {UINT64_C(1) << 63, "f: not safetensors: a header of 9223372036854775808 bytes"},
        {UINT64_MAX, "f: not safetensors: a header of 18446744073709551615 bytes"},
        {UINT64_MAX - 7, "f: not safetensors: a header of"},
        {UINT64_C(0x22736b736174227b), "f: not safetensors: it begins as JSON does"},
        {ST_MAX_HEADER + 1, "f: not safetensors: a header of 16777217 bytes (at most 16777216)"},
        {ST_MAX_HEADER, "f: is cut short: the header has 16777216 bytes, the file 10"},
        {3, "f: is cut short: the header has 3 bytes, the file 10"},
    };
    StFile f;
    Err err;
    unsigned char bytes[10] = {[8] = '{', '}'};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(bytes, &rows[i].n, sizeof rows[i].n);
        assert_false(st_parse(&f, bytes, sizeof bytes, "f", &err));
        assert_memory_equal(err.text, rows[i].message, strlen(rows[i].message));
        assert_int_equal(err.code, EX_DATAERR);
    }
    for (size_t n = 0; n < 8; n++) assert_false(st_parse(&f, bytes, n, "f", &err));
}

/* Headers of every length: the data lies at every alignment, and is usable all the same. */
static void misaligned_data(void **state) {
    (void)state;
    char header[512];
    for (int pad = 0; pad < 16; pad++) {
        StFile f;
        Err err;
        unsigned char *bytes;
        snprintf(header, sizeof header,
                 "{%*s\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                 "\"e\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[1,1]},"
                 "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[1,17]},"
                 "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[17,21]}}",
                 pad, "");
        assert_true(parse(&f, header, 21, &bytes, &err));
        const unsigned char *data = bytes + 8 + strlen(header);
        for (int i = 0; i < f.ntensors; i++) {
            const StTensor *t = &f.tensors[i];
            assert_int_equal((uintptr_t)t->data % dtype_size(t->dtype), 0);
            assert_int_equal(memcmp(t->data, data, t->bytes), 0);
            data += t->bytes;
        }
        const int64_t one[] = {1};
        const StTensor *i = st_want(&f, "i", DT_I32, 1, one, &err);
        assert_non_null(i);
        assert_int_equal(*(const int32_t *)i->data, 0x14131211);
        st_close(&f);
        free(bytes);
    }
}

static void crc_of_metadata(void **state) {
    (void)state;
    static const struct {
        const char *crc;
        bool ok;
    } rows[] = {
        {"8bb98613", true}, {"8bb98612", false}, {"8BB98613", false},
        {"", false},        {"0x8bb986", false}, {"8bb986130", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        StFile f;
        Err err;
        unsigned char *bytes;
        char header[256];
        snprintf(header, sizeof header, "{\"__metadata__\":{\"crc32\":\"%s\"},\"t\":{%s}}",
                 rows[i].crc, I32("[1]", "[0,4]"));
        assert_true(parse(&f, header, 4, &bytes, &err));
        assert_int_equal(st_check_crc(&f, &err), rows[i].ok);
        st_close(&f);
        free(bytes);
    }
}

/* n tensors of one byte each, as one header of up to 16 MiB. */
static char *many_tensors(int n) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (int i = 0; i < n; i++)
        fprintf(f, "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d]}",
                i ? ',' : '{', n - i, n - i - 1, n - i);
    fputc('}', f);
    fclose(f);
    return text;
}

static void as_many_as_fit(void **state) {
    (void)state;
    StFile f;
    Err err;
    unsigned char *bytes;
    char *header = many_tensors(100000);
    assert_true(parse(&f, header, 100000, &bytes, &err));
    assert_int_equal(f.ntensors, 100000);
    assert_string_equal(f.tensors[777].name, "778");
    st_close(&f);
    free(bytes);
    free(header);
    header = many_tensors(1000 * 1000);
    assert_false(parse(&f, header, 1000 * 1000, &bytes, &err));
    assert_non_null(strstr(err.text, "a header of"));
    free(bytes);
    free(header);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal),           cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_tensors),     cmocka_unit_test(bad_cover),
        cmocka_unit_test(bad_lengths),     cmocka_unit_test(misaligned_data),
        cmocka_unit_test(crc_of_metadata), cmocka_unit_test(as_many_as_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
