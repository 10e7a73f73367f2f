#include "io/gz.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/mem.h"
#include "io/file.h"

enum { BUFFER = 1 << 16, WINDOW_GZIP = 15 + 16 };

/* Output that is always allowed: the ratio is of interest only for what would hurt. */
static const uint64_t RATIO_FREE = 1 << 20;

struct Gz {
    char *path;
    int fd;
    bool zipped;  /* the file began with gzip's magic bytes */
    bool at_end;  /* the last member is complete */
    uint64_t in;  /* bytes read from the file */
    uint64_t out; /* bytes handed to the caller */
    uint64_t cap;
    z_stream z; /* its next_in, avail_in hold what of `buffer` is unread, for plain files too */
    unsigned char buffer[BUFFER];
};

static bool refill(Gz *g, Err *err) {
    if (g->z.avail_in > 0) return true;
    ssize_t n;
    do {
        n = read(g->fd, g->buffer, BUFFER);
    } while (n < 0 && errno == EINTR);
    if (n < 0) return file_fails(g->path, "read", EX_NOINPUT, err);
    g->z.next_in = g->buffer;
    g->z.avail_in = (uInt)n;
    g->in += (uint64_t)n;
    return true;
}

static uint64_t consumed(const Gz *g) { return g->in - g->z.avail_in; }

static int open_regular(const char *path, Err *err) {
    struct stat st;
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) file_fails(path, "open", EX_NOINPUT, err);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))) return fd;
    close(fd);
    err_set(err, EX_NOINPUT, "%s: not a regular file", path);
    return -1;
}

Gz *gz_open(const char *path, uint64_t cap, Err *err) {
    int fd = open_regular(path, err);
    if (fd < 0) return NULL;
    Gz *g = mem_alloc(1, sizeof *g);
    g->path = mem_strdup(path);
    g->fd = fd;
    g->cap = cap;
    if (!refill(g, err)) {
        gz_close(g);
        return NULL;
    }
    g->zipped = g->z.avail_in >= 2 && g->buffer[0] == 0x1f && g->buffer[1] == 0x8b;
    REQUIRE(!g->zipped || inflateInit2(&g->z, WINDOW_GZIP) == Z_OK, "zlib is of another version");
    return g;
}

void gz_close(Gz *g) {
    if (!g) return;
    if (g->zipped) inflateEnd(&g->z);
    close(g->fd);
    mem_free(g->path);
    mem_free(g);
}

static bool read_plain(Gz *g, unsigned char *out, size_t want, size_t *got, Err *err) {
    if (!refill(g, err)) return false;
    *got = want < g->z.avail_in ? want : g->z.avail_in;
    memcpy(out, g->z.next_in, *got);
    g->z.next_in += *got;
    g->z.avail_in -= (uInt)*got;
    return true;
}

/* Behind a member: another one, zeros up to the end of the file, or an error. */
static bool next_member(Gz *g, Err *err) {
    for (;;) {
        if (!refill(g, err)) return false;
        if (g->z.avail_in == 0) {
            g->at_end = true;
            return true;
        }
        if (*g->z.next_in != 0) break;
        g->z.next_in++;
        g->z.avail_in--;
    }
    if (*g->z.next_in == 0x1f) {
        inflateReset(&g->z);
        return true;
    }
    return err_set(err, EX_DATAERR,
                   "%s: byte %" PRIu64 ": something follows the end of the gzip data", g->path,
                   consumed(g));
}

static bool inflate_some(Gz *g, unsigned char *out, size_t want, size_t *got, Err *err) {
    *got = 0;
    if (g->at_end) return true;
    if (!refill(g, err)) return false;
    if (g->z.avail_in == 0)
        return err_set(err, EX_DATAERR,
                       "%s: the gzip data breaks off after %" PRIu64 " bytes: fetch the file again",
                       g->path, g->in);
    g->z.next_out = out;
    g->z.avail_out = (uInt)(want < BUFFER ? want : BUFFER);
    int rc = inflate(&g->z, Z_NO_FLUSH);
    *got = (size_t)(g->z.next_out - out);
    if (rc == Z_STREAM_END) return next_member(g, err);
    if (rc == Z_OK || rc == Z_BUF_ERROR) return true;
    return err_set(err, EX_DATAERR,
                   "%s: byte %" PRIu64 ": damaged gzip data (%s): fetch the file again", g->path,
                   consumed(g), g->z.msg ? g->z.msg : "zlib");
}

static bool check_limits(const Gz *g, Err *err) {
    if (g->out > g->cap)
        return err_set(err, EX_DATAERR,
                       "%s: unpacks to more than the %" PRIu64 " bytes expected of it at most",
                       g->path, g->cap);
    if (g->zipped && g->out > RATIO_FREE && g->out / GZ_RATIO > consumed(g))
        return err_set(err, EX_DATAERR, "%s: unpacks to more than %d times its size: refused",
                       g->path, GZ_RATIO);
    return true;
}

bool gz_read(Gz *g, void *out, size_t want, size_t *got, Err *err) {
    unsigned char *to = out;
    *got = 0;
    while (*got < want) {
        size_t n;
        bool ok = g->zipped ? inflate_some(g, to + *got, want - *got, &n, err)
                            : read_plain(g, to + *got, want - *got, &n, err);
        if (!ok) return false;
        *got += n;
        g->out += n;
        if (!check_limits(g, err)) return false;
        bool ended = g->zipped ? g->at_end : n == 0;
        if (ended) break;
    }
    return true;
}
