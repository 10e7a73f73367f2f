#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/nearest.h"
#include "io/json.h"
#include "io/schema.h"

typedef struct Model {
    int heads, norm, clusters;
    double dropout, decay;
    bool pre_norm;
    char dir[KEY_TEXT_MAX];
} Model;

#define AT(field) offsetof(Model, field)
static const ConfigKey keys[] = {
    {"heads", KEY_INT, AT(heads), NULL, 1, 64, NULL, "attention heads"},
    {"norm", KEY_CHOICE, AT(norm), "\"layer\"", 0, 0, "layer scale batch", "normalisation"},
    {"clusters", KEY_SIZE, AT(clusters), "\"auto\"", 1, INT_MAX, "auto sqrt", "clusters"},
    {"dropout", KEY_REAL, AT(dropout), "0.1", 0, 0.9, NULL, "probability"},
    {"decay", KEY_REAL, AT(decay), "1e-2", 0, INFINITY, NULL, "weight decay"},
    {"pre_norm", KEY_BOOL, AT(pre_norm), "true", 0, 0, NULL, "norm first"},
    {"dir", KEY_TEXT, AT(dir), "\"data\"", 0, 0, NULL, "directory", .also = "path folder"},
    {0},
};

static bool read_text(Model *m, const char *text, const char *prefix, Err *err) {
    cJSON *obj = json_parse(text, strlen(text), JSON_MAX_BYTES, JSON_MAX_DEPTH, "f", err);
    assert_non_null(obj);
    bool ok = schema_read(m, keys, obj, "f.json", prefix, "attention", err);
    cJSON_Delete(obj);
    return ok;
}

static void reads_all_types(void **state) {
    (void)state;
    Model m;
    Err err;
    assert_true(read_text(&m,
                          "{\"heads\": 4, \"norm\": \"batch\", \"clusters\": 1e1, \"dropout\": 0,"
                          " \"decay\": 1e9, \"pre_norm\": false, \"dir\": \"\", \"attention\": 3}",
                          "model", &err));
    assert_int_equal(m.heads, 4);
    assert_int_equal(m.norm, 2);
    assert_int_equal(m.clusters, 10);
    assert_true(m.dropout == 0 && m.decay == 1e9 && !m.pre_norm);
    assert_string_equal(m.dir, "");
}

static void fills_in_defaults(void **state) {
    (void)state;
    Model m;
    Err err;
    assert_true(read_text(&m, "{\"heads\": 64}", "", &err));
    assert_int_equal(m.norm, 0);
    assert_int_equal(m.clusters, -1);
    assert_true(m.dropout == 0.1 && m.decay == 1e-2 && m.pre_norm);
    assert_string_equal(m.dir, "data");
    assert_true(read_text(&m, "{\"heads\": 1, \"clusters\": \"sqrt\"}", "", &err));
    assert_int_equal(m.clusters, -2);
    assert_true(schema_read(&m, keys + 1, NULL, "f.json", "model", NULL, &err));
}

typedef struct Row {
    const char *text, *message;
} Row;

#define ALL "the keys here are attention, heads, norm, clusters, dropout, decay, pre_norm, dir"

