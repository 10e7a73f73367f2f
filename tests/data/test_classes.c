#include "data/classes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"

/* Those of a file with these "class_names", of so many classes. */
static bool names_of(ClassNames *c, StFile *f, const char *names, int classes, Err *err) {
    const uint8_t one = 1;
    const StTensor t = st_tensor("tokens", DT_U8, 1, (const int64_t[]){1}, &one);
    const StMeta meta = {"class_names", names};
    const char *path = scratch("named.safetensors");
    if (!st_write(path, KIND_TENSORS, &t, 1, &meta, names != NULL, err) || !st_open(f, path, err))
        fail_msg("%s", err->text);
    return classes_open(c, f, classes, err);
}

static void test_names(void **state) {
    ClassNames c;
    StFile f;
    Err err = {0};
    assert_true(names_of(&c, &f, "[\"bad\", \"gr\\u00fcn\"]", 2, &err));
    assert_string_equal(c.name[0], "bad");
    assert_string_equal(c.name[1], "gr\xc3\xbcn");
    classes_close(&c);
    assert_null(c.name);
    st_close(&f);
    assert_true(names_of(&c, &f, NULL, 2, &err));
    assert_null(c.name);
    classes_close(&c);
    st_close(&f);
}

#define X16 "xxxxxxxxxxxxxxxx"
#define X64 X16 X16 X16 X16

static void expect_error(const char *names, const char *what) {
    ClassNames c;
    StFile f;
    Err err = {0};
    assert_false(names_of(&c, &f, names, 2, &err));
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, what) ||
        !strstr(err.text, "named.safetensors: metadata \"class_names\": "))
        fail_msg("%s, not %s", err.text, what);
    assert_null(c.name);
    assert_null(c.list);
    st_close(&f);
}

static void test_what_are_no_names(void **state) {
    static const char *const none[] = {"", "bad", "\"a\"", "[\"a\",\"b\"", "[\"a\",[]]"},
                             *const some[] = {"[\"a\",\"\"]",        "[\"a\",1]",
                                              "[\"a\",null]",        "[\"a\",\"\\n\"]",
                                              "[\"a\",\"\\u009b\"]", "[\"a\",\"x" X64 "\"]"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        expect_error(none[i], "expected a JSON array of 2 names, got none");
    expect_error("{\"a\":\"b\",\"c\":\"d\"}", "expected a JSON array of 2 names, got none");
    expect_error("[]", "expected a JSON array of 2 names, got 0");
    expect_error("[\"a\"]", "expected a JSON array of 2 names, got 1");
    expect_error("[\"a\",\"b\",\"c\"]", "expected a JSON array of 2 names, got 3");
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        expect_error(some[i], "of class 1: expected a string of 1 to 64 bytes without control");
    ClassNames c;
    StFile f;
    Err err = {0};
    assert_true(names_of(&c, &f, "[\"" X64 "\"]", 1, &err));
    classes_close(&c);
    st_close(&f);
}

static void test_agree(void **state) {
    const ClassNames a = {.name = (const char *[]){"no", "yes"}},
                     b = {.name = (const char *[]){"no", "oui"}}, none = {0};
    Err err = {0};
    assert_true(classes_agree(&a, &a, "val", "train", 2, &err) &&
                classes_agree(&a, &b, "val", "train", 1, &err));
    assert_true(classes_agree(&none, &a, "val", "train", 2, &err));
    assert_true(classes_agree(&a, &none, "val", "train", 2, &err));
    assert_false(classes_agree(&b, &a, "val", "train", 2, &err));
    assert_int_equal(err.code, EX_DATAERR);
    assert_string_equal(err.text, "val: calls class 1 'oui', which is 'yes' in train");
}

static void test_text(void **state) {
    char buf[64];
    assert_string_equal(class_text(3, NULL, buf, sizeof buf), "3");
    assert_string_equal(class_text(3, "cat", buf, sizeof buf), "3 cat");
    assert_string_equal(class_text(3, "4 stars", buf, sizeof buf), "3 (4 stars)");
    assert_string_equal(class_text(3, X16 "xxxxxxxxy", buf, sizeof buf), "3 " X16 "xxxxxxxx");
    assert_string_equal(class_text(3, X16 "xxxxxxx\xc3\xbc", buf, sizeof buf), "3 " X16 "xxxxxxx");
    assert_string_equal(class_text(3, X16 "xxxxxx\xc3\xbcy", buf, sizeof buf),
                        "3 " X16 "xxxxxx\xc3\xbc");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_are_no_names),
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
