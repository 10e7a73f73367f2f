/* A tar archive is a row of 512-byte blocks: a header, the entry's bytes padded to whole blocks,
 * the next header; two blocks of zeros end it. Extensions are entries of their own before the one
 * they speak about: type 'L' holds its long name (GNU), type 'x' its name and size as "length
 * key=value" records (pax, POSIX.1-2001). */
#include "io/tar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "io/file.h"
#include "io/gz.h"

enum { BLOCK = 512, EXTENSION_MAX = 1 << 16, NAME = 100, PREFIX = 155 };

/* Offsets and widths of the header's fields that are read. */
enum {
    AT_SIZE = 124,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_MAGIC = 257,
    AT_PREFIX = 345,
    SIZE_DIGITS = 12,
    SUM_DIGITS = 8
};

struct Tar {
    Gz *gz;
    char *path;
    TarLimits limits;
    int entries;
    uint64_t at;        /* bytes of the unpacked archive that were read */
    uint64_t header_at; /* where the current header stands: what messages name */
    uint64_t left;      /* of the current entry's bytes */
    uint64_t pad;       /* of the zeros that fill its last block */
    char short_name[PREFIX + 1 + NAME + 1];
    char title[FILE_PATH_MAX + 256];
    char *long_name; /* set by an extension for the next entry; NULL if there was none */
    bool sized;      /* an extension has set `size` */
    uint64_t size;
};

static bool fail(const Tar *t, Err *err, const char *what) {
    return err_set(err, EX_DATAERR, "%s: entry %d (byte %" PRIu64 " of the unpacked archive): %s",
                   t->path, t->entries, t->header_at, what);
}

Tar *tar_open(const char *path, TarLimits limits, Err *err) {
    Gz *gz = gz_open(path, limits.bytes, err);
    if (!gz) return NULL;
    Tar *t = mem_alloc(1, sizeof *t);
    t->gz = gz;
    t->path = mem_strdup(path);
    t->limits = limits;
    return t;
}

void tar_close(Tar *t) {
    if (!t) return;
    gz_close(t->gz);
    mem_free(t->long_name);
    mem_free(t->path);
    mem_free(t);
}

static bool read_bytes(Tar *t, void *out, size_t want, Err *err) {
    size_t got;
    if (!gz_read(t->gz, out, want, &got, err)) return false;
    t->at += got;
    if (got == want) return true;
    if (t->at < BLOCK) return err_set(err, EX_DATAERR, "%s: not a tar archive", t->path);
    return err_set(err, EX_DATAERR,
                   "%s: breaks off at byte %" PRIu64 ", in or after entry %d: fetch the file again",
                   t->path, t->at, t->entries);
}

static bool skip(Tar *t, uint64_t n, Err *err) {
    char sink[1 << 14];
    while (n > 0) {
        size_t step = n < sizeof sink ? (size_t)n : sizeof sink;
        if (!read_bytes(t, sink, step, err)) return false;
        n -= step;
    }
    return true;
}

static bool all_zero(const unsigned char *block) {
    for (int i = 0; i < BLOCK; i++)
        if (block[i]) return false;
    return true;
}

