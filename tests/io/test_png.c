#include "io/png.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "archive.h"
#include "scratch.h"

enum { WIDTH = 5, HEIGHT = 3 };

static void add_number(Bytes *b, uint32_t v) {
    const unsigned char p[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                                (unsigned char)(v >> 8), (unsigned char)v};
    bytes_add(b, p, 4);
}

static void add_chunk(Bytes *b, const char *type, const void *data, size_t size) {
    add_number(b, (uint32_t)size);
    size_t from = b->size;
    bytes_add(b, type, 4);
    bytes_add(b, data ? data : "", size);
    add_number(b, (uint32_t)crc32(crc32(0, NULL, 0), b->data + from, (uInt)(size + 4)));
}

static void begin(Bytes *b, uint32_t width, uint32_t height, int depth, int colour, int interlace) {
    Bytes h = {0};
    bytes_add(b, "\x89PNG\r\n\x1a\n", 8);
    add_number(&h, width);
    add_number(&h, height);
    const unsigned char rest[5] = {(unsigned char)depth, (unsigned char)colour, 0, 0,
                                   (unsigned char)interlace};
    bytes_add(&h, rest, 5);
    add_chunk(b, "IHDR", h.data, h.size);
    bytes_free(&h);
}

/* zlib's stream of `size` bytes: a filter byte 0 and the pixels, row by row; pixel i is 16 i. */
static void add_pixels(Bytes *b, size_t size) {
    Bytes raw = {0}, z = {0};
    for (size_t i = 0, v = 0; i < size; i++) {
        unsigned char c = (unsigned char)(i % (WIDTH + 1) ? 16 * v++ : 0);
        bytes_add(&raw, &c, 1);
    }
    uLongf n = compressBound((uLong)size);
    bytes_add(&z, NULL, n);
    if (compress(z.data, &n, raw.data, (uLong)size) != Z_OK) abort();
    add_chunk(b, "IDAT", z.data, n);
    bytes_free(&raw);
    bytes_free(&z);
}

static Bytes make_png(void) {
    Bytes b = {0};
    begin(&b, WIDTH, HEIGHT, 8, 0, 0);
    add_pixels(&b, HEIGHT * (WIDTH + 1));
    add_chunk(&b, "IEND", NULL, 0);
    return b;
}

/* Decodes a copy without a byte to spare, so that a sanitizer sees what is read behind its end. */
static bool decode(const unsigned char *data, size_t size, Err *err) {
    unsigned char grey[WIDTH * HEIGHT];
    unsigned char *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    bool ok = png_grey_decode(grey, WIDTH, HEIGHT, exact, size, "some.png", err);
    free(exact);
    for (int i = 0; ok && i < WIDTH * HEIGHT; i++) assert_int_equal(grey[i], 16 * i);
    return ok;
}

/* Of a whole one without a byte to spare. */
static bool is_whole(const unsigned char *data, size_t size) {
    unsigned char *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    const bool ok = png_is_whole(exact, size);
    free(exact);
    return ok;
}

static void expect_right(Bytes *b) {
    Err err = {0};
    if (!decode(b->data, b->size, &err)) fail_msg("%s", err.text);
    bytes_free(b);
}

static void expect_error(Bytes *b, const char *what) {
    Err err = {0};
    assert_false(decode(b->data, b->size, &err));
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, "some.png") || !strstr(err.text, what))
        fail_msg("expected '%s' in: %s", what, err.text);
    bytes_free(b);
}

static void test_right(void **state) {
    Bytes b = make_png();
    (void)state;
    expect_right(&b);
}

