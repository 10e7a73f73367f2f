#include "io/events.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME "events.out.tfevents."

/* What precedes a field: its number, and how it is encoded. */
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
#define FIELD(number, encoding) ((number) << 3 | (encoding))

/* ---- records ---- */

uint32_t crc32c(const void *data, size_t size) {
    const unsigned char *at = data;
    uint32_t crc = ~0u;
    for (; size > 0; size--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

uint32_t crc32c_masked(const void *data, size_t size) {
    const uint32_t crc = crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static unsigned char *put_little(unsigned char *at, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++) *at++ = (unsigned char)(x >> 8 * i);
    return at;
}

static unsigned char *put_varint(unsigned char *at, uint64_t x) {
    for (; x > 127; x >>= 7) *at++ = (unsigned char)(x | 128);
    *at++ = (unsigned char)x;
    return at;
}

static unsigned char *put_bytes(unsigned char *at, int field, const void *data, size_t size) {
    *at++ = (unsigned char)FIELD(field, BYTES);
    at = put_varint(at, size);
    memcpy(at, data, size);
    return at + size;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An event of one field: file version, summary or session log. */
static bool put_event(Events *e, int field, const void *data, size_t size, Err *err) {
    enum { HEAD = 12, CRC = 4 };
    unsigned char record[HEAD + EVENTS_MOST + 64 + CRC], *event = record + HEAD, *at = event;
    uint64_t time;
    memcpy(&time, &e->time, sizeof time);
    *at++ = FIELD(1, FIXED64);
    at = put_little(at, time, 8);
    *at++ = FIELD(2, VARINT);
    at = put_varint(at, (uint64_t)e->step);
    at = put_bytes(at, field, data, size);
    const size_t n = (size_t)(at - event);
    put_little(record, n, 8);
    put_little(record + 8, crc32c_masked(record, 8), 4);
    at = put_little(at, crc32c_masked(event, n), CRC);
    return file_append(e->fd, record, (size_t)(at - record)) ||
           file_fails(e->path, "be written", EX_IOERR, err);
}

/* ---- files ---- */

/* Readers go through files in the order of their names, each to its end: ours must come last, even
 * where the clock went back or a process was started in the same second. */
static bool next_time(int64_t *next, const char *dir, Err *err) {
    FileList files;
    *next = (int64_t)now();
    if (!file_list(&files, dir, NAME, "", err)) return false;
    for (int i = 0; i < files.n; i++) {
        const long long time = strtoll(strrchr(files.name[i], '/') + sizeof NAME, NULL, 10);
        if (time >= *next && time < 9999999999) *next = time + 1;
    }
    file_list_free(&files);
    return true;
}

static bool create(Events *e, const char *dir, Err *err) {
    char host[64] = "?", name[sizeof NAME + 128];
    int64_t time;
    if (!next_time(&time, dir, err)) {
        err->code = EX_CANTCREAT;
        return false;
    }
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, NAME "%010" PRId64 ".%s.%ld.0", time, host, (long)getpid());
    if (!file_in(e->path, dir, name, err)) return false;
    e->fd = open(e->path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    return e->fd >= 0 || file_fails(e->path, "be created", EX_CANTCREAT, err);
}

bool events_open(Events *e, const char *dir, int64_t step, Err *err) {
    static const char version[] = "brain.Event:2";
    *e = (Events){.fd = -1};
    if (!create(e, dir, err)) return false;
    e->time = now();
    const bool ok =
        put_event(e, 3, version, sizeof version - 1, err) && events_go_back(e, step, err);
    if (!ok) {
        unlink(e->path);
        events_close(e);
    }
    return ok;
}

/* A session that starts at a step expires all events from there on. */
bool events_go_back(Events *e, int64_t step, Err *err) {
    static const unsigned char start[] = {FIELD(1, VARINT), 1};
    e->step = step + 1;
    e->time = now();
    return e->fd < 0 || put_event(e, 7, start, sizeof start, err);
}

void events_close(Events *e) {
    if (e->fd >= 0) close(e->fd);
    e->fd = -1;
}

void events_begin(Events *e, int64_t step) {
    if (e->fd < 0) return;
    e->step = step;
    e->time = now();
    e->used = 0;
}

void events_scalar(Events *e, const char *tag, double value) {
    if (e->fd < 0) return;
    unsigned char inner[EVENTS_TAG_MOST + 16], *at;
    const size_t n = strlen(tag);
    const float x = (float)value;
    uint32_t bits;
    REQUIRE(n <= EVENTS_TAG_MOST, "too long a tag: %s", tag);
    memcpy(&bits, &x, sizeof bits);
    at = put_bytes(inner, 1, tag, n);
    *at++ = FIELD(2, FIXED32);
    at = put_little(at, bits, 4);
    const size_t size = (size_t)(at - inner);
    REQUIRE(e->used + size + 4 <= EVENTS_MOST, "too many scalars at %s", tag);
    e->used = (size_t)(put_bytes(e->summary + e->used, 1, inner, size) - e->summary);
}

bool events_end(Events *e, Err *err) {
    return e->fd < 0 || put_event(e, 5, e->summary, e->used, err);
}
