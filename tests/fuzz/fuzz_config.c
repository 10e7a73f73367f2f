/* Covers: src/io/json.c src/io/schema.c src/train/config.c */
#include "core/mem.h"
#include "fuzz/fuzz.h"
#include "io/json.h"
#include "io/json_print.h"
#include "train/config.h"

/* What was resolved is a config itself, and resolves to itself. `old` is any object, as a run's
 * directory may hold it. */
static void load_again(Config *c, const cJSON *old) {
    const char *path = fuzz_path("again.json");
    Config d;
    Err err;
    REQUIRE(json_write(c->resolved, path, &err), "%s", err.text);
    cJSON *was = c->resolved;
    c->resolved = NULL;
    config_free(c); /* a model's table of positions may be large: one at a time */
    REQUIRE(config_load(&d, path, NULL, 0, &err), "%s", err.text);
    REQUIRE(config_same(was, d.resolved, path, &err), "%s", err.text);
    config_same(old, d.resolved, path, &err);
    config_same(d.resolved, old, path, &err);
    config_free(&d);
    cJSON_Delete(was);
}

/* The file's text; behind a NUL overrides, with a NUL between them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 8 };
    char *text = mem_alloc(size + 1, 1), *overrides[MOST], dir[256];
    int n = 0;
    Config c;
    Err err;
    memcpy(text, data, size);
    const size_t file = strlen(text);
    for (size_t at = file + 1; at < size && n < MOST; at += strlen(text + at) + 1)
        overrides[n++] = text + at;
    const char *path = fuzz_file("fuzz.json", text, file);
    cJSON *old = json_read(path, &err);
    if (config_load(&c, path, overrides, n, &err)) load_again(&c, old);
    cJSON_Delete(old);
    config_run_dir(dir, sizeof dir, path, overrides, n);
    config_free(&c);
    mem_free(text);
    return 0;
}
