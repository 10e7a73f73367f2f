#include "viz/palette.h"

#include <math.h>

static const unsigned char entries[PALETTE] = {
    214, 75,  36,  227, 25,  166, 175, 129, 125, 123, 150, 200, 105, 131, 45,  160,
    30,  127, 169, 209, 156, 92,  206, 212, 106, 218, 220, 94,  40,  115, 203, 185,
    126, 49,  164, 162, 197, 171, 27,  57,  133, 100, 124, 46,  119, 71,  158, 211,
    97,  74,  190, 177, 219, 77,  135, 128, 33,  174, 80,  143, 147, 28,  217, 42,
};

int palette_xterm(int cluster) { return entries[cluster % PALETTE]; }

Rgb palette_colour(int cluster) {
    static const unsigned char levels[6] = {0, 95, 135, 175, 215, 255};
    const int i = palette_xterm(cluster) - 16;
    return (Rgb){levels[i / 36], levels[i / 6 % 6], levels[i % 6]};
}

char palette_symbol(int cluster) {
    static const char symbols[PALETTE + 1] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/";
    return symbols[cluster % PALETTE];
}

/* sRGB to light. */
static double linear(int x) {
    const double v = x / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

/* WCAG 2: the contrast (L1 + 0.05) / (L2 + 0.05) with black and with white. */
bool palette_takes_black(Rgb c) {
    const double l = 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
    return (l + 0.05) / 0.05 >= 1.05 / (l + 0.05);
}

Rgb palette_mix(Rgb a, Rgb b, double x) {
    return (Rgb){(unsigned char)lround(a.r + (b.r - a.r) * x),
                 (unsigned char)lround(a.g + (b.g - a.g) * x),
                 (unsigned char)lround(a.b + (b.b - a.b) * x)};
}

Rgb palette_heat(double x) {
    static const Rgb anchors[] = {{68, 1, 84},    {71, 44, 122},  {59, 81, 139},
                                  {44, 113, 142}, {33, 144, 141}, {39, 173, 129},
                                  {92, 200, 99},  {170, 220, 50}, {253, 231, 37}};
    enum { LAST = sizeof anchors / sizeof *anchors - 1 };
    if (!(x > 0)) return anchors[0];
    if (x >= 1) return anchors[LAST];
    const int i = (int)(x * LAST);
    return palette_mix(anchors[i], anchors[i + 1], x * LAST - i);
}
