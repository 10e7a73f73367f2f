/* Text: is a film review positive? The Large Movie Review Dataset (Maas et al. 2011), as bytes: id
 * is byte + 1, 0 is padding; classes 0 negative, 1 positive. Nothing is cleaned or cut.
 *
 * Import reads the folder aclImdb, or the official archive as a stream: files
 * {train,test}/{neg,pos}/<number>_<rating>.txt, whatever lies above them; all else is passed over.
 * Reviews are in the order of their numbers, of each number the negative one first.
 *
 * train is the whole official train and test the whole official test. There is no official
 * validation, and the Long Range Arena validated on test: val is the test set once more. Training
 * does not use it but where data.holdout is 0; it holds out a part of train instead (train/feed.h).
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/bytes.h"
#include "data/task.h"
#include "io/tar.h"

#define ARCHIVE "aclImdb_v1.tar.gz"
#define URL "https://ai.stanford.edu/~amaas/data/sentiment/" ARCHIVE
#define FOLDER "aclImdb"
#define BIG_REVIEW 100000000    /* bytes: refused above */
#define BIG_TOTAL 1000000000ull /* of all reviews, and of the unpacked archive */

enum { CLASSES = 2, OFFICIAL = 25000, PARTS = 2, NUMBER_DIGITS = 9 };

static const TarLimits archive_limits = {.bytes = BIG_TOTAL, .entries = 200000};
static const char *const part_names[PARTS] = {"train", "test"};
static const char *const class_names[CLASSES] = {"neg", "pos"};
static const char *const labels[CLASSES] = {"negative", "positive"};

typedef struct Review {
    int part, label, number, rating;
    size_t at, size; /* in the reviews' bytes */
} Review;

typedef struct Reviews {
    unsigned char *bytes;
    size_t used, bytes_cap;
    Review *list;
    int count, list_cap;
} Reviews;

static bool read_number(const char **at, int *out) {
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > NUMBER_DIGITS) return false;
    *out = (int)strtol(*at, NULL, 10);
    *at += digits;
    return true;
}

/* Whether a file is called <number>_<rating>.txt. */
static bool parse_name(Review *r, const char *name) {
    return read_number(&name, &r->number) && *name++ == '_' && read_number(&name, &r->rating) &&
           strcmp(name, ".txt") == 0;
}

/* Room for a review's `size` bytes, NULL and err where it has none or too many. `path` is for
 * messages. */
static unsigned char *reserve(Reviews *all, Review *r, uint64_t size, const char *path, Err *err) {
    if (size == 0) err_set(err, EX_DATAERR, "%s: the review is empty", path);
    if (size > BIG_REVIEW)
        err_set(err, EX_DATAERR, "%s: %" PRIu64 " bytes, expected at most %d", path, size,
                BIG_REVIEW);
    else if (all->used + size > BIG_TOTAL)
        err_set(err, EX_DATAERR, "%s: with it the reviews have more than %llu bytes", path,
                BIG_TOTAL);
    if (size == 0 || size > BIG_REVIEW || all->used + size > BIG_TOTAL) return NULL;
    if (all->used + size > all->bytes_cap) {
        all->bytes_cap = 2 * all->bytes_cap + (size_t)size;
        all->bytes = mem_grow(all->bytes, all->bytes_cap, 1);
    }
    if (all->count == all->list_cap) {
        all->list_cap = 2 * all->list_cap + 1024;
        all->list = mem_grow(all->list, (size_t)all->list_cap, sizeof *all->list);
    }
    r->at = all->used;
    r->size = (size_t)size;
    all->used += (size_t)size;
    all->list[all->count++] = *r;
    return all->bytes + r->at;
}

/* ---- the directory ---- */

static bool read_file(Reviews *all, Review *r, const char *path, Err *err) {
    FileMap map;
    if (!file_map(&map, path, err)) return false;
    unsigned char *to = reserve(all, r, map.size, path, err);
    if (to) memcpy(to, map.data, map.size);
    file_unmap(&map);
    return to != NULL;
}

static bool read_folder(Reviews *all, const char *dir, int part, int label, Err *err) {
    char path[FILE_PATH_MAX];
    DIR *d = opendir(dir);
    if (!d)
        return err_set(err, EX_NOINPUT, "%s: cannot be read: %s; fetch " URL, dir, strerror(errno));
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));) {
        Review r = {.part = part, .label = label};
        if (!parse_name(&r, e->d_name)) continue;
        ok = dataset_file(path, dir, e->d_name, err) && read_file(all, &r, path, err);
    }
    closedir(d);
    return ok;
}

static bool read_directory(Reviews *all, const char *from, Err *err) {
    for (int i = 0; i < PARTS * CLASSES; i++) {
        char dir[FILE_PATH_MAX + 16];
        int part = i / CLASSES, label = i % CLASSES;
        snprintf(dir, sizeof dir, "%s/%s/%s", from, part_names[part], class_names[label]);
        if (!read_folder(all, dir, part, label, err)) return false;
    }
    return true;
}

/* ---- the archive ---- */

/* Whether an entry is a review, and which: by the last three parts of its name. */
static bool parse_entry(Review *r, const char *name) {
    for (int i = 0; i < PARTS * CLASSES; i++) {
        char folder[16];
        r->part = i / CLASSES;
        r->label = i % CLASSES;
        size_t n = (size_t)snprintf(folder, sizeof folder, "%s/%s/", part_names[r->part],
                                    class_names[r->label]);
        const char *slash = strrchr(name, '/');
        if (!slash || (size_t)(slash + 1 - name) < n) continue;
        const char *at = slash + 1 - n;
        if ((at == name || at[-1] == '/') && memcmp(at, folder, n) == 0)
            return parse_name(r, slash + 1);
    }
    return false;
}