static void names_what_is_wrong(void **state) {
    (void)state;
    static const Row rows[] = {
        {"{}", "key 'model.heads' is missing; it must be an integer from 1 to 64"},
        {"{\"heds\": 4}",
         "key 'model.heds' is unknown; did you mean 'model.heads'? (got 4; " ALL ")"},
        {"{\"haeds\": 4}",
         "key 'model.haeds' is unknown; did you mean 'model.heads'? (got 4; " ALL ")"},
        {"{\"Heads\": 4}",
         "key 'model.Heads' is unknown; did you mean 'model.heads'? (got 4; " ALL ")"},
        {"{\"atention\": 4}",
         "key 'model.atention' is unknown; did you mean 'model.attention'? (got 4; " ALL ")"},
        {"{\"folder\": 4}",
         "key 'model.folder' is unknown; did you mean 'model.dir'? (got 4; " ALL ")"},
        {"{\"x\": 4}", "key 'model.x' is unknown (got 4; " ALL ")"},
        {"{\"heads\": \"two\"}", "key 'model.heads' must be an integer from 1 to 64, got \"two\""},
        {"{\"heads\": 0}", "key 'model.heads' must be an integer from 1 to 64, got 0"},
        {"{\"heads\": 65}", "key 'model.heads' must be an integer from 1 to 64, got 65"},
        {"{\"heads\": -1}", "key 'model.heads' must be an integer from 1 to 64, got -1"},
        {"{\"heads\": 2.5}", "key 'model.heads' must be an integer from 1 to 64, got 2.5"},
        {"{\"heads\": null}", "key 'model.heads' must be an integer from 1 to 64, got null"},
        {"{\"heads\": true}", "key 'model.heads' must be an integer from 1 to 64, got true"},
        {"{\"heads\": []}", "key 'model.heads' must be an integer from 1 to 64, got an array"},
        {"{\"heads\": {}}", "key 'model.heads' must be an integer from 1 to 64, got an object"},
        {"{\"heads\": 1, \"norm\": \"btch\"}", "key 'model.norm' must be one of layer, scale, "
                                               "batch, got \"btch\"; did you mean \"batch\"?"},
        {"{\"heads\": 1, \"norm\": \"group\"}",
         "key 'model.norm' must be one of layer, scale, batch, got \"group\""},
        {"{\"heads\": 1, \"norm\": \"layer scale\"}",
         "key 'model.norm' must be one of layer, scale, batch, got \"layer scale\""},
        {"{\"heads\": 1, \"norm\": 1}",
         "key 'model.norm' must be one of layer, scale, batch, got 1"},
        {"{\"heads\": 1, \"clusters\": 0}", "key 'model.clusters' must be an integer from 1 to "
                                            "2147483647 or one of auto, sqrt, got 0"},
        {"{\"heads\": 1, \"clusters\": -2}", "key 'model.clusters' must be an integer from 1 to "
                                             "2147483647 or one of auto, sqrt, got -2"},
        {"{\"heads\": 1, \"clusters\": 9007199254740993}",
         "key 'model.clusters' must be an integer from 1 to 2147483647 or one of auto, sqrt,"
         " got 9007199254740992"},
        {"{\"heads\": 1, \"clusters\": 2147483648}",
         "key 'model.clusters' must be an integer from 1 to 2147483647 or one of auto, sqrt,"
         " got 2147483648"},
        {"{\"heads\": 1, \"clusters\": \"atuo\"}",
         "key 'model.clusters' must be an integer from 1 to 2147483647 or one of auto, sqrt,"
         " got \"atuo\"; did you mean \"auto\"?"},
        {"{\"heads\": 1, \"dropout\": 0.95}",
         "key 'model.dropout' must be a number from 0 to 0.9, got 0.95"},
        {"{\"heads\": 1, \"dropout\": \"NaN\"}",
         "key 'model.dropout' must be a number from 0 to 0.9, got \"NaN\""},
        {"{\"heads\": 1, \"decay\": -1e-9}",
         "key 'model.decay' must be a number of at least 0, got -1e-09"},
        {"{\"heads\": 1, \"pre_norm\": 1}", "key 'model.pre_norm' must be true or false, got 1"},
        {"{\"heads\": 1, \"dir\": 1}",
         "key 'model.dir' must be a string of at most 1023 bytes, got 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Model m;
        Err err;
        char expected[512];
        snprintf(expected, sizeof expected, "f.json: %s", rows[i].message);
        assert_false(read_text(&m, rows[i].text, i % 2 ? "model" : "model.", &err));
        assert_string_equal(err.text, expected);
        assert_int_equal(err.code, EX_CONFIG);
    }
}

/* Numbers of which only even or odd ones are taken. */
typedef struct Parities {
    int even, odd_or_0;
} Parities;

static const ConfigKey parities[] = {
    {"buckets", KEY_INT, offsetof(Parities, even), "64", 2, 65536, KEY_EVEN, "even"},
    {"kernel", KEY_INT, offsetof(Parities, odd_or_0), "0", 0, 1023, KEY_ODD_OR_0, "odd, or none"},
    {0},
};

static bool read_parities(Parities *p, const char *text, Err *err) {
    cJSON *obj = json_parse(text, strlen(text), JSON_MAX_BYTES, JSON_MAX_DEPTH, "f", err);
    assert_non_null(obj);
    bool ok = schema_read(p, parities, obj, "f.json", "model", NULL, err);
    cJSON_Delete(obj);
    return ok;
}

static void even_and_odd_are_taken(void **state) {
    (void)state;
    static const struct {
        const char *text;
        Parities read;
    } rows[] = {
        {"{}", {64, 0}},
        {"{\"buckets\": 2, \"kernel\": 1}", {2, 1}},
        {"{\"buckets\": 65536, \"kernel\": 1023}", {65536, 1023}},
        {"{\"buckets\": 6e1, \"kernel\": 5.0}", {60, 5}},
        {"{\"kernel\": -0}", {64, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Parities p;
        Err err;
        assert_true(read_parities(&p, rows[i].text, &err));
        assert_memory_equal(&p, &rows[i].read, sizeof p);
    }
}

static void even_and_odd_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *key, *allowed, *values[8];
    } rows[] = {
        {"buckets",
         "an even integer from 2 to 65536",
         {"0", "1", "3", "65535", "65537", "65538", "-2", "2.5"}},
        {"kernel",
         "0 or an odd integer from 0 to 1023",
         {"2", "4", "1022", "1024", "1025", "-1", "\"odd\"", "null"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t j = 0; j < 8; j++) {
            Parities p;
            Err err;
            char text[64], expected[256];
            snprintf(text, sizeof text, "{\"%s\": %s}", rows[i].key, rows[i].values[j]);
            snprintf(expected, sizeof expected, "f.json: key 'model.%s' must be %s, got %s",
                     rows[i].key, rows[i].allowed, rows[i].values[j]);
            assert_false(read_parities(&p, text, &err));
            assert_string_equal(err.text, expected);
            assert_int_equal(err.code, EX_CONFIG);
        }
}

/* They are no words to choose from, neither in help nor in what is near. */
static void helps_with_even_and_odd(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    schema_help(f, parities, "");
    fclose(f);
    assert_non_null(strstr(text, "even (an even integer from 2 to 65536; default 64)\n"));
    assert_non_null(strstr(text, "odd, or none (0 or an odd integer from 0 to 1023; default 0)\n"));
    free(text);
}

static void not_an_object(void **state) {
    (void)state;
    Model m;
    Err err;
    assert_false(read_text(&m, "[1]", "model", &err));
    assert_string_equal(err.text, "f.json: key 'model' must be an object, got an array");
}

static void long_text(void **state) {
    (void)state;
    Model m;
    Err err;
    char text[KEY_TEXT_MAX + 64];
    for (int n = KEY_TEXT_MAX - 1; n <= KEY_TEXT_MAX; n++) {
        int used = snprintf(text, sizeof text, "{\"heads\": 1, \"dir\": \"");
        memset(text + used, 'a', (size_t)n);
        memcpy(text + used + n, "\"}", 3);
        assert_int_equal(read_text(&m, text, "", &err), n < KEY_TEXT_MAX);
    }
    assert_non_null(strstr(err.text, "at most 1023 bytes, got \"aaaaa"));
    memset(text, 'k', KEY_TEXT_MAX);
    memcpy(text, "{\"", 2);
    memcpy(text + KEY_TEXT_MAX, "\":1}", 5);
    assert_false(read_text(&m, text, "", &err));
    assert_non_null(strstr(err.text, "f.json: key 'kkkkk"));
    assert_non_null(strstr(err.text, "kkk' is unknown (got"));
}

static void writes_what_it_reads(void **state) {
    (void)state;
    static const char text[] =
        "{\"heads\":4,\"norm\":\"scale\",\"clusters\":\"sqrt\",\"dropout\":0.5,"
        "\"decay\":0.01,\"pre_norm\":true,\"dir\":\"a b\"}";
    Model m;
    Err err;
    assert_true(read_text(&m, text, "", &err));
    cJSON *obj = cJSON_CreateObject();
    schema_write(&m, keys, obj);
    char *written = cJSON_PrintUnformatted(obj);
    assert_string_equal(written, text);
    cJSON_free(written);
    cJSON_Delete(obj);
    m.clusters = 12;
    obj = cJSON_CreateObject();
    schema_write(&m, keys, obj);
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(obj, "clusters")->valueint, 12);
    cJSON_Delete(obj);
}

static void helps(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    schema_help(f, keys, "model");
    fclose(f);
    int lines = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 7);
    assert_non_null(strstr(text, "  model.heads                      attention heads"
                                 " (an integer from 1 to 64; required)\n"));
    assert_non_null(strstr(text, "(one of layer, scale, batch; default \"layer\")\n"));
    free(text);
}

static void helps_with_open_ranges(void **state) {
    (void)state;
    static const ConfigKey open[] = {
        {"a", KEY_INT, 0, "1", INT_MIN, 9, NULL, "up to nine"},
        {"b", KEY_REAL, 0, "1", -INFINITY, INFINITY, NULL, "any"},
        {0},
    };
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    schema_help(f, open, "");
    fclose(f);
    assert_non_null(strstr(text, "up to nine (an integer of at most 9; default 1)\n"));
    assert_non_null(strstr(text, "any (a number; default 1)\n"));
    free(text);
}

static void nearest(void **state) {
    (void)state;
    static const char *const words[] = {"lr", "d", "heads", "weight_decay", "schedule", NULL};
    static const struct {
        const char *word, *nearest;
    } rows[] = {
        {"LR", "lr"},
        {"rl", "lr"},
        {"x", NULL},
        {"D", "d"},
        {"head", "heads"},
        {"wieght_decya", "weight_decay"},
        {"shedule", "schedule"},
        {"momentum", NULL},
        {"", NULL},
        {"weightdecay", "weight_decay"},
    };
    char longest[2000];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *found = nearest_word(rows[i].word, words);
        if (rows[i].nearest)
            assert_string_equal(found, rows[i].nearest);
        else
            assert_null(found);
    }
    memset(longest, 'h', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_null(nearest_word(longest, words));
}

static void words(void **state) {
    (void)state;
    char buf[16];
    assert_string_equal(schema_word("layer scale batch", 1, buf, sizeof buf), "scale");
    assert_string_equal(schema_word(" one", 0, buf, sizeof buf), "one");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_types),
        cmocka_unit_test(fills_in_defaults),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(even_and_odd_are_taken),
        cmocka_unit_test(even_and_odd_are_refused),
        cmocka_unit_test(helps_with_even_and_odd),
        cmocka_unit_test(not_an_object),
        cmocka_unit_test(long_text),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(helps),
        cmocka_unit_test(helps_with_open_ranges),
        cmocka_unit_test(nearest),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
