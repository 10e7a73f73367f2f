#include "io/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "io/read.h"

enum { HEAD = 4096, STARTS = 2, MOST_HEADER = 100000000 };

/* The first bytes, with a NUL behind; of safetensors all of their header, and no more. */
typedef struct Head {
    char *bytes;
    size_t size;
    bool safetensors;
} Head;

/* Text begins with one of `start`, whatever the case, or, of safetensors, is their header. It has
 * `has`, where that is not NULL, and none of `lacks`. */
typedef struct Kind {
    const char *name, *start[STARTS];
    bool safetensors;
    const char *has, *lacks[STARTS];
} Kind;

#define METRICS "{\"kind\": \""

static const Kind kinds[] = {
    [KIND_JSON] = {"JSON object", {"{"}, .lacks = {METRICS}},
    [KIND_METRICS] = {"file of metrics", {METRICS}},
    [KIND_CHECKPOINT] = {"checkpoint", .safetensors = true, .has = "\"cast-checkpoint-"},
    [KIND_WEIGHTS] = {"file of exported weights", .safetensors = true, .has = "\"cast-weights-"},
    [KIND_DATASET] = {"dataset", .safetensors = true, .has = "\"offsets\"",
                      .lacks = {"\"cast-checkpoint-"}},
    [KIND_TENSORS] = {"file of tensors alone", .safetensors = true,
                      .lacks = {"\"cast-", "\"offsets\""}},
    [KIND_CARD] = {"card that cast_export wrote", {"---\nlibrary_name: cast\n"}},
    [KIND_READER] = {"reader that cast_export wrote",
                     {"#!/usr/bin/env python3\n\"\"\"Reads what cast_export wrote"}},
    [KIND_HTML] = {"HTML page", {"<!doctype html", "<html"}},
    [KIND_SVG] = {"SVG picture", {"<?xml", "<svg"}, .has = "<svg"},
    [KIND_PNG] = {"PNG picture", {"\x89PNG\r\n\x1a\n"}},
    [KIND_PDF] = {"PDF document", {"%PDF-"}},
    [KIND_GNUPLOT] = {"script of gnuplot's that cast_report wrote",
                      {"set encoding utf8\nset term"}},
    [KIND_SCRIPT] = {"script that cast_sweep wrote", {"#!/bin/bash\n# Written by cast_sweep"}},
    [KIND_PREDICTIONS] = {"table of predictions", {"index,label,predicted"}},
    [KIND_CHECKED] = {"note of a check", {"cast-checked-"}},
    [KIND_LISTOPS] = {"table of ListOps", {"Source\tTarget"}},
    [KIND_PATHFINDER] = {"list of Pathfinder's pictures", {"imgs/"}},
};

static bool starts(const char *text, const char *const start[STARTS]) {
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3;
    text += strspn(text, " \t\r\n");
    for (int i = 0; i < STARTS && start[i]; i++)
        if (!strncasecmp(text, start[i], strlen(start[i]))) return true;
    return false;
}

static bool is_kind(const Head *h, const Kind *k) {
    const char *text = k->safetensors ? h->bytes + sizeof(uint64_t) : h->bytes;
    if (k->safetensors ? !h->safetensors : !starts(text, k->start)) return false;
    for (int i = 0; i < STARTS && k->lacks[i]; i++)
        if (strstr(text, k->lacks[i])) return false;
    return !k->has || strstr(text, k->has);
}

/* Reads the first `size` bytes, or as many as there are. */
static bool read_bytes(Head *h, int fd, size_t size) {
    h->bytes = mem_grow(h->bytes, size + 1, 1);
    const ssize_t n = read_at(fd, h->bytes, size, 0);
    h->size = n > 0 ? (size_t)n : 0;
    h->bytes[h->size] = '\0';
    return n >= 0;
}

/* The size of a header of safetensors with its length before it; 0: it is none. */
static size_t header_size(const Head *h) {
    uint64_t length;
    if (h->size <= sizeof length) return 0;
    memcpy(&length, h->bytes, sizeof length);
    return length <= MOST_HEADER && h->bytes[sizeof length] == '{' ? sizeof length + length : 0;
}

static bool read_head(Head *h, int fd) {
    if (!read_bytes(h, fd, HEAD)) return false;
    const size_t size = header_size(h);
    h->safetensors = size > 0;
    return !size || read_bytes(h, fd, size);
}

/* False and errno. h->bytes are to be freed, whatever comes of it. */
static bool open_head(Head *h, const char *path) {
    *h = (Head){0};
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const bool ok = fd >= 0 && read_head(h, fd);
    const int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return ok;
}

bool kind_may_replace(const char *path, FileKind kind, Err *err) {
    struct stat st;
    Head h;
    if (kind == KIND_ANY) return true;
    if (stat(path, &st) == 0 ? S_ISREG(st.st_mode) && st.st_size == 0 : err_absent(errno))
        return true;
    const bool ok = open_head(&h, path), same = ok && is_kind(&h, &kinds[kind]);
    const int why = errno;
    mem_free(h.bytes);
    if (!ok)
        return err_set(err, EX_CANTCREAT, "%s: is there, and what it is cannot be read: %s", path,
                       strerror(why));
    return same ||
           err_set(err, EX_CANTCREAT,
                   "%s: is there and is no %s, so no output takes its place: give another name, or "
                   "remove it",
                   path, kinds[kind].name);
}

bool kind_is(const char *path, FileKind kind) {
    Head h;
    const bool is = open_head(&h, path) && is_kind(&h, &kinds[kind]);
    mem_free(h.bytes);
    return is;
}
