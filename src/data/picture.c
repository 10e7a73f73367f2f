#include "data/picture.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/mem.h"

enum { USUAL_COLUMNS = 80 };

typedef enum Ink { INK_ASCII, INK_256, INK_24BIT } Ink;

static Ink choose_ink(void) {
    const char *depth = getenv("COLORTERM");
    if (!log_takes_colour(STDOUT_FILENO)) return INK_ASCII;
    return depth && (strcmp(depth, "truecolor") == 0 || strcmp(depth, "24bit") == 0) ? INK_24BIT
                                                                                     : INK_256;
}

static void print_ascii(const int *grey, int width, int height) {
    static const char ramp[] = " .:-=+*#%@";
    const int steps = (int)sizeof ramp - 1;
    for (int y = 0; y < height; y++) {
        /* Twice, because a character is about twice as high as it is wide. */
        for (int x = 0; x < width; x++) {
            char c = ramp[grey[y * width + x] * steps / 256];
            printf("%c%c", c, c);
        }
        putchar('\n');
    }
}

/* Sets the colour of the ink (38) or of the ground (48). */
static void set_grey(Ink ink, int what, int grey) {
    if (ink == INK_24BIT) printf("\033[%d;2;%d;%d;%dm", what, grey, grey, grey);
    /* xterm's palette has 24 greys, from 232 up. */
    else
        printf("\033[%d;5;%dm", what, 232 + grey * 24 / 256);
}

static void print_blocks(Ink ink, const int *grey, int width, int height) {
    for (int y = 0; y < height; y += 2) {
        for (int x = 0; x < width; x++) {
            set_grey(ink, 38, grey[y * width + x]);
            set_grey(ink, 48, y + 1 < height ? grey[(y + 1) * width + x] : 0);
            fputs("\xe2\x96\x80", stdout); /* U+2580, the upper half of a cell */
        }
        fputs("\033[0m\n", stdout);
    }
}

int picture_side(int pixels) {
    int64_t side = 1;
    while (side * side < pixels) side++;
    return (int)side;
}

/* The mean of the pixels of a square of side `by`, of which the picture may cut off a part. */
static int mean(const int *grey, int width, int height, int y0, int x0, int by) {
    int64_t sum = 0, n = 0;
    for (int y = y0; y < y0 + by && y < height; y++)
        for (int x = x0; x < x0 + by && x < width; x++, n++) sum += grey[y * width + x];
    return (int)(sum / n);
}

void picture_print(const int *grey, int width, int height) {
    const Ink ink = choose_ink();
    const int columns = log_columns(USUAL_COLUMNS), room = ink == INK_ASCII ? columns / 2 : columns,
              by = (width - 1) / room + 1;
    const int w = (width - 1) / by + 1, h = (height - 1) / by + 1;
    int *small = mem_alloc((size_t)w * (size_t)h, sizeof *small);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            small[y * w + x] = mean(grey, width, height, y * by, x * by, by);
    if (ink == INK_ASCII)
        print_ascii(small, w, h);
    else
        print_blocks(ink, small, w, h);
    mem_free(small);
}
