#include "io/png.h"

#include <errno.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "io/file.h"

enum { CHUNK_CACHE = 4, HEADER = 33 };

/* What libpng hands back to our functions. */
typedef struct Source {
    const unsigned char *bytes;
    size_t size, at;
    const char *name;
    Err *err;
} Source;

static void on_error(png_structp png, png_const_charp text) {
    Source *s = png_get_error_ptr(png);
    err_set(s->err, EX_DATAERR, "%s: no whole PNG image: byte %zu of %zu: %s", s->name, s->at,
            s->size, text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {}

static void read_bytes(png_structp png, png_bytep to, size_t want) {
    Source *s = png_get_io_ptr(png);
    if (want > s->size - s->at) png_error(png, "the data break off");
    memcpy(to, s->bytes + s->at, want);
    s->at += want;
}

static bool is_png(const Source *s) { return s->size >= HEADER && !png_sig_cmp(s->bytes, 0, 8); }

/* libpng skips an unknown chunk before the header, which may then be of an image larger than there
 * is room for. */
static bool begins_with_header(const Source *s) {
    return !memcmp(s->bytes + 12, "IHDR", 4) ||
           err_set(s->err, EX_DATAERR,
                   "%s: no whole PNG image: byte 12 of %zu: \"IHDR\" was expected", s->name,
                   s->size);
}

/* The header is looked at before libpng does, because it would only say that it is not valid. Where
 * this is no picture, libpng says what it is. */
static bool check_header(const Source *s, int width, int height) {
    const unsigned char *p = s->bytes;
    if (!is_png(s)) return true;
    if (!begins_with_header(s)) return false;
    uint32_t w = png_get_uint_32(p + 16), h = png_get_uint_32(p + 20);
    int depth = p[24], colour = p[25], interlace = p[28];
    if (w == (uint32_t)width && h == (uint32_t)height && depth == 8 &&
        colour == PNG_COLOR_TYPE_GRAY && interlace == PNG_INTERLACE_NONE)
        return true;
    return err_set(s->err, EX_DATAERR,
                   "%s: %lu x %lu pixels of %d bits, colour type %d%s; expected %d x %d of 8 bits, "
                   "grey (type 0), not interlaced",
                   s->name, (unsigned long)w, (unsigned long)h, depth, colour,
                   interlace ? ", interlaced" : "", width, height);
}

static void set_limits(png_structp png, int width, int height) {
    png_set_user_limits(png, (png_uint_32)width, (png_uint_32)height);
    png_set_chunk_cache_max(png, CHUNK_CACHE);
    png_set_chunk_malloc_max(png, 0); /* would refuse long ones, of which nothing is kept */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_benign_errors(png, 0);
}

typedef void ReadPixels(png_structp png, png_infop info, unsigned char *to, int width, int height);

static void read_grey(png_structp png, png_infop info, unsigned char *grey, int width, int height) {
    set_limits(png, width, height);
    png_read_info(png, info);
    for (int y = 0; y < height; y++) png_read_row(png, grey + (size_t)y * (size_t)width, NULL);
    png_read_end(png, NULL);
}

static bool decode(Source *s, ReadPixels *read, unsigned char *to, int width, int height) {
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, s, on_error, on_warning);
    REQUIRE(png, "libpng is of another version");
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_read_struct(&png, &info, NULL);
        return false;
    }
    png_set_read_fn(png, s, read_bytes);
    read(png, info, to, width, height);
    png_destroy_read_struct(&png, &info, NULL);
    return true;
}

bool png_grey_decode(unsigned char *grey, int width, int height, const void *bytes, size_t size,
                     const char *name, Err *err) {
    Source s = {.bytes = bytes, .size = size, .name = name, .err = err};
    return check_header(&s, width, height) && decode(&s, read_grey, grey, width, height);
}

/* Everything as 8 bits of red, green and blue, values as they are: no gamma is applied. */
static void read_colours(png_structp png, png_infop info, unsigned char *rgb, int width,
                         int height) {
    const png_color_16 black = {0};
    set_limits(png, width, height);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
    png_set_background(png, &black, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_read_row(png, rgb + 3 * (size_t)y * (size_t)width, NULL);
    png_read_end(png, NULL);
}

static bool check_size(const Source *s, int width, int height) {
    const unsigned char *p = s->bytes;
    if (!is_png(s)) return err_set(s->err, EX_DATAERR, "%s: no PNG image", s->name);
    if (!begins_with_header(s)) return false;
    const uint32_t w = png_get_uint_32(p + 16), h = png_get_uint_32(p + 20);
    return (w == (uint32_t)width && h == (uint32_t)height) ||
           err_set(s->err, EX_DATAERR, "%s: %lu x %lu pixels, expected %d x %d: scale it first",
                   s->name, (unsigned long)w, (unsigned long)h, width, height);
}

bool png_rgb_decode(unsigned char *rgb, int width, int height, const void *bytes, size_t size,
                    const char *name, Err *err) {
    Source s = {.bytes = bytes, .size = size, .name = name, .err = err};
    return check_size(&s, width, height) && decode(&s, read_colours, rgb, width, height);
}

bool png_is_whole(const void *bytes, size_t size) {
    enum { SIGNATURE = 8, AROUND = 12 }; /* length, type and checksum of a chunk */
    const unsigned char *p = bytes, *end = p + size;
    if (size < SIGNATURE || png_sig_cmp(p, 0, SIGNATURE) != 0) return false;
    for (p += SIGNATURE; end - p >= AROUND;) {
        const size_t n = png_get_uint_32(p);
        if (n > (size_t)(end - p) - AROUND) return false;
        if (crc32_z(0, p + 4, n + 4) != png_get_uint_32(p + 8 + n)) return false;
        if (memcmp(p + 4, "IEND", 4) == 0) return true;
        p += AROUND + n;
    }
    return false;
}

/* Returns 0, or why it failed: an errno, or -1 with libpng's words in image->message. */
static int put_image(png_image *image, FILE *f, const unsigned char *pixels, int width, int height,
                     png_uint_32 format) {
    *image = (png_image){.version = PNG_IMAGE_VERSION,
                         .width = (png_uint_32)width,
                         .height = (png_uint_32)height,
                         .format = format};
    errno = 0;
    if (png_image_write_to_stdio(image, f, 0, pixels, 0, NULL)) return 0;
    return errno ? errno : -1;
}

static bool reads_back(const char *path, Err *err) {
    FileMap m;
    if (!file_map(&m, path, err)) return false;
    const bool ok = png_is_whole(m.data, m.size);
    file_unmap(&m);
    return ok || err_set(err, EX_DATAERR, "%s: is no whole PNG image", path);
}

static bool write_file(const char *path, const unsigned char *pixels, int width, int height,
                       png_uint_32 format, bool unsynced, Err *err) {
    png_image image;
    AtomicFile a;
    if (!atomic_open(&a, path, KIND_PNG, err)) return false;
    a.unsynced = unsynced;
    a.check = reads_back;
    const int why = put_image(&image, a.f, pixels, width, height, format);
    if (!why) return atomic_commit(&a, err);
    atomic_abandon(&a);
    return err_set(err, err_status(why, EX_IOERR), "%s: cannot be written: %s", path,
                   why > 0 ? err_words(why) : image.message);
}

bool png_grey_write(const char *path, const unsigned char *grey, int width, int height, Err *err) {
    return write_file(path, grey, width, height, PNG_FORMAT_GRAY, true, err);
}

bool png_rgb_write(const char *path, const unsigned char *rgb, int width, int height, Err *err) {
    return write_file(path, rgb, width, height, PNG_FORMAT_RGB, false, err);
}
