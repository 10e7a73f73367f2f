#include "io/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/read.h"

enum { HEAD = 4096, STARTS = 2, MOST_HEADER = 100000000 };

typedef struct Head {
    char bytes[HEAD + 1]; /* with a NUL behind */
    size_t size;
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

/* Their header, behind its length; NULL: it is none. */
static const char *header_of(const Head *h) {
    uint64_t length;
    if (h->size <= sizeof length) return NULL;
    memcpy(&length, h->bytes, sizeof length);
    const char *header = h->bytes + sizeof length;
    return length <= MOST_HEADER && *header == '{' ? header : NULL;
}

static bool is_kind(const Head *h, const Kind *k) {
    const char *text = k->safetensors ? header_of(h) : h->bytes;
    if (!text || (!k->safetensors && !starts(text, k->start))) return false;
    for (int i = 0; i < STARTS && k->lacks[i]; i++)
        if (strstr(text, k->lacks[i])) return false;
    return !k->has || strstr(text, k->has);
}

/* False and errno. */
static bool read_head(Head *h, const char *path) {
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read_at(fd, h->bytes, HEAD, 0);
    const int why = errno;
    if (fd >= 0) close(fd);
    h->size = n > 0 ? (size_t)n : 0;
    h->bytes[h->size] = '\0';
    errno = why;
    return n >= 0;
}

bool kind_may_replace(const char *path, FileKind kind, Err *err) {
    struct stat st;
    Head h;
    if (kind == KIND_ANY) return true;
    if (stat(path, &st) == 0 ? S_ISREG(st.st_mode) && st.st_size == 0 : err_absent(errno))
        return true;
    if (!read_head(&h, path))
        return err_set(err, EX_CANTCREAT, "%s: is there, and what it is cannot be read: %s", path,
                       strerror(errno));
    return is_kind(&h, &kinds[kind]) ||
           err_set(err, EX_CANTCREAT,
                   "%s: is there and is no %s, so no output takes its place: give another name, or "
                   "remove it",
                   path, kinds[kind].name);
}

bool kind_is(const char *path, FileKind kind) {
    Head h;
    return read_head(&h, path) && is_kind(&h, &kinds[kind]);
}
