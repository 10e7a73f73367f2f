/* Covers: src/io/tar.c src/io/gz.c */
#include "archive.h"
#include "fuzz/fuzz.h"
#include "io/tar.h"

/* More than gz.c lets pass without looking at the ratio. */
static const TarLimits limits = {.bytes = 1 << 21, .entries = 32};

static void walk(const void *data, size_t size) {
    char content[1000];
    Err err;
    TarEntry e;
    size_t got;
    Tar *t = tar_open(fuzz_file("fuzz.tar", data, size), limits, &err);
    while (t && tar_next(t, &e, &err) && e.name) {
        REQUIRE(strlen(e.name) > 0 && e.size <= limits.bytes, "'%s'", e.name);
        if (!tar_read(t, content, sizeof content, &got, &err)) break;
        REQUIRE(got <= e.size, "%zu bytes of '%s'", got, e.name);
    }
    tar_close(t);
}

/* As it is; and with right sums in the headers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes b = {0};
    walk(data, size);
    bytes_add(&b, data, size);
    tar_seal_all(&b, 0);
    if (size >= 512 && memcmp(b.data, data, size) != 0) walk(b.data, size);
    bytes_free(&b);
    return 0;
}
