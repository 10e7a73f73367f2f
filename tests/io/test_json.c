#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "core/mem.h"
#include "io/json.h"
#include "io/json_print.h"
#include "text.h"

static const char config[] =
    "{\n"
    "  \"task\": \"image\", \"seed\": -1, \"lr\": 5e-3, \"big\": 12345678.25E+2,\n"
    "  \"model\": { \"d\": 128, \"pre_norm\": true, \"tied\": false, \"extra\": null,\n"
    "    \"attention\": { \"type\": \"cast\", \"clusters\": [1, 2, []], \"none\": {} } },\n"
    "  \"name\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 "
    "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"\n"
    "}\n";

static cJSON *parse(const char *text, size_t len, Err *err) {
    return json_parse(text, len, JSON_MAX_BYTES, JSON_MAX_DEPTH, "f", err);
}

typedef struct Row {
    const char *text, *message; /* NULL: it parses */
} Row;

static void check_rows(const Row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Err err = {0};
        cJSON *root = parse(rows[i].text, strlen(rows[i].text), &err);
        if (!rows[i].message) {
            if (!root) fail_msg("'%s': %s", rows[i].text, err.text);
        } else {
            if (root) fail_msg("'%s' was accepted", rows[i].text);
            assert_string_equal(err.text, rows[i].message);
            assert_int_equal(err.code, EX_CONFIG);
        }
        cJSON_Delete(root);
    }
}

