#include "viz/canvas.h"

#include <string.h>

#include "core/mem.h"
#include "io/png.h"

enum { DOTS_WIDE = 5, DOTS_HIGH = 7 };

/* Rows from above; the lowest five bits, the leftmost dot first. */
typedef struct Letter {
    char c;
    unsigned char row[DOTS_HIGH];
} Letter;

static const Letter letters[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},
    {'2', {14, 17, 1, 2, 4, 8, 31}},     {'3', {31, 2, 4, 2, 1, 17, 14}},
    {'4', {2, 6, 10, 18, 31, 2, 2}},     {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},
    {'8', {14, 17, 17, 14, 17, 17, 14}}, {'9', {14, 17, 17, 15, 1, 2, 12}},
    {'A', {14, 17, 17, 17, 31, 17, 17}}, {'B', {30, 17, 17, 30, 17, 17, 30}},
    {'C', {14, 17, 16, 16, 16, 17, 14}}, {'D', {28, 18, 17, 17, 17, 18, 28}},
    {'E', {31, 16, 16, 30, 16, 16, 31}}, {'F', {31, 16, 16, 30, 16, 16, 16}},
    {'G', {14, 17, 16, 23, 17, 17, 15}}, {'H', {17, 17, 17, 31, 17, 17, 17}},
    {'I', {14, 4, 4, 4, 4, 4, 14}},      {'J', {7, 2, 2, 2, 2, 18, 12}},
    {'K', {17, 18, 20, 24, 20, 18, 17}}, {'L', {16, 16, 16, 16, 16, 16, 31}},
    {'M', {17, 27, 21, 21, 17, 17, 17}}, {'N', {17, 17, 25, 21, 19, 17, 17}},
    {'O', {14, 17, 17, 17, 17, 17, 14}}, {'P', {30, 17, 17, 30, 16, 16, 16}},
    {'Q', {14, 17, 17, 17, 21, 18, 13}}, {'R', {30, 17, 17, 30, 20, 18, 17}},
    {'S', {15, 16, 16, 14, 1, 1, 30}},   {'T', {31, 4, 4, 4, 4, 4, 4}},
    {'U', {17, 17, 17, 17, 17, 17, 14}}, {'V', {17, 17, 17, 17, 17, 10, 4}},
    {'W', {17, 17, 17, 21, 21, 21, 10}}, {'X', {17, 17, 10, 4, 10, 17, 17}},
    {'Y', {17, 17, 17, 10, 4, 4, 4}},    {'Z', {31, 1, 2, 4, 8, 16, 31}},
    {'.', {0, 0, 0, 0, 0, 12, 12}},      {',', {0, 0, 0, 0, 12, 4, 8}},
    {':', {0, 12, 12, 0, 12, 12, 0}},    {'-', {0, 0, 0, 31, 0, 0, 0}},
    {'+', {0, 4, 4, 31, 4, 4, 0}},       {'/', {0, 1, 2, 4, 8, 16, 0}},
    {'%', {24, 25, 2, 4, 8, 19, 3}},     {'(', {2, 4, 8, 8, 8, 4, 2}},
    {')', {8, 4, 2, 2, 2, 4, 8}},        {'_', {0, 0, 0, 0, 0, 0, 31}},
    {' ', {0, 0, 0, 0, 0, 0, 0}},        {'?', {14, 17, 1, 2, 4, 0, 4}},
};

static const Letter *find(char c) {
    const char capital = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    const Letter *last = letters + sizeof letters / sizeof *letters - 1;
    for (const Letter *l = letters; l < last; l++)
        if (l->c == capital) return l;
    return last;
}

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

int canvas_text(Canvas *c, int x, int y, int scale, Rgb colour, const char *text) {
    for (; *text; text++, x += CANVAS_LETTER * scale) {
        const Letter *l = find(*text);
        for (int j = 0; j < DOTS_HIGH; j++)
            for (int i = 0; i < DOTS_WIDE; i++)
                if (l->row[j] >> (DOTS_WIDE - 1 - i) & 1)
                    canvas_fill(c, x + i * scale, y + j * scale, scale, scale, colour);
    }
    return x;
}

bool canvas_write(const Canvas *c, const char *path, Err *err) {
    return png_rgb_write(path, c->rgb, c->width, c->height, err);
}