/* Digits up to a blank, a NUL or the field's end, after leading blanks. */
static bool parse_octal(const unsigned char *field, int width, uint64_t *out) {
    int i = 0, first;
    uint64_t v = 0;
    while (i < width && field[i] == ' ') i++;
    for (first = i; i < width && field[i] >= '0' && field[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(field[i] - '0');
    *out = v;
    return i > first && (i == width || field[i] == ' ' || field[i] == 0);
}

/* Big-endian, two's complement, marked by the highest bit: GNU's form for 8 GiB and more. */
static bool parse_base256(const unsigned char *field, int width, uint64_t *out) {
    uint64_t v = field[0] & 0x3f;
    if (field[0] & 0x40) return false;
    for (int i = 1; i < width; i++) {
        if (v >> 55) return false;
        v = v << 8 | field[i];
    }
    *out = v;
    return true;
}

static bool is_extension(const unsigned char *header) {
    return header[AT_TYPE] == 'L' || header[AT_TYPE] == 'x';
}

static bool parse_size(Tar *t, const unsigned char *header, uint64_t *size, Err *err) {
    const unsigned char *field = header + AT_SIZE;
    bool ok = field[0] & 0x80 ? parse_base256(field, SIZE_DIGITS, size)
                              : parse_octal(field, SIZE_DIGITS, size);
    if (!ok) return fail(t, err, "its size is negative, too large or no number");
    if (t->sized && !is_extension(header)) *size = t->size;
    if (*size > t->limits.bytes)
        return fail(t, err, "it claims to be larger than the whole archive may be");
    return true;
}

/* The sum of the header's bytes, its own field counted as blanks; some old writers summed signed
 * bytes. */
static bool check_sum(Tar *t, const unsigned char *header, Err *err) {
    uint64_t stored, sum = 0;
    int64_t sum_signed = 0;
    for (int i = 0; i < BLOCK; i++) {
        unsigned char c = i >= AT_SUM && i < AT_SUM + SUM_DIGITS ? ' ' : header[i];
        sum += c;
        sum_signed += (signed char)c;
    }
    if (parse_octal(header + AT_SUM, SUM_DIGITS, &stored) &&
        (stored == sum || (int64_t)stored == sum_signed))
        return true;
    return fail(t, err,
                t->entries == 1 ? "not a tar archive, or a damaged one (header checksum)"
                                : "damaged archive (header checksum): fetch the file again");
}

static void set_short_name(Tar *t, const unsigned char *header) {
    char *out = t->short_name;
    /* Only POSIX's magic has a prefix; GNU's "ustar  " keeps other things there. */
    if (memcmp(header + AT_MAGIC, "ustar\0", 6) == 0 && header[AT_PREFIX]) {
        size_t n = strnlen((const char *)header + AT_PREFIX, PREFIX);
        memcpy(out, header + AT_PREFIX, n);
        out[n] = '/';
        out += n + 1;
    }
    size_t n = strnlen((const char *)header, NAME);
    memcpy(out, header, n);
    out[n] = 0;
}

static void set_long_name(Tar *t, const char *name) {
    mem_free(t->long_name);
    t->long_name = name ? mem_strdup(name) : NULL;
}

/* One record's key and value; value is NUL-terminated in place of the record's newline. */
static bool pax_record(Tar *t, const char *key, char *value, Err *err) {
    if (strcmp(key, "path") == 0) {
        set_long_name(t, value);
    } else if (strcmp(key, "size") == 0) {
        size_t n = strspn(value, "0123456789");
        if (n == 0 || n > 18 || value[n])
            return fail(t, err, "pax: its size is negative, too large or no number");
        t->size = strtoull(value, NULL, 10);
        t->sized = true;
    } else if (strncmp(key, "GNU.sparse.", 11) == 0) {
        return fail(t, err, "sparse files are not read");
    }
    return true;
}

static bool parse_pax(Tar *t, char *text, size_t size, Err *err) {
    for (size_t at = 0; at < size;) {
        size_t digits = at, length = 0;
        while (digits < size && digits - at < 6 && text[digits] >= '0' && text[digits] <= '9')
            length = length * 10 + (size_t)(text[digits++] - '0');
        bool framed = digits > at && digits < size && text[digits] == ' ' && length <= size - at &&
                      length > digits - at + 1 && text[at + length - 1] == '\n';
        char *key = framed ? text + digits + 1 : text,
             *end = framed ? text + at + length - 1 : text;
        char *equals = framed ? memchr(key, '=', (size_t)(end - key)) : NULL;
        if (!equals) return fail(t, err, "malformed pax header");
        *equals = *end = 0;
        if (!pax_record(t, key, equals + 1, err)) return false;
        at += length;
    }
    return true;
}

/* The content of an 'L' or 'x' entry. */
static bool read_extension(Tar *t, char type, uint64_t size, Err *err) {
    if (size > EXTENSION_MAX) return fail(t, err, "a name or pax header of more than 64 KiB");
    char *text = mem_alloc((size_t)size + 1, 1);
    bool ok = read_bytes(t, text, (size_t)size, err);
    t->left = 0;
    if (ok && type == 'x') ok = parse_pax(t, text, (size_t)size, err);
    if (ok && type == 'L') set_long_name(t, text);
    mem_free(text);
    return ok;
}

/* Behind the end marker there may be padding, of the archive or of a tape: read, so that gzip's sum
 * is compared. */
static bool finish(Tar *t, TarEntry *entry, Err *err) {
    char sink[1 << 14];
    size_t got;
    do {
        if (!gz_read(t->gz, sink, sizeof sink, &got, err)) return false;
    } while (got > 0);
    *entry = (TarEntry){0};
    return true;
}

static bool read_header(Tar *t, unsigned char *header, uint64_t *size, Err *err) {
    if (!skip(t, t->left + t->pad, err)) return false;
    t->left = t->pad = 0;
    t->header_at = t->at;
    if (!read_bytes(t, header, BLOCK, err)) return false;
    if (all_zero(header)) return true;
    if (++t->entries > t->limits.entries)
        return fail(t, err, "more entries than such an archive may have");
    if (!check_sum(t, header, err) || !parse_size(t, header, size, err)) return false;
    char type = (char)header[AT_TYPE];
    /* Links, devices and directories have no bytes, whatever their size says. */
    t->left = type >= '1' && type <= '6' ? 0 : *size;
    t->pad = (BLOCK - t->left % BLOCK) % BLOCK;
    return true;
}

bool tar_next(Tar *t, TarEntry *entry, Err *err) {
    for (;;) {
        unsigned char header[BLOCK];
        uint64_t size = 0;
        set_long_name(t, NULL);
        t->sized = false;
        if (!read_header(t, header, &size, err)) return false;
        while (is_extension(header)) {
            if (!read_extension(t, (char)header[AT_TYPE], size, err)) return false;
            if (!read_header(t, header, &size, err)) return false;
        }
        if (all_zero(header)) return finish(t, entry, err);
        char type = (char)header[AT_TYPE];
        if (type == 'S') return fail(t, err, "sparse files are not read");
        if (type != '0' && type != 0 && type != '7') continue;
        set_short_name(t, header);
        entry->name = t->long_name ? t->long_name : t->short_name;
        snprintf(t->title, sizeof t->title, "%s: %.250s", t->path, entry->name);
        entry->title = t->title;
        entry->size = size;
        size_t n = strlen(entry->name);
        /* Before POSIX a directory was a file whose name ends in a slash. */
        if (n > 0 && entry->name[n - 1] != '/') return true;
    }
}

bool tar_read(Tar *t, void *out, size_t want, size_t *got, Err *err) {
    *got = want < t->left ? want : (size_t)t->left;
    if (!read_bytes(t, out, *got, err)) return false;
    t->left -= *got;
    return true;
}

unsigned char *tar_bytes(Tar *t, const TarEntry *entry, uint64_t most, Err *err) {
    size_t got;
    if (!file_fits(entry->title, entry->size, most, err)) return NULL;
    unsigned char *bytes = mem_alloc((size_t)entry->size, 1);
    if (tar_read(t, bytes, (size_t)entry->size, &got, err)) return bytes;
    mem_free(bytes);
    return NULL;
}

bool tar_each(const char *path, TarLimits limits, TarVisit *visit, void *ctx, Err *err) {
    Tar *t = tar_open(path, limits, err);
    TarEntry entry;
    bool ok = t != NULL;
    while (ok && (ok = tar_next(t, &entry, err)) && entry.name) ok = visit(ctx, t, &entry, err);
    tar_close(t);
    return ok;
}