static void good_config(void **state) {
    (void)state;
    Err err;
    cJSON *root = parse(config, strlen(config), &err);
    assert_non_null(root);
    const cJSON *big = cJSON_GetObjectItemCaseSensitive(root, "big");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(root, "name");
    assert_true(big->valuedouble == 1234567825.0);
    assert_string_equal(name->valuestring, "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80 "
                                           "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    cJSON_Delete(root);
}

static void numbers(void **state) {
    (void)state;
    static const Row rows[] = {
        {"0", NULL},
        {"-0", NULL},
        {"10", NULL},
        {"0.5", NULL},
        {"1e999", "f:1:1: the number is too large for a double"},
        {"-1E400", "f:1:1: the number is too large for a double"},
        {"1e-999", NULL},
        {"9007199254740993", NULL},
        {"007", "f:1:1: a number may not begin with a superfluous 0"},
        {"[1, -00]", "f:1:6: a number may not begin with a superfluous 0"},
        {"1.", "f:1:3: expected a digit after the decimal point, found the end of the text"},
        {".5", "f:1:1: expected a value, found '.'"},
        {"+1", "f:1:1: expected a value, found '+'"},
        {"-", "f:1:2: expected a digit, found the end of the text"},
        {"1e", "f:1:3: expected a digit in the exponent, found the end of the text"},
        {"1e+x", "f:1:4: expected a digit in the exponent, found 'x'"},
        {"0x10", "f:1:2: expected the end of the text, found 'x'"},
        {"NaN", "f:1:1: expected a value, found 'N'"},
        {"Infinity", "f:1:1: expected a value, found 'I'"},
        {"-inf", "f:1:2: expected a digit, found 'i'"},
        {"123456789012345678901234567890123456789012345678901234567890123", NULL},
        {"1234567890123456789012345678901234567890123456789012345678901234",
         "f:1:1: a number may have at most 63 characters"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void strings(void **state) {
    (void)state;
    static const Row rows[] = {
        {"\"\\u0000\"", "f:1:2: \\u0000 is not allowed in a string"},
        {"\"a\\u0041\"", NULL},
        {"\"\\ud83d\\ude00\"", NULL},
        {"\"\\ud83d\"", "f:1:2: half of a surrogate pair"},
        {"\"\\ud83d\\n\"", "f:1:2: half of a surrogate pair"},
        {"\"\\ud83d\\ud83d\"", "f:1:2: half of a surrogate pair"},
        {"\"\\ude00\"", "f:1:2: half of a surrogate pair"},
        {"\"\\u00g0\"", "f:1:6: expected four hexadecimal digits after \\u, found 'g'"},
        {"\"\\x41\"", "f:1:3: expected one of \" \\ / b f n r t u after a backslash, found 'x'"},
        {"\"a\nb\"", "f:1:3: expected \\n, \\t or \\u00xx for a control character in a string, "
                     "found byte 0x0a"},
        {"\"open", "f:1:1: the string has no closing quote"},
        {"\"\\",
         "f:1:3: expected one of \" \\ / b f n r t u after a backslash, found the end of the text"},
        {"'a'", "f:1:1: expected a value, found '''"},
        {"\"\xc3\xa9 \xff\"", "f:1:4: expected UTF-8, found byte 0xff"},
        {"\"\xc0\x80\"", "f:1:2: expected UTF-8, found byte 0xc0"},
        {"\"\xe0\x80\x80\"", "f:1:2: expected UTF-8, found byte 0xe0"},
        {"\"\xed\xa0\x80\"", "f:1:2: expected UTF-8, found byte 0xed"},
        {"\"\xf4\x90\x80\x80\"", "f:1:2: expected UTF-8, found byte 0xf4"},
        {"\"\xe2\x82\"", "f:1:2: expected UTF-8, found byte 0xe2"},
        {"\"\xef\xbf\xbf\x7f\"", NULL},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void structure(void **state) {
    (void)state;
    static const Row rows[] = {
        {"", "f:1:1: expected a value, found the end of the text"},
        {" \t\r\n", "f:2:1: expected a value, found the end of the text"},
        {"\xef\xbb\xbf{}", "f:1:1: begins with a byte order mark; save it as UTF-8 without one"},
        {"{} {}", "f:1:4: expected the end of the text, found '{'"},
        {"{\"a\":1,}", "f:1:8: expected another key after the comma, found '}'"},
        {"[1,]", "f:1:4: expected a value, found ']'"},
        {"{a:1}", "f:1:2: expected a key in double quotes, found 'a'"},
        {"{\"a\" 1}", "f:1:6: expected ':' after a key, found '1'"},
        {"{\"a\":1\n\"b\":2}", "f:2:1: expected ',' or '}', found '\"'"},
        {"[1 2]", "f:1:4: expected ',' or ']', found '2'"},
        {"[1}", "f:1:3: expected ',' or ']', found '}'"},
        {"{\"a\":}", "f:1:6: expected a value, found '}'"},
        {"// no\n{}", "f:1:1: expected a value, found '/'; JSON has no comments"},
        {"True", "f:1:1: expected a value, found 'T'"},
        {"nul", "f:1:1: expected a value, found 'n'"},
        {"[]", NULL},
        {"{}", NULL},
        {" [ { } , [ ] ] ", NULL},
        {"null", NULL},
        {"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]", NULL},
        {"[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", "f:1:17: nested more than 16 deep"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void duplicate_keys(void **state) {
    (void)state;
    static const Row rows[] = {
        {"{\"a\":1,\n \"a\":2}", "f:2:2: the key \"a\" occurs twice in its object"},
        {"{\"a\":1,\"\\u0061\":2}", "f:1:8: the key \"a\" occurs twice in its object"},
        {"[{\"x\":{\"b\":1}},{\"b\":{\"c\":1,\"d\":{\"a\":1},\"c\":1}}]",
         "f:1:40: the key \"c\" occurs twice in its object"},
        {"{\"a\":{\"a\":1},\"b\":{\"a\":2},\"A\":1}", NULL},
        {"{\"\":1,\"\":1}", "f:1:7: the key \"\" occurs twice in its object"},
    };
    check_rows(rows, sizeof rows / sizeof *rows);
}

static void nul_bytes(void **state) {
    (void)state;
    Err err;
    assert_null(parse("{}\0", 3, &err));
    assert_string_equal(err.text, "f:1:3: expected the end of the text, found byte 0x00");
    assert_null(parse("\"a\0b\"", 5, &err));
    assert_null(parse("[1\0]", 4, &err));
}

/* From memory of exactly that size, so that the sanitizer sees a read beyond the end. */
static bool parses(const char *text, size_t len) {
    Err err = {0};
    char *copy = malloc(len ? len : 1);
    memcpy(copy, text, len);
    cJSON *root = parse(copy, len, &err);
    bool ok = root != NULL;
    assert_true(ok || (err.code == EX_CONFIG && strncmp(err.text, "f:", 2) == 0));
    cJSON_Delete(root);
    free(copy);
    return ok;
}

static void truncated_anywhere(void **state) {
    (void)state;
    size_t whole = strlen(config) - 1; /* without the last newline */
    for (size_t n = 0; n < whole; n++) assert_false(parses(config, n));
    assert_true(parses(config, whole));
}

static void flipped_anywhere(void **state) {
    (void)state;
    char text[sizeof config];
    for (size_t i = 0; i + 1 < sizeof config; i++) {
        memcpy(text, config, sizeof config);
        for (int flip = 1; flip < 256; flip++) {
            text[i] = (char)(config[i] ^ flip);
            parses(text, strlen(config));
        }
    }
}

static void deep_and_large(void **state) {
    (void)state;
    Err err;
    size_t n = 1000 * 1000;
    char *text = malloc(n);
    memset(text, '[', n);
    assert_null(parse(text, n, &err));
    assert_string_equal(err.text, "f:1:17: nested more than 16 deep");
    for (size_t i = 0; i < n; i++) text[i] = "{\"a\":"[i % 5];
    assert_null(parse(text, n, &err));
    assert_null(json_parse("[1]", 3, 2, 4, "f", &err));
    assert_string_equal(err.text, "f: 3 bytes; at most 2 are read");
    free(text);
}

/* Two hundred thousand keys: quadratic work would take minutes. */
static void many_keys(void **state) {
    (void)state;
    Err err;
    size_t size = 0;
    char *text = NULL;
    FILE *f = open_memstream(&text, &size);
    for (int i = 0; i < 200000; i++) fprintf(f, "%s\"%d\":[]", i ? "," : "{", i);
    fputs("}", f);
    fclose(f);
    cJSON *root = json_parse(text, size, 1 << 24, 4, "f", &err);
    assert_non_null(root);
    cJSON_Delete(root);
    memcpy(strstr(text, "\"99999\""), "\"77777\"", 7);
    assert_null(json_parse(text, size, 1 << 24, 4, "f", &err));
    assert_non_null(strstr(err.text, "the key \"77777\" occurs twice"));
    free(text);
}

static void check_read(const char *path, int code, const char *message) {
    Err err;
    assert_null(json_read(path, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, message)) fail_msg("'%s' lacks '%s'", err.text, message);
    assert_non_null(strstr(err.text, path));
}

static void hostile_files(void **state) {
    (void)state;
    size_t large = JSON_MAX_BYTES + 1;
    char *spaces = malloc(large);
    memset(spaces, ' ', large);
    spaces[0] = '{', spaces[1] = '}';
    check_read(scratch("absent.json"), EX_NOINPUT, "No such file");
    check_read(scratch_write("empty.json", "", 0), EX_CONFIG, "is empty");
    check_read(scratch_dir, EX_CONFIG, "is a directory");
    check_read("/dev/zero", EX_CONFIG, "pipe or device");
    assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
    check_read(scratch("fifo"), EX_CONFIG, "pipe or device");
    check_read(scratch_write("large.json", spaces, large), EX_CONFIG, "at most 1048576");
    check_read(scratch_write("list.json", "[1]", 3), EX_CONFIG, "a config is an object");
    Err err;
    cJSON *root = json_read(scratch_write("just.json", spaces, large - 1), &err);
    assert_non_null(root);
    cJSON_Delete(root);
    free(spaces);
}

static void check_override(const char *assignment, const char *expected) {
    Err err;
    cJSON *root = cJSON_Parse("{\"a\":{\"b\":1,\"c\":\"x\"},\"d\":2}");
    if (!json_override(root, assignment, &err)) fail_msg("%s", err.text);
    char *text = cJSON_PrintUnformatted(root);
    assert_string_equal(text, expected);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void override_with_text(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"d=2024", "2024"}, {"d=true", "true"}, {"d=\"7\"", "7"},
                                          {"d=", ""},         {"d=a b", "a b"},   {"d={", "{"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Err err;
        cJSON *root = cJSON_Parse("{\"d\":2}");
        assert_true(json_override_text(root, rows[i][0], &err));
        assert_string_equal(json_string(root, "d"), rows[i][1]);
        cJSON_Delete(root);
    }
}

static void overrides(void **state) {
    (void)state;
    check_override("a.b=3", "{\"a\":{\"b\":3,\"c\":\"x\"},\"d\":2}");
    check_override("a.c=word", "{\"a\":{\"b\":1,\"c\":\"word\"},\"d\":2}");
    check_override("a.c=\"7\"", "{\"a\":{\"b\":1,\"c\":\"7\"},\"d\":2}");
    check_override("a.c=007", "{\"a\":{\"b\":1,\"c\":\"007\"},\"d\":2}");
    check_override("a.c=x=y", "{\"a\":{\"b\":1,\"c\":\"x=y\"},\"d\":2}");
    check_override("a.c=", "{\"a\":{\"b\":1,\"c\":\"\"},\"d\":2}");
    check_override("a=null", "{\"a\":null,\"d\":2}");
    check_override("d={\"e\": true}", "{\"a\":{\"b\":1,\"c\":\"x\"},\"d\":{\"e\":true}}");
    check_override("e.f.g=5e-3",
                   "{\"a\":{\"b\":1,\"c\":\"x\"},\"d\":2,\"e\":{\"f\":{\"g\":0.005}}}");
    check_override("D=1", "{\"a\":{\"b\":1,\"c\":\"x\"},\"d\":2,\"D\":1}");
}

static void bad_overrides(void **state) {
    (void)state;
    static const Row rows[] = {
        {"a.b", "'a.b': expected key=value, as in model.depth=4"},
        {"=3", "'=3': expected key=value, as in model.depth=4"},
        {"", "'': expected key=value, as in model.depth=4"},
        {".b=3", "'.b=3': a part of the key is empty"},
        {"a.=3", "'a.=3': a part of the key is empty"},
        {"a..b=3", "'a..b=3': a part of the key is empty"},
        {"d.b=3", "'d.b=3': 'd' is not an object, so it has no keys"},
        {"a.b=\xff", "'a.b=?': is not UTF-8"},
        {"q.q.q.q.q.q.q.q.q.q.q.q.q.q.q.q.q=1",
         "'q.q.q.q.q.q.q.q.q.q.q.q.q.q.q.q.q=1': the key has more than 16 parts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Err err;
        cJSON *root = cJSON_Parse("{\"a\":{\"b\":1},\"d\":2}");
        assert_false(json_override(root, rows[i].text, &err));
        assert_string_equal(err.text, rows[i].message);
        assert_int_equal(err.code, EX_USAGE);
        cJSON_Delete(root);
    }
}

static void written_is_read_back(void **state) {
    (void)state;
    Err err;
    const char *path = scratch("out.json");
    cJSON *root = parse(config, strlen(config), &err);
    cJSON_AddNumberToObject(root, "tenth", 0.1);
    cJSON_AddNumberToObject(root, "third", 1.0 / 3);
    cJSON_AddNumberToObject(root, "huge", 1.7976931348623157e308);
    cJSON_AddStringToObject(root, "control", "\x01\x7f");
    assert_true(json_write(root, path, &err));
    cJSON *again = json_read(path, &err);
    assert_non_null(again);
    assert_true(cJSON_Compare(root, again, true));
    char *text = text_read(path);
    assert_non_null(strstr(text, "{\n  \"task\": \"image\",\n  \"seed\": -1,\n  \"lr\": 0.005,\n"));
    assert_non_null(strstr(text, "    \"attention\": {\n      \"type\": \"cast\",\n"));
    assert_non_null(strstr(text, "\"clusters\": [1, 2, []],\n      \"none\": {}\n    }\n  },\n"));
    assert_non_null(strstr(text, "\"tenth\": 0.1,"));
    free(text);
    cJSON_Delete(again);
    cJSON_Delete(root);
}

static void odd_values_are_written(void **state) {
    (void)state;
    Err err;
    const char *path = scratch("odd.json");
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "nan", NAN);
    cJSON_AddNumberToObject(root, "inf", -INFINITY);
    cJSON_AddStringToObject(root, "bad",
                            "a\xff"
                            "b\xe2\x82");
    assert_true(json_write(root, path, &err));
    char *text = text_read(path);
    assert_string_equal(text, "{\n  \"nan\": null,\n  \"inf\": null,\n"
                              "  \"bad\": \"a\\ufffdb\\ufffd\\ufffd\"\n}\n");
    free(text);
    cJSON_Delete(root);
    assert_false(json_write(NULL, scratch("absent/x.json"), &err));
    assert_int_equal(err.code, EX_CANTCREAT);
}

static void becomes(const char *text, const char *wanted) {
    cJSON *value = json_value(text, JSON_MAX_DEPTH);
    char *one_form = json_text(value);
    assert_string_equal(one_form, wanted);
    mem_free(one_form);
    cJSON_Delete(value);
}

static void values_and_texts(void **state) {
    (void)state;
    Err err;
    becomes("1e-3", "0.001");
    becomes("\"a b\"", "a b");
    becomes("a b", "a b");
    becomes("", "");
    becomes("{\"x\": [1, true]}", "{\"x\":[1,true]}");
    cJSON *root = parse("{\"a\": {\"b\": \"c\", \"n\": 1}}", 25, &err);
    assert_string_equal(json_string(root, "a.b"), "c");
    assert_null(json_string(root, "a.n"));
    assert_null(json_string(root, "a.b.c"));
    cJSON_Delete(root);
    assert_null(json_string(NULL, "a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_config),
        cmocka_unit_test(numbers),
        cmocka_unit_test(strings),
        cmocka_unit_test(structure),
        cmocka_unit_test(duplicate_keys),
        cmocka_unit_test(nul_bytes),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(flipped_anywhere),
        cmocka_unit_test(deep_and_large),
        cmocka_unit_test(many_keys),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(overrides),
        cmocka_unit_test(override_with_text),
        cmocka_unit_test(bad_overrides),
        cmocka_unit_test(written_is_read_back),
        cmocka_unit_test(odd_values_are_written),
        cmocka_unit_test(values_and_texts),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
