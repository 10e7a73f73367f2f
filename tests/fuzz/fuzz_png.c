/* Covers: src/io/png.c */
#include "archive.h"
#include "fuzz/fuzz.h"
#include "io/png.h"

enum { WIDTH = 5, HEIGHT = 3, PIXELS = WIDTH * HEIGHT };

static bool decode(unsigned char *grey, const void *data, size_t size) {
    Err err;
    return png_grey_decode(grey, WIDTH, HEIGHT, data, size, "fuzz.png", &err);
}

/* What is read as grey is a picture in colours, too; much else is one in colours alone. */
static void decode_rgb(bool is_grey, const void *data, size_t size) {
    unsigned char rgb[3 * PIXELS];
    Err err;
    const bool ok = png_rgb_decode(rgb, WIDTH, HEIGHT, data, size, "fuzz.png", &err);
    REQUIRE(ok || !is_grey, "grey, but no picture: %s", err.text);
}

/* Right checksums in the chunks, which a fuzzer hardly ever hits. */
static void seal(unsigned char *png, size_t size) {
    for (size_t at = 8; at < size && size - at >= 12;) {
        unsigned char *p = png + at;
        const size_t n = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (n > size - at - 12) return;
        const uLong crc = crc32(crc32(0, NULL, 0), p + 4, (uInt)(n + 4));
        for (int i = 0; i < 4; i++) p[8 + n + (size_t)i] = (unsigned char)(crc >> (24 - 8 * i));
        at += 12 + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char grey[PIXELS], again[PIXELS];
    Bytes b = {0};
    Err err;
    decode(grey, data, size);
    bytes_add(&b, data, size);
    seal(b.data, size);
    const bool is_grey = decode(grey, b.data, size);
    decode_rgb(is_grey, b.data, size);
    if (is_grey) {
        const char *path = fuzz_path("fuzz.png");
        REQUIRE(png_grey_write(path, grey, WIDTH, HEIGHT, &err), "%s", err.text);
        unsigned char *written = scratch_read(path, &size);
        REQUIRE(decode(again, written, size) && !memcmp(grey, again, PIXELS), "another image");
        free(written);
    }
    bytes_free(&b);
    return 0;
}
