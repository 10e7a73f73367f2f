#include "core/utf8.h"

int utf8_length(const char *s, size_t n) {
    /* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
    static const struct {
        unsigned char first, last, low, high;
        int length;
    } rows[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *u = (const unsigned char *)s;
    size_t r = 0, rows_end = sizeof rows / sizeof *rows;
    if (n == 0) return 0;
    while (r < rows_end && (u[0] < rows[r].first || u[0] > rows[r].last)) r++;
    if (r == rows_end || (size_t)rows[r].length > n) return 0;
    if (rows[r].length > 1 && (u[1] < rows[r].low || u[1] > rows[r].high)) return 0;
    for (int i = 2; i < rows[r].length; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    return rows[r].length;
}

bool utf8_is_control(const char *s) {
    const unsigned char lead = (unsigned char)s[0];
    return lead < 0x20 || lead == 0x7f || (lead == 0xc2 && (unsigned char)s[1] < 0xa0);
}
