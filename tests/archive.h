/* Builds tar archives and gzip data in memory, right ones and wrong ones, for the tests of their
 * readers. */
#ifndef TESTS_ARCHIVE_H
#define TESTS_ARCHIVE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct Bytes {
    unsigned char *data;
    size_t size, room;
} Bytes;

static inline unsigned char *bytes_add(Bytes *b, const void *data, size_t size) {
    if (b->room <= b->size + size) {
        b->room = 2 * (b->size + size) + 1; /* sanitizers copy all of it every time */
        b->data = realloc(b->data, b->room);
        if (!b->data) abort();
    }
    unsigned char *to = b->data + b->size;
    if (data)
        memcpy(to, data, size);
    else
        memset(to, 0, size);
    b->size += size;
    return to;
}

static inline void bytes_free(Bytes *b) {
    free(b->data);
    *b = (Bytes){0};
}

/* Writes the sum of a header's bytes into it. */
static inline void tar_seal(unsigned char *header) {
    char text[16];
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += header[i];
    snprintf(text, sizeof text, "%06o", sum & 0777777);
    memcpy(header + 148, text, 7);
}

/* Of all blocks from an offset on that look like headers: a fuzzer hardly ever hits the sums. */
static inline void tar_seal_all(Bytes *b, size_t from) {
    for (size_t at = from; b->size - at >= 512; at += 512)
        if (memcmp(b->data + at + 257, "ustar", 5) == 0) tar_seal(b->data + at);
}

/* Appends a ustar header that says `size`; returns its offset. */
static inline size_t tar_header(Bytes *b, const char *name, char type, size_t size) {
    char text[32];
    size_t at = b->size;
    unsigned char *h = bytes_add(b, NULL, 512);
    snprintf((char *)h, 100, "%s", name);
    memcpy(h + 100, "0000644", 8);
    snprintf(text, sizeof text, "%011llo", (unsigned long long)size);
    memcpy(h + 124, text, 12);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    tar_seal(h);
    return at;
}

static inline void tar_pad(Bytes *b) {
    if (b->size % 512) bytes_add(b, NULL, 512 - b->size % 512);
}

static inline size_t tar_add(Bytes *b, const char *name, char type, const void *data, size_t size) {
    size_t at = tar_header(b, name, type, size);
    bytes_add(b, data, size);
    tar_pad(b);
    return at;
}

static inline void tar_end(Bytes *b) { bytes_add(b, NULL, 1024); }

/* Appends one gzip member. */
static inline void gzip_add(Bytes *out, const void *data, size_t size) {
    z_stream z = {0};
    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    size_t bound = deflateBound(&z, size) + 64;
    Bytes in = {0};
    bytes_add(&in, data, size); /* zlib's input is not const */
    unsigned char *to = bytes_add(out, NULL, bound);
    z.next_in = in.data;
    z.avail_in = (uInt)size;
    z.next_out = to;
    z.avail_out = (uInt)bound;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    out->size -= z.avail_out;
    deflateEnd(&z);
    bytes_free(&in);
}

#endif
