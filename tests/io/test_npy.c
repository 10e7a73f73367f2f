#include "io/npy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "archive.h"

#define GOOD "{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2), }   \n"

static const char *const cells[2][2] = {{"ab", "xyz"}, {"", "0"}};

static void add_head(Bytes *b, int version, const char *header) {
    size_t n = strlen(header);
    const unsigned char head[12] = {0x93,
                                    'N',
                                    'U',
                                    'M',
                                    'P',
                                    'Y',
                                    (unsigned char)version,
                                    0,
                                    (unsigned char)n,
                                    (unsigned char)(n >> 8),
                                    0,
                                    0};
    bytes_add(b, head, version == 1 ? 10 : 12);
    bytes_add(b, header, n);
}

static void add_cells(Bytes *b, size_t step) {
    for (int i = 0; i < 4; i++) {
        const char *text = cells[i / 2][i % 2];
        for (size_t k = 0; k < 3; k++) {
            unsigned char c[4] = {(unsigned char)(k < strlen(text) ? text[k] : 0)};
            bytes_add(b, c, step);
        }
    }
}

static Bytes make_npy(int version, const char *header) {
    Bytes b = {0};
    add_head(&b, version, header);
    add_cells(&b, strstr(header, "|S") ? 1 : 4);
    return b;
}

/* Opens a copy without a byte to spare and reads every element. */
static bool open_exact(const unsigned char *data, size_t size, bool *same, Err *err) {
    unsigned char *exact = malloc(size ? size : 1);
    char text[16];
    Npy a;
    memcpy(exact, data, size);
    bool ok = npy_open(&a, exact, size, "some.npy", err);
    *same = ok && a.rows == 2 && a.columns == 2;
    for (int i = 0; ok && i < a.rows; i++)
        for (int j = 0; j < a.columns; j++)
            if (!npy_text(&a, i, j, text, sizeof text) || !*same || strcmp(text, cells[i][j]) != 0)
                *same = false;
    free(exact);
    return ok;
}

static void test_right(void **state) {
    static const char *const headers[] = {
        GOOD,
        "{'descr': '|S3', 'fortran_order': False, 'shape': (2, 2), }\n",
        "{\"shape\":(2,2,),\"descr\":\"<U3\",\"fortran_order\":False}\n",
        "{ 'shape' : ( 2 , 2 ) , 'fortran_order' : False , 'descr' : '<U3' }  \n",
    };
    Err err = {0};
    bool same;
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        for (int version = 1; version <= 3; version++) {
            Bytes b = make_npy(version, headers[i]);
            if (!open_exact(b.data, b.size, &same, &err)) fail_msg("%s", err.text);
            assert_true(same);
            bytes_free(&b);
        }
    }
}

static void test_truncated(void **state) {
    Bytes b = make_npy(1, GOOD);
    Err err;
    bool same;
    (void)state;
    for (size_t n = 0; n < b.size; n++) {
        if (open_exact(b.data, n, &same, &err)) fail_msg("%zu of %zu bytes pass", n, b.size);
        assert_int_equal(err.code, EX_DATAERR);
    }
    bytes_add(&b, "x", 1);
    assert_false(open_exact(b.data, b.size, &same, &err));
    bytes_free(&b);
}

/* No value of any byte of the header may do harm, and few pass. */
static void test_changed(void **state) {
    Bytes b = make_npy(1, GOOD);
    Err err;
    bool same;
    (void)state;
    for (size_t i = 0; i < 10 + strlen(GOOD); i++) {
        unsigned char was = b.data[i];
        for (int v = 0; v < 256; v++) {
            b.data[i] = (unsigned char)v;
            open_exact(b.data, b.size, &same, &err);
        }
        b.data[i] = was;
    }
    bytes_free(&b);
}

