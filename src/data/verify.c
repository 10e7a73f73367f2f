#include "data/verify.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NOTE_MAX = 256 };

/* Some file systems tell times to the second: a file that was changed so lately may be changed once
 * more and keep them. */
static const double unsettled_seconds = 1;

/* ---- notes ---- */

static bool note_path(const Dataset *d, char path[FILE_PATH_MAX]) {
    return snprintf(path, FILE_PATH_MAX, "%s.checked", d->file.path) < FILE_PATH_MAX;
}

/* All of a note but the hash. */
static void print_stamp(char text[NOTE_MAX], const FileStamp *s) {
    snprintf(text, NOTE_MAX, "cast-checked-1 %" PRId64 " %lld.%09ld %lld.%09ld ", s->size,
             (long long)s->modified.tv_sec, s->modified.tv_nsec, (long long)s->changed.tv_sec,
             s->changed.tv_nsec);
}

/* Whether the file was found right as it is. */
static bool is_noted(Dataset *d) {
    char path[FILE_PATH_MAX], text[NOTE_MAX];
    FileMap note;
    Err ignored;
    if (!note_path(d, path) || !file_map(&note, path, &ignored)) return false;
    print_stamp(text, &d->file.map.stamp);
    const size_t n = strlen(text), digits = 8;
    char hash[DATASET_HASH] = "";
    if (note.size == n + digits + 1 && !memcmp(note.data, text, n))
        snprintf(hash, sizeof hash, "%.8s", (const char *)note.data + n);
    file_unmap(&note);
    if (strspn(hash, "0123456789abcdef") != digits) return false;
    if (!d->hash[0]) memcpy(d->hash, hash, sizeof hash);
    return !strcmp(d->hash, hash);
}

static bool is_settled(const FileStamp *s) {
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) == 0 &&
           difftime(now.tv_sec, s->changed.tv_sec) +
                   1e-9 * (double)(now.tv_nsec - s->changed.tv_nsec) >
               unsettled_seconds;
}

/* What cannot be noted will be read again. */
static void note(const Dataset *d) {
    char path[FILE_PATH_MAX], text[NOTE_MAX], now[NOTE_MAX];
    FileStamp stamp;
    AtomicFile a;
    Err ignored;
    if (!note_path(d, path) || !file_stamp(&stamp, d->file.path) || !is_settled(&stamp)) return;
    print_stamp(text, &d->file.map.stamp);
    print_stamp(now, &stamp);
    if (strcmp(text, now) != 0 || !atomic_open(&a, path, KIND_CHECKED, &ignored)) return;
    fprintf(a.f, "%s%s\n", text, d->hash);
    atomic_commit(&a, &ignored);
}

/* ---- reading ---- */

static bool check(Dataset *d, Err *err) {
    if (d->hash[0]) return dataset_check_hash(d, err);
    dataset_hash(d, d->hash);
    return st_check_crc(&d->file, err);
}

static void read_all(void *ctx) {
    Verify *v = ctx;
    for (int i = 0; !v->wrong && i < v->n; i++) {
        v->wrong = !check(v->split[i], &v->err);
        if (!v->wrong) note(v->split[i]);
    }
}

static bool is_listed(const Verify *v, const Dataset *d) {
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->split[i]->file.path, d->file.path)) return true;
    return false;
}

bool verify_start(Verify *v, Dataset *splits, double seconds, Err *err) {
    *v = (Verify){.splits = splits};
    for (Dataset *d = splits; d < splits + SPLITS; d++) {
        if (!d->file.path || is_listed(v, d) || is_noted(d)) continue;
        if (!d->hash[0]) seconds = INFINITY;
        v->split[v->n++] = d;
    }
    if (v->n == 0) return true;
    v->reader = aside_start(read_all, v);
    return !aside_done(v->reader, seconds) || verify_wait(v, err);
}

bool verify_wait(Verify *v, Err *err) {
    verify_close(v);
    if (v->wrong) *err = v->err;
    return !v->wrong && verify_unchanged(v->splits, err);
}

/* Who touches files, or copies the same over them, changes nothing. */
static bool holds_the_same(Dataset *d) {
    char hash[DATASET_HASH];
    FileMap *map = &d->file.map;
    if (!file_was_changed(map, d->file.path)) return true;
    if (!file_stamp(&map->stamp, d->file.path)) return false;
    dataset_hash(d, hash);
    return !strcmp(hash, d->hash) && !file_was_changed(map, d->file.path);
}

bool verify_unchanged(Dataset *splits, Err *err) {
    for (Dataset *d = splits; splits && d < splits + SPLITS; d++)
        if (d->file.path && d->hash[0] && !holds_the_same(d))
            return err_set(err, EX_DATAERR,
                           "%s: was written to while it was read, and is another: what was "
                           "computed last is of no known data",
                           d->file.path);
    return true;
}

bool verify_now(Dataset *splits, Err *err) {
    Verify v;
    return verify_start(&v, splits, INFINITY, err);
}

void verify_close(Verify *v) {
    aside_end(v->reader);
    v->reader = NULL;
}
