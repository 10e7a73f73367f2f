#include "viz/canvas.h"

#include <string.h>

#include "core/mem.h"
#include "io/png.h"

Canvas canvas_open(int width, int height, Rgb ground) {
    REQUIRE(width > 0 && width <= CANVAS_MOST && height > 0 && height <= CANVAS_MOST,
            "a canvas of %d x %d", width, height);
    Canvas c = {width, height, mem_alloc((size_t)width * (size_t)height, 3)};
    canvas_fill(&c, 0, 0, width, height, ground);
    return c;
}

void canvas_close(Canvas *c) {
    mem_free(c->rgb);
    *c = (Canvas){0};
}

void canvas_fill(Canvas *c, int x, int y, int width, int height, Rgb colour) {
    const int right = x + width < c->width ? x + width : c->width;
    const int below = y + height < c->height ? y + height : c->height;
    for (int j = y > 0 ? y : 0; j < below; j++)
        for (int i = x > 0 ? x : 0; i < right; i++)
            memcpy(c->rgb + 3 * ((size_t)j * (size_t)c->width + (size_t)i), &colour, 3);
}

/* A byte that goes on with a character of UTF-8 is none of its own. */
static bool is_letter(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

static const TypeGlyph *glyph_of(TypeSize size, char c) {
    if (c < TYPE_FIRST || c > TYPE_LAST) c = '?';
    return &typefaces[size][c - TYPE_FIRST];
}

static void draw(Canvas *c, int x, int y, Rgb colour, const TypeGlyph *g) {
    const char *digit = g->pixels;
    for (int i = 0; i < g->width * g->height; i++, digit++) {
        const int at_x = x + g->left + i % g->width, at_y = y + g->top + i / g->width;
        if (at_x < 0 || at_x >= c->width || at_y < 0 || at_y >= c->height) continue;
        unsigned char *rgb = c->rgb + 3 * ((size_t)at_y * (size_t)c->width + (size_t)at_x);
        const int cover = *digit <= '9' ? *digit - '0' : *digit - 'a' + 10;
        const Rgb mixed = palette_mix((Rgb){rgb[0], rgb[1], rgb[2]}, colour, cover / 15.0);
        memcpy(rgb, &mixed, 3);
    }
}

int canvas_text(Canvas *c, int x, int y, TypeSize size, Rgb colour, const char *text) {
    for (; *text; text++) {
        if (!is_letter(*text)) continue;
        const TypeGlyph *g = glyph_of(size, *text);
        draw(c, x, y, colour, g);
        x += g->advance;
    }
    return x;
}

int canvas_text_width(TypeSize size, const char *text) {
    int width = 0;
    for (; *text; text++) width += is_letter(*text) ? glyph_of(size, *text)->advance : 0;
    return width;
}

bool canvas_write(const Canvas *c, const char *path, Err *err) {
    return png_rgb_write(path, c->rgb, c->width, c->height, err);
}