static void test_refused(void **state) {
    static const struct {
        const char *header, *what;
    } cases[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }\n", "dtype is none of text"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n", "dtype is none of text"},
        {"{'descr': '>U3', 'fortran_order': False, 'shape': (2, 2), }\n", "dtype is none of text"},
        {"{'descr': '<U', 'fortran_order': False, 'shape': (2, 2), }\n", "dtype's length"},
        {"{'descr': '<U0', 'fortran_order': False, 'shape': (2, 2), }\n", "dtype's length"},
        {"{'descr': '<U3x', 'fortran_order': False, 'shape': (2, 2), }\n", "dtype's length"},
        {"{'descr': [('a', '<U3')], 'fortran_order': False, 'shape': (2, 2), }\n", "a string"},
        {"{'descr': '<U3', 'fortran_order': True, 'shape': (2, 2), }\n", "fortran_order"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (4,), }\n", "a number was expected"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2, 1), }\n", "two dimensions"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (), }\n", "a number was expected"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (-2, -2), }\n", "a number"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 3), }\n", "does not match"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (0, 2), }\n", "does not match"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (4294967298, 2), }\n", "too large"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (99999999999999999999, 2), }\n",
         "too large"},
        {"{'descr': '<U4611686018427387904', 'fortran_order': False, 'shape': (2, 2), }\n",
         "does not match"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2147483647, 2147483647), }\n",
         "does not match"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2), }", "without a newline"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2), \n", "a string"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2) 'x': 1}\n", "does not end"},
        {"{'descr': '<U3', 'fortran_order': False, }\n", "a key is missing"},
        {"{'descr': '<U3', 'descr': '<U3', 'fortran_order': False, 'shape': (2, 2)}\n", "twice"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2), 'more': 1}\n", "unknown"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2)} import os\n", "text behind"},
        {"['descr', '<U3']\n", "no dictionary"},
        {"{}\n", "a key is missing"},
        {"", "without a newline"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = make_npy(1, cases[i].header);
        Err err = {0};
        bool same;
        if (open_exact(b.data, b.size, &same, &err)) fail_msg("passes: %s", cases[i].header);
        assert_int_equal(err.code, EX_DATAERR);
        if (!strstr(err.text, "some.npy") || !strstr(err.text, cases[i].what))
            fail_msg("expected '%s' in: %s", cases[i].what, err.text);
        bytes_free(&b);
    }
}

static void test_huge_header(void **state) {
    Bytes b = make_npy(2, GOOD);
    Err err;
    bool same;
    (void)state;
    memcpy(b.data + 8, "\xff\xff\xff\xff", 4);
    assert_false(open_exact(b.data, b.size, &same, &err));
    bytes_free(&b);
    /* One that is there, but larger than is allowed. */
    char *header = malloc(70001);
    memset(header, ' ', 70000);
    memcpy(header, GOOD, strlen(GOOD) - 1);
    header[69999] = '\n';
    header[70000] = '\0';
    b = make_npy(2, header);
    b.data[10] = 1; /* the third byte of 70000 */
    assert_false(open_exact(b.data, b.size, &same, &err));
    assert_non_null(strstr(err.text, "longer than 65536"));
    bytes_free(&b);
    free(header);
    b = make_npy(4, GOOD);
    assert_false(open_exact(b.data, b.size, &same, &err));
    bytes_free(&b);
}

static void test_elements(void **state) {
    Bytes b = make_npy(1, GOOD);
    size_t at = b.size - 4 * 12;
    Err err;
    Npy a;
    char text[16];
    (void)state;
    assert_true(npy_open(&a, b.data, b.size, "some.npy", &err));
    assert_true(npy_text(&a, 0, 1, text, 4));
    assert_false(npy_text(&a, 0, 1, text, 3)); /* no room */
    b.data[at + 1] = 1;                        /* a letter beyond ASCII */
    assert_false(npy_text(&a, 0, 0, text, sizeof text));
    b.data[at + 1] = 0;
    b.data[at + 8] = 'c';
    b.data[at + 4] = 0; /* goes on behind its end */
    assert_false(npy_text(&a, 0, 0, text, sizeof text));
    b.data[at] = '\n';
    assert_false(npy_text(&a, 0, 0, text, sizeof text));
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),       cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_changed),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_huge_header), cmocka_unit_test(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