static bool read_archive(Reviews *all, const char *archive, Err *err) {
    Tar *tar = tar_open(archive, archive_limits, err);
    if (!tar) return false;
    TarEntry entry;
    bool ok;
    while ((ok = tar_next(tar, &entry, err)) && entry.name) {
        char path[512];
        size_t got;
        Review r = {0};
        if (!parse_entry(&r, entry.name)) continue;
        snprintf(path, sizeof path, "%.250s: %.250s", archive, entry.name);
        unsigned char *to = reserve(all, &r, entry.size, path, err);
        ok = to && tar_read(tar, to, r.size, &got, err);
        if (!ok) break;
    }
    tar_close(tar);
    return ok;
}

/* ---- both ---- */

static int by_number(const void *a, const void *b) {
    const Review *x = a, *y = b;
    if (x->part != y->part) return x->part - y->part;
    if (x->number != y->number) return (x->number > y->number) - (x->number < y->number);
    return x->label - y->label;
}

/* Sorts them; each number is there once in each folder, and no folder is without any. */
static bool put_in_order(Reviews *all, const char *from, Err *err) {
    int count[PARTS][CLASSES] = {{0}};
    if (all->count) qsort(all->list, (size_t)all->count, sizeof *all->list, by_number);
    for (int i = 0; i < all->count; i++) {
        const Review *r = &all->list[i], *last = r - 1;
        count[r->part][r->label]++;
        if (i > 0 && by_number(last, r) == 0)
            return err_set(err, EX_DATAERR,
                           "%s: %s/%s: review %d is there twice (%d_%d.txt, %d_%d.txt)", from,
                           part_names[r->part], class_names[r->label], r->number, r->number,
                           last->rating, r->number, r->rating);
    }
    for (int i = 0; i < PARTS * CLASSES; i++)
        if (count[i / CLASSES][i % CLASSES] == 0)
            return err_set(err, EX_NOINPUT,
                           "%s: %s/%s: no reviews; expected <number>_<rating>.txt, as in " URL,
                           from, part_names[i / CLASSES], class_names[i % CLASSES]);
    return true;
}

static bool join(char buf[FILE_PATH_MAX], const char *dir, const char *name) {
    int n = snprintf(buf, FILE_PATH_MAX, "%s/%s", dir, name);
    return n < FILE_PATH_MAX && file_exists(buf);
}

/* Where under `from` the reviews are: the folder with train and test, one that holds it or the
 * archive, or the archive. */
static bool locate(char buf[FILE_PATH_MAX], const char *from) {
    static const char *const folders[] = {FOLDER, NULL};
    return task_locate(buf, from, folders, "train/pos") || join(buf, from, ARCHIVE);
}

static bool read_all(Reviews *all, const char *from, Err *err) {
    char place[FILE_PATH_MAX];
    if (!file_exists(from)) return err_set(err, EX_NOINPUT, "%s: no such file or directory", from);
    if (!file_is_dir(from))
        snprintf(place, sizeof place, "%s", from);
    else if (!locate(place, from))
        return err_set(err, EX_NOINPUT,
                       "%s: holds no train/pos, " FOLDER " or " ARCHIVE ": fetch " URL, from);
    bool ok = file_is_dir(place) ? read_directory(all, place, err) : read_archive(all, place, err);
    return ok && put_in_order(all, place, err);
}

static void add_reviews(DatasetWriter *w, const Reviews *all, int part) {
    for (int i = 0; i < all->count; i++) {
        const Review *r = &all->list[i];
        if (r->part != part) continue;
        dataset_add_example(w, r->label, bytes_add(w, all->bytes + r->at, r->size), -1);
    }
}

static bool write_splits(const Reviews *all, const char *out, Err *err) {
    static const char source[] = "Large Movie Review Dataset (aclImdb v1)";
    static const char twice[] = "Large Movie Review Dataset (aclImdb v1): the test set once more, "
                                "as the Long Range Arena validated";
    DatasetWriter *w[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        w[s] = dataset_writer("text", split_names[s], s == SPLIT_VAL ? twice : source, BYTES_VOCAB,
                              CLASSES, false);
        add_reviews(w[s], all, s == SPLIT_TRAIN ? 0 : 1);
    }
    bool ok = dataset_write_splits(w, out, err);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
    return ok;
}

static bool import(const TaskRequest *r, Err *err) {
    Reviews all = {0};
    bool ok = read_all(&all, r->from, err) && write_splits(&all, r->out, err);
    mem_free(all.bytes);
    mem_free(all.list);
    return ok;
}

static bool recognise(const char *dir) {
    char place[FILE_PATH_MAX];
    return locate(place, dir);
}

static void print(const int *tokens, int length, int label) {
    printf("%s (label %d)\n", labels[label], label);
    bytes_print(tokens, length);
}

const Task task_text = {
    .name = "text",
    .title = "is a film review positive, from its bytes; IMDb",
    .vocab = BYTES_VOCAB,
    .classes = CLASSES,
    .per_example = 1,
    .max_length = 4096,
    .holds_out = true,
    .official = {OFFICIAL, OFFICIAL, OFFICIAL},
    .source = "the Large Movie Review Dataset: " ARCHIVE " or the directory it holds",
    .archive = ARCHIVE,
    .url = URL,
    .tokens = TOKENS_BYTES,
    .labels = labels,
    .import = import,
    .recognise = recognise,
    .print = print,
};