static void test_written(void **state) {
    unsigned char grey[WIDTH * HEIGHT];
    Err err = {0};
    size_t size;
    (void)state;
    for (int i = 0; i < WIDTH * HEIGHT; i++) grey[i] = (unsigned char)(16 * i);
    const char *path = scratch("written.png");
    if (!png_grey_write(path, grey, WIDTH, HEIGHT, &err)) fail_msg("%s", err.text);
    unsigned char *data = scratch_read(path, &size);
    if (!decode(data, size, &err)) fail_msg("%s", err.text);
    free(data);
    assert_false(png_grey_write(scratch("no/where.png"), grey, WIDTH, HEIGHT, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
    assert_false(
        png_grey_write(scratch_write("theirs", "no picture", 10), grey, WIDTH, HEIGHT, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
}

/* The colours of a header, and no file where it cannot be whole. */
static void test_written_in_colour(void **state) {
    unsigned char rgb[WIDTH * HEIGHT * 3] = {255, 0, 0};
    Err err = {0};
    size_t size;
    (void)state;
    const char *path = scratch("colour.png");
    if (!png_rgb_write(path, rgb, WIDTH, HEIGHT, &err)) fail_msg("%s", err.text);
    unsigned char *data = scratch_read(path, &size);
    assert_false(decode(data, size, &err));
    if (!strstr(err.text, "5 x 3 pixels of 8 bits, colour type 2")) fail_msg("%s", err.text);
    free(data);
    assert_false(png_rgb_write(scratch("no/where.png"), rgb, WIDTH, HEIGHT, &err));
    assert_int_equal(err.code, EX_CANTCREAT);
}

static void test_truncated(void **state) {
    Bytes b = make_png();
    Err err;
    (void)state;
    for (size_t n = 0; n < b.size; n++) {
        if (decode(b.data, n, &err)) fail_msg("%zu of %zu bytes pass", n, b.size);
        if (is_whole(b.data, n)) fail_msg("%zu of %zu bytes are whole", n, b.size);
        assert_int_equal(err.code, EX_DATAERR);
    }
    assert_true(is_whole(b.data, b.size));
    bytes_free(&b);
}

/* Every byte is under a checksum or is one, is a length, or is the signature. */
static void test_flipped(void **state) {
    Bytes b = make_png();
    Err err;
    (void)state;
    for (size_t i = 0; i < b.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            b.data[i] ^= (unsigned char)(1 << bit);
            if (decode(b.data, b.size, &err)) fail_msg("byte %zu, bit %d flipped passes", i, bit);
            if (is_whole(b.data, b.size)) fail_msg("byte %zu, bit %d flipped is whole", i, bit);
            b.data[i] ^= (unsigned char)(1 << bit);
        }
    }
    bytes_free(&b);
}

static void test_other_images(void **state) {
    static const struct {
        uint32_t width, height;
        int depth, colour, interlace;
        const char *what;
    } cases[] = {
        {1000000, 1000000, 8, 0, 0, "1000000 x 1000000 pixels"},
        {0xffffffffu, 0xffffffffu, 8, 0, 0, "4294967295 x"},
        {0, 0, 8, 0, 0, "0 x 0 pixels"},
        {WIDTH + 1, HEIGHT, 8, 0, 0, "6 x 3 pixels"},
        {WIDTH, HEIGHT - 1, 8, 0, 0, "expected 5 x 3 of 8 bits, grey"},
        {WIDTH, HEIGHT, 16, 0, 0, "of 16 bits"},
        {WIDTH, HEIGHT, 1, 0, 0, "of 1 bits"},
        {WIDTH, HEIGHT, 8, 2, 0, "colour type 2"},
        {WIDTH, HEIGHT, 8, 3, 0, "colour type 3"},
        {WIDTH, HEIGHT, 8, 4, 0, "colour type 4"},
        {WIDTH, HEIGHT, 8, 6, 0, "colour type 6"},
        {WIDTH, HEIGHT, 8, 0, 1, "interlaced"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = {0};
        begin(&b, cases[i].width, cases[i].height, cases[i].depth, cases[i].colour,
              cases[i].interlace);
        add_pixels(&b, HEIGHT * (WIDTH + 1));
        add_chunk(&b, "IEND", NULL, 0);
        expect_error(&b, cases[i].what);
    }
}

/* A chunk between header and pixels. */
static Bytes with_chunk(const char *type, const void *data, size_t size) {
    Bytes b = {0};
    begin(&b, WIDTH, HEIGHT, 8, 0, 0);
    add_chunk(&b, type, data, size);
    add_pixels(&b, HEIGHT * (WIDTH + 1));
    add_chunk(&b, "IEND", NULL, 0);
    return b;
}

static void test_other_chunks(void **state) {
    (void)state;
    Bytes b = with_chunk("tEXt", "Software\0some", 13);
    expect_right(&b);
    b = with_chunk("gAMA", "ab", 2); /* of the wrong length, but nobody asks */
    expect_right(&b);
    b = with_chunk("prVt", "anything", 8);
    expect_right(&b);
    static const char picture_of_more[70000] = "XML:com.adobe.xmp";
    b = with_chunk("iTXt", picture_of_more, sizeof picture_of_more);
    expect_right(&b);
    b = with_chunk("CRIt", "x", 1);
    expect_error(&b, "CRIt");
    b = with_chunk("tEXt", "Software\0some", 13);
    b.data[33 + 12] ^= 1;
    expect_error(&b, "CRC");
    b = with_chunk("tEXt", NULL, 0);
    memcpy(b.data + 33, "\x7f\xff\xff\xff", 4);
    expect_error(&b, "");
}

/* 40 MB of zeros in 40 kB, where libpng would look for text and for a colour profile. */
static void test_bombs(void **state) {
    Bytes zeros = {0}, z = {0};
    (void)state;
    bytes_add(&zeros, NULL, 40 << 20);
    uLongf n = compressBound((uLong)zeros.size);
    bytes_add(&z, "Comment\0\0", 9);
    bytes_add(&z, NULL, n);
    if (compress2(z.data + 9, &n, zeros.data, (uLong)zeros.size, 9) != Z_OK) abort();
    Bytes b = with_chunk("zTXt", z.data, 9 + n);
    expect_right(&b);
    b = with_chunk("iCCP", z.data, 9 + n);
    expect_right(&b);
    begin(&b, WIDTH, HEIGHT, 8, 0, 0);
    add_chunk(&b, "IDAT", z.data + 9, n);
    add_chunk(&b, "IEND", NULL, 0);
    expect_error(&b, "");
    bytes_free(&zeros);
    bytes_free(&z);
}

static void test_pixel_data(void **state) {
    (void)state;
    Bytes b = {0};
    begin(&b, WIDTH, HEIGHT, 8, 0, 0);
    add_pixels(&b, HEIGHT * (WIDTH + 1) - 1);
    add_chunk(&b, "IEND", NULL, 0);
    expect_error(&b, "");
    begin(&b, WIDTH, HEIGHT, 8, 0, 0);
    add_pixels(&b, (HEIGHT + 1) * (WIDTH + 1));
    add_chunk(&b, "IEND", NULL, 0);
    expect_error(&b, "");
    begin(&b, WIDTH, HEIGHT, 8, 0, 0);
    add_chunk(&b, "IEND", NULL, 0);
    expect_error(&b, "");
    b = make_png();
    bytes_add(&b, "behind its end", 14); /* is not looked at */
    expect_right(&b);
    bytes_add(&b, "GIF89a, not a PNG at all, but long enough for one", 49);
    expect_error(&b, "");
}

/* libpng would skip the first chunk, and take the header behind it: of colours, of 16 bits, of
 * another size. */
static void test_header_is_first(void **state) {
    static const struct {
        uint32_t width, height;
        int depth, colour;
    } later[] = {{WIDTH, HEIGHT, 8, 0}, {WIDTH, HEIGHT, 16, 6}, {1, 1, 8, 0}, {100, 100, 8, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        unsigned char like[13] = {0, 0, 0, WIDTH, 0, 0, 0, HEIGHT, 8}, rgb[WIDTH * HEIGHT * 3];
        Bytes b = {0}, whole = {0};
        Err err = {0};
        begin(&whole, later[i].width, later[i].height, later[i].depth, later[i].colour, 0);
        bytes_add(&b, whole.data, 8);
        add_chunk(&b, "abCd", like, sizeof like);
        bytes_add(&b, whole.data + 8, whole.size - 8);
        add_pixels(&b, HEIGHT * (8 * WIDTH + 1));
        add_chunk(&b, "IEND", NULL, 0);
        assert_false(png_rgb_decode(rgb, WIDTH, HEIGHT, b.data, b.size, "some.png", &err));
        assert_int_equal(err.code, EX_DATAERR);
        expect_error(&b, "byte 12 of ");
        bytes_free(&whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_written_in_colour),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_other_images),
        cmocka_unit_test(test_other_chunks),
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_pixel_data),
        cmocka_unit_test(test_header_is_first),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
