#include "data/bytes.h"

#include <limits.h>
#include <stdio.h>

#include "core/mem.h"

int bytes_add(DatasetWriter *w, const void *text, size_t size) {
    REQUIRE(size > 0 && size <= INT_MAX, "a text of %zu bytes", size);
    const unsigned char *bytes = text;
    int *ids = mem_alloc(size, sizeof *ids);
    for (size_t i = 0; i < size; i++) ids[i] = bytes[i] + 1;
    int document = dataset_add_document(w, ids, (int)size);
    mem_free(ids);
    return document;
}

static bool continues(int byte) { return byte >= 0x80 && byte <= 0xbf; }

/* Bytes of the UTF-8 sequence that ids begin with, if it is one that may be printed; otherwise 0.
 * Left out are what is overlong, surrogates, what is beyond U+10FFFF, and U+0080 to U+009F, which
 * are controls. */
static int sequence(const int *ids, int n) {
    int lead = ids[0] - 1, low = 0x80, high = 0xbf, length;
    if (lead < 0x20 || lead == 0x7f) return 0;
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        length = 2;
    else if (lead >= 0xe0 && lead <= 0xef)
        length = 3;
    else if (lead >= 0xf0 && lead <= 0xf4)
        length = 4;
    else
        return 0;
    if (lead == 0xc2 || lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    if (n < length || ids[1] - 1 < low || ids[1] - 1 > high) return 0;
    for (int i = 2; i < length; i++)
        if (!continues(ids[i] - 1)) return 0;
    return length;
}

static void escape(char buf[BYTES_CHARACTER], int id) {
    switch (id - 1) {
    case -1: snprintf(buf, BYTES_CHARACTER, "<pad>"); break;
    case '\n': snprintf(buf, BYTES_CHARACTER, "\\n"); break;
    case '\r': snprintf(buf, BYTES_CHARACTER, "\\r"); break;
    case '\t': snprintf(buf, BYTES_CHARACTER, "\\t"); break;
    case '\\': snprintf(buf, BYTES_CHARACTER, "\\\\"); break;
    default: snprintf(buf, BYTES_CHARACTER, "\\x%02x", (unsigned)(id - 1) & 255); break;
    }
}

int bytes_character(char buf[BYTES_CHARACTER], const int *ids, int n) {
    const int length = ids[0] - 1 == '\\' ? 0 : sequence(ids, n);
    if (length == 0) {
        escape(buf, ids[0]);
        return 1;
    }
    for (int i = 0; i < length; i++) buf[i] = (char)(ids[i] - 1);
    buf[length] = '\0';
    return length;
}

void bytes_print(const int *ids, int n) {
    char buf[BYTES_CHARACTER];
    for (int i = 0; i < n;) {
        i += bytes_character(buf, ids + i, n - i);
        fputs(buf, stdout);
    }
    putchar('\n');
}
