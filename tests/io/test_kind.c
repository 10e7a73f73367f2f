#include "io/kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"

/* Bytes that begin a file of each kind; of safetensors the header, whose length comes first. */
static const struct {
    FileKind kind;
    bool safetensors;
    const char *text;
} samples[] = {
    {KIND_JSON, false, "{\n  \"task\": \"image\"\n}\n"},
    {KIND_JSON, false, "\xef\xbb\xbf  \n{}"},
    {KIND_METRICS, false, "{\"kind\": \"train\", \"step\": 1}\n"},
    {KIND_CHECKPOINT, true,
     "{\"__metadata__\":{\"crc32\":\"0\",\"format\":\"cast-checkpoint-1\"}}"},
    {KIND_WEIGHTS, true, "{\"__metadata__\":{\"format\":\"cast-weights-1\"},\"embed.weight\":{}}"},
    {KIND_CARD, false, "---\nlibrary_name: cast\ntags:\n"},
    {KIND_READER, false,
     "#!/usr/bin/env python3\n\"\"\"Reads what cast_export wrote and gives logits."},
    {KIND_DATASET, true, "{\"__metadata__\":{\"format\":\"cast-dataset-1\"},\"offsets\":{}}"},
    {KIND_HTML, false, "<!DOCTYPE html>\n<html lang=\"en\">"},
    {KIND_HTML, false, "\n <HTML>"},
    {KIND_SVG, false, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE svg>\n<svg "},
    {KIND_PNG, false, "\x89PNG\r\n\x1a\n"},
    {KIND_PDF, false, "%PDF-1.5\n"},
    {KIND_CHECKED, false, "cast-checked-1 0123abcd\n"},
    {KIND_GNUPLOT, false, "set encoding utf8\nset terminal svg size 600,440 noenhanced\n"},
    {KIND_SCRIPT, false, "#!/bin/bash\n# Written by cast_sweep 0.2.0: an array job"},
    {KIND_PREDICTIONS, false, "index,label,predicted,p0,p1\n"},
    {KIND_LISTOPS, false, "Source\tTarget\r\n"},
    {KIND_PATHFINDER, false, "imgs/0 sample_0.png 0 1 1.0 6 4 14 0.5 1 1\n"},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static const char *put(const char *text, bool safetensors) {
    char bytes[256] = "";
    uint64_t size = strlen(text);
    memcpy(bytes, &size, sizeof size);
    memcpy(bytes + sizeof size, text, size);
    return safetensors ? scratch_write("file", bytes, sizeof size + size)
                       : scratch_write("file", text, size);
}

static void expect(const char *path, FileKind kind, bool may) {
    Err err = {0};
    if (kind_may_replace(path, kind, &err) != may)
        fail_msg("kind %d: %s", kind, may ? err.text : "takes the place of another");
    assert_int_equal(err.code, may ? 0 : EX_CANTCREAT);
    if (!may && !strstr(err.text, "file: is there and is no ")) fail_msg("%s", err.text);
}

static void replaces_its_own_kind_alone(void **state) {
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        const char *path = put(samples[i].text, samples[i].safetensors);
        for (int k = KIND_JSON; k <= KIND_PATHFINDER; k++) {
            expect(path, (FileKind)k, samples[i].kind == (FileKind)k);
            assert_int_equal(kind_is(path, (FileKind)k), samples[i].kind == (FileKind)k);
        }
        expect(path, KIND_ANY, true);
    }
}

static void nothing_is_lost(void **state) {
    (void)state;
    expect(scratch("absent"), KIND_HTML, true);
    expect(scratch_write("empty", "", 0), KIND_HTML, true);
    assert_false(kind_is(scratch("absent"), KIND_HTML) || kind_is(scratch_dir, KIND_HTML) ||
                 kind_is(scratch("empty"), KIND_HTML));
}

/* Metadata of safetensors are the writer's own. */
static void tensors(void **state) {
    (void)state;
    static const char *const plain = "{\"logits\":{\"dtype\":\"F32\"}}";
    static const char *const own = "{\"__metadata__\":{\"vocab\":\"9\"},\"offsets\":{}}";
    expect(put(plain, true), KIND_TENSORS, true);
    expect(put(plain, true), KIND_CHECKPOINT, false);
    expect(put(plain, true), KIND_DATASET, false);
    expect(put(own, true), KIND_DATASET, true);
    expect(put(own, true), KIND_TENSORS, false);
    expect(put(plain, false), KIND_TENSORS, false);
    expect(put("{", true), KIND_TENSORS, true);
    expect(put("\1\2\3", false), KIND_TENSORS, false);
}

/* Metadata may come first and be long; and what is behind a header is not of it. */
static void long_headers(void **state) {
    enum { LONG = 6000, ROOM = 2 * LONG };
    char bytes[ROOM];
    (void)state;
    const int n = snprintf(bytes + 8, ROOM - 8,
                           "{\"__metadata__\":{\"source\":\"%0*d\"},\"offsets\":{}}", LONG, 0);
    memcpy(bytes, &(uint64_t){(uint64_t)n}, 8);
    const char *path = scratch_write("file", bytes, (size_t)n + 8);
    expect(path, KIND_TENSORS, false);
    expect(path, KIND_DATASET, true);
    const int m =
        snprintf(bytes + 8, ROOM - 8, "{\"logits\":{}}\"offsets\"") - (int)strlen("\"offsets\"");
    memcpy(bytes, &(uint64_t){(uint64_t)m}, 8);
    path = scratch_write("file", bytes, (size_t)m + 8 + strlen("\"offsets\""));
    expect(path, KIND_TENSORS, true);
    expect(path, KIND_DATASET, false);
}

static void a_row_each(void **state) {
    (void)state;
    expect(put("<?xml version=\"1.0\"?>\n<rss>", false), KIND_SVG, false);
    expect(put("# notes", false), KIND_SCRIPT, false);
    expect(put("#!/bin/bash\necho mine\n", false), KIND_SCRIPT, false);
    expect(put("index,label", false), KIND_PREDICTIONS, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_its_own_kind_alone),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(tensors),
        cmocka_unit_test(long_headers),
        cmocka_unit_test(a_row_each),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
