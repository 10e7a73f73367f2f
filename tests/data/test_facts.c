#include "data/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mem.h"
#include "scratch.h"

/* A training split of three documents, whose longest has 3 tokens. */
static const char *training_split(const char *vocab, const char *classes, const char *ids,
                                  const char *names) {
    static const uint8_t tokens[] = {0, 1, 2, 3, 4, 4};
    const int64_t offsets[] = {0, 2, 3, 6};
    const int32_t labels[] = {1, 0, 1};
    const StTensor t[] = {st_tensor("tokens", DT_U8, 1, (const int64_t[]){6}, tokens),
                          st_tensor("offsets", DT_I64, 1, (const int64_t[]){4}, offsets),
                          st_tensor("labels", DT_I32, 1, (const int64_t[]){3}, labels)};
    StMeta meta[4] = {{"vocab", vocab}, {"classes", classes}};
    int n = 2;
    if (ids) meta[n++] = (StMeta){"ids", ids};
    if (names) meta[n++] = (StMeta){"class_names", names};
    const char *path = scratch("train.safetensors");
    Err err;
    if (!st_write(path, KIND_DATASET, t, 3, meta, n, &err)) fail_msg("%s", err.text);
    return path;
}

static void facts_of_file(Facts *s, const char *path) {
    Dataset d;
    Err err;
    if (!dataset_open(&d, path, &err)) fail_msg("%s", err.text);
    facts_of_set(s, &d);
    assert_null(d.class_names.name);
    dataset_close(&d);
}

/* Weights with this metadata "set". */
static bool read_text(Facts *s, StFile *f, const char *text, Err *err) {
    const real one = 1;
    const StTensor t = st_real_tensor("fc1.bias", &one, 0, NULL);
    const StMeta meta = {FACTS_META, text};
    const char *path = scratch("weights.safetensors");
    if (!st_write(path, KIND_TENSORS, &t, 1, &meta, text != NULL, err) || !st_open(f, path, err))
        fail_msg("%s", err->text);
    return facts_read(s, f, err);
}

static void assert_same(const Facts *a, const Facts *b) {
    assert_true(a->vocab == b->vocab && a->classes == b->classes);
    assert_true(a->per_example == b->per_example && a->longest == b->longest);
    assert_true(a->ids == b->ids || !strcmp(a->ids, b->ids));
    assert_string_equal(a->text, b->text);
    assert_true(!a->class_names.name == !b->class_names.name);
    for (int k = 0; a->class_names.name && k < a->classes; k++)
        assert_string_equal(a->class_names.name[k], b->class_names.name[k]);
}

/* What weights keep says the same of the set again, whose names outlive it. */
static void there_and_back(const char *split, const char *text) {
    Facts s, again;
    StFile f;
    Err err;
    facts_of_file(&s, split);
    assert_string_equal(s.text, text);
    if (!read_text(&again, &f, s.text, &err)) fail_msg("%s", err.text);
    st_close(&f);
    assert_same(&s, &again);
    facts_close(&again);
    facts_close(&s);
    assert_null(s.text);
}

static void test_there_and_back(void **state) {
    there_and_back(training_split("5", "2", NULL, NULL),
                   "{\"vocab\":5,\"classes\":2,\"per_example\":1,\"longest\":3}");
    there_and_back(training_split("257", "2", "bytes", "[\"no \\\"\", \"gr\\u00fcn\"]"),
                   "{\"vocab\":257,\"classes\":2,\"per_example\":1,\"longest\":3,\"ids\":\"bytes\","
                   "\"class_names\":[\"no \\\"\",\"gr\xc3\xbcn\"]}");
    there_and_back(
        training_split("256", "2", "pixels", NULL),
        "{\"vocab\":256,\"classes\":2,\"per_example\":1,\"longest\":3,\"ids\":\"pixels\"}");
}

static void test_none(void **state) {
    Facts s;
    StFile f;
    Err err;
    assert_true(read_text(&s, &f, NULL, &err));
    assert_null(s.text);
    assert_int_equal(s.vocab, 0);
    st_close(&f);
    facts_close(&s);
}

/* Of so many classes, each with a name of 60 bytes, no names are kept, and all else is. */
static void test_more_names_than_are_kept(void **state) {
    enum { CLASSES = 70000 };
    char *names = mem_alloc(CLASSES * 80, 1);
    Facts s;
    int n = 0;
    for (int k = 0; k < CLASSES; k++) n += sprintf(names + n, "%c\"%060d\"", k ? ',' : '[', k);
    strcpy(names + n, "]");
    facts_of_file(&s, training_split("5", "70000", NULL, names));
    assert_string_equal(s.text, "{\"vocab\":5,\"classes\":70000,\"per_example\":1,\"longest\":3}");
    assert_non_null(s.class_names.name);
    facts_close(&s);
    mem_free(names);
}

#define SIZES "{\"vocab\":257,\"classes\":2,\"per_example\":1,\"longest\":3"

static void test_what_is_no_such_text(void **state) {
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"", "weights.safetensors"},
        {"[1]", "\"set\": \"vocab\": expected 1 to 32768"},
        {"{\"vocab\":257}", "\"set\": \"classes\": expected 1 to 1048576"},
        {"{\"vocab\":0,\"classes\":2,\"per_example\":1,\"longest\":3}", "\"vocab\": expected 1"},
        {"{\"vocab\":2.5,\"classes\":2,\"per_example\":1,\"longest\":3}", "\"vocab\": expected 1"},
        {"{\"vocab\":5,\"classes\":2,\"per_example\":3,\"longest\":3}", "expected 1 to 2"},
        {"{\"vocab\":5,\"classes\":2,\"per_example\":1,\"longest\":3e9}",
         "expected 1 to 2147483647"},
        {"{\"vocab\":5,\"classes\":2,\"per_example\":1,\"longest\":\"3\"}",
         "\"longest\": expected"},
        {SIZES ",\"ids\":\"words\"}", "\"ids\": are not those of a vocab of 257"},
        {SIZES ",\"ids\":\"pixels\"}", "\"ids\": are not those of a vocab of 257"},
        {SIZES ",\"ids\":1}", "\"ids\": are not those of a vocab of 257"},
        {SIZES ",\"class_names\":\"a\"}", "expected a JSON array of 2 names, got none"},
        {SIZES ",\"class_names\":[\"a\"]}", "expected a JSON array of 2 names, got 1"},
        {SIZES ",\"class_names\":[\"a\",\"\"]}", "of class 1: expected a string of 1 to 64"},
        {SIZES ",\"class_names\":[[\"a\"]]}", "weights.safetensors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Facts s;
        StFile f;
        Err err = {0};
        if (read_text(&s, &f, cases[i].text, &err)) fail_msg("%s is taken", cases[i].text);
        assert_int_equal(err.code, EX_DATAERR);
        if (!strstr(err.text, cases[i].what)) fail_msg("%s, not %s", err.text, cases[i].what);
        assert_null(s.text);
        assert_null(s.class_names.name);
        st_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_more_names_than_are_kept),
        cmocka_unit_test(test_what_is_no_such_text),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
