/* Pathfinder's pictures are grey, of 8 bits and not interlaced. Of PngSuite's images
 * (tests/io/pngsuite) those are read, to the pixel, and all others refused with what they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <zlib.h>

#include "io/png.h"
#include "scratch.h"

enum { SIDE = 32, IMAGES = 60 };
#define SUITE "tests/io/pngsuite/"

/* Bytes of the header, from the file's begin. */
enum { AT_WIDTH = 19, AT_HEIGHT = 23, AT_DEPTH = 24, AT_COLOUR = 25, AT_INTERLACE = 28 };

static bool is_ours(const unsigned char *png) {
    return png[AT_WIDTH] == SIDE && png[AT_HEIGHT] == SIDE && png[AT_DEPTH] == 8 &&
           png[AT_COLOUR] == 0 && png[AT_INTERLACE] == 0;
}

/* As pypng 0.20220715, which is not libpng, reads them. */
static const struct {
    const char *name;
    uLong crc;
} pixels[] = {{"basn0g08.png", 0x784b4a4e}, {"ftp0n0g08.png", 0xc3dda42e}};

static void check_pixels(const char *name, const unsigned char *grey) {
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        if (strcmp(name, pixels[i].name) == 0)
            assert_int_equal(crc32(0, grey, SIDE * SIDE), pixels[i].crc);
}

/* Whether it was read. */
static bool check_image(const char *name) {
    unsigned char grey[SIDE * SIDE];
    char path[400];
    size_t size;
    Err err = {0};
    snprintf(path, sizeof path, SUITE "%s", name);
    unsigned char *data = scratch_read(path, &size);
    const bool ours = is_ours(data),
               read = png_grey_decode(grey, SIDE, SIDE, data, size, name, &err);
    if (read != ours) fail_msg("%s: %s", name, read ? "was read" : err.text);
    if (read) {
        check_pixels(name, grey);
    } else {
        assert_int_equal(err.code, EX_DATAERR);
        assert_non_null(strstr(err.text, name));
        assert_non_null(strstr(err.text, "expected 32 x 32 of 8 bits, grey"));
    }
    free(data);
    return read;
}

static void test_suite(void **state) {
    (void)state;
    int images = 0, read = 0;
    DIR *d = opendir(SUITE);
    if (!d) fail_msg("%s is not there", SUITE);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".png")) continue;
        images++;
        read += check_image(e->d_name);
    }
    closedir(d);
    printf("# PngSuite: %d of %d images are of Pathfinder's kind\n", read, images);
    assert_int_equal(images, IMAGES);
    assert_int_equal(read, 2);
}

/* What PngSuite's broken images are: a right one with bytes changed, added or taken out. */
typedef struct Broken {
    const char *name;
    size_t at, taken;
    const char *put;
    size_t nput;
} Broken;

static const Broken broken[] = {
    {"xs1: the signature's first byte", 0, 1, "\x85", 1},
    {"xs2: its second", 1, 1, "p", 1},
    {"xs4: its fourth", 3, 1, "g", 1},
    {"xs7: its seventh", 6, 1, "\x1b", 1},
    {"xcr: carriage returns added", 5, 0, "\r", 1},
    {"xlf: line feeds only", 4, 1, "", 0},
    {"xhd: the header's checksum", 29, 1, "\xff", 1},
    {"xc1: colour type 1", AT_COLOUR, 1, "\1", 1},
    {"xc9: colour type 9", AT_COLOUR, 1, "\11", 1},
    {"xd0: depth 0", AT_DEPTH, 1, "\0", 1},
    {"xd3: depth 3", AT_DEPTH, 1, "\3", 1},
    {"xd9: depth 99", AT_DEPTH, 1, "\143", 1},
    {"a chunk's length of 2^31", 33, 1, "\x80", 1},
    {"nothing but the signature", 8, SIZE_MAX, "", 0},
    {"nothing at all", 0, SIZE_MAX, "", 0},
};

static void test_broken(void **state) {
    (void)state;
    size_t size;
    unsigned char grey[SIDE * SIDE], *data = scratch_read(SUITE "basn0g08.png", &size);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const Broken *b = &broken[i];
        const size_t rest = b->taken < size - b->at ? size - b->at - b->taken : 0;
        const size_t n = b->at + b->nput + rest;
        unsigned char *copy = malloc(n ? n : 1);
        memcpy(copy, data, b->at);
        memcpy(copy + b->at, b->put, b->nput);
        memcpy(copy + b->at + b->nput, data + size - rest, rest);
        Err err = {0};
        if (png_grey_decode(grey, SIDE, SIDE, copy, n, "x.png", &err)) fail_msg("%s", b->name);
        assert_int_equal(err.code, EX_DATAERR);
        assert_non_null(strstr(err.text, "x.png"));
        free(copy);
    }
    free(data);
}

/* Without its pixels (xdt), and with the checksum of each chunk wrong (xcs). */
static void test_chunks(void **state) {
    (void)state;
    size_t size, chunks = 0;
    unsigned char grey[SIDE * SIDE], *data = scratch_read(SUITE "basn0g08.png", &size);
    Err err = {0};
    for (size_t at = 8, length; at < size; at += length + 12, chunks++) {
        const unsigned char *p = data + at;
        length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        data[at + length + 11] ^= 1;
        if (png_grey_decode(grey, SIDE, SIDE, data, size, "xcs", &err))
            fail_msg("a wrong checksum of %.4s passes", (const char *)p + 4);
        data[at + length + 11] ^= 1;
        if (memcmp(p + 4, "IDAT", 4) != 0) continue;
        memmove(data + at, p + length + 12, size - at - length - 12);
        assert_false(png_grey_decode(grey, SIDE, SIDE, data, size - length - 12, "xdt", &err));
        assert_int_equal(err.code, EX_DATAERR);
        break;
    }
    assert_true(chunks >= 1);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_suite), cmocka_unit_test(test_broken),
                                       cmocka_unit_test(test_chunks)};
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
