/* Text: is a film review positive? The Large Movie Review Dataset (Maas et al. 2011), as bytes: id
 * is byte + 1, 0 is padding; classes 0 negative, 1 positive. Nothing is cleaned or cut.
 *
 * Import reads the folder aclImdb, or the official archive as a stream: files
 * {train,test}/{neg,pos}/<number>_<rating>.txt, whatever lies above them; all else is passed over.
 * Reviews are in the order of their numbers, of each number the negative one first.
 *
 * train is the whole official train and test the whole official test. There is no official
 * validation, and the Long Range Arena validated on test: val is the test set once more. Training
 * holds out a part of train instead (train/loader.h), unless data.holdout is 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/bytes.h"
#include "data/task.h"
#include "io/tar.h"

#define SOURCE "Large Movie Review Dataset (aclImdb v1)"
#define ARCHIVE "aclImdb_v1.tar.gz"
#define URL "https://ai.stanford.edu/~amaas/data/sentiment/" ARCHIVE
#define FOLDER "aclImdb"
#define BIG_REVIEW 100000000    /* bytes: refused above */
#define BIG_TOTAL 1000000000ull /* of all reviews, and of the unpacked archive */

enum { CLASSES = 2, OFFICIAL = 25000, PARTS = 2, NUMBER_DIGITS = 9 };

static const TarLimits archive_limits = {.bytes = BIG_TOTAL, .entries = 200000};
static const char *const folders[PARTS * CLASSES] = {"train/neg", "train/pos", "test/neg",
                                                     "test/pos"};
static const char *const labels[CLASSES] = {"negative", "positive"};

typedef struct Review {
    int folder, number, rating;
    size_t at, size; /* in the reviews' bytes */
} Review;

typedef struct Reviews {
    unsigned char *bytes;
    size_t used, bytes_cap, list_cap;
    Review *list;
    int count;
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
    bool ok = file_fits(path, size, BIG_REVIEW, err);
    if (size == 0) ok = err_set(err, EX_DATAERR, "%s: the review is empty", path);
    if (ok && all->used + size > BIG_TOTAL)
        ok = err_set(err, EX_DATAERR, "%s: with it the reviews have more than %llu bytes", path,
                     BIG_TOTAL);
    if (!ok) return NULL;
    all->bytes = mem_reserve(all->bytes, all->used + (size_t)size, &all->bytes_cap, 1);
    all->list = mem_reserve(all->list, (size_t)all->count + 1, &all->list_cap, sizeof *all->list);
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

static bool read_folder(Reviews *all, const char *dir, int folder, Err *err) {
    FileList names;
    bool ok = file_list(&names, dir, "", ".txt", err);
    if (!ok) return err_set(err, err->code, "%s; fetch " URL, err->text);
    for (int i = 0; ok && i < names.n; i++) {
        Review r = {.folder = folder};
        if (parse_name(&r, strrchr(names.name[i], '/') + 1))
            ok = read_file(all, &r, names.name[i], err);
    }
    file_list_free(&names);
    return ok;
}

static bool read_directory(Reviews *all, const char *from, Err *err) {
    for (int i = 0; i < PARTS * CLASSES; i++) {
        char dir[FILE_PATH_MAX + 16];
        snprintf(dir, sizeof dir, "%s/%s", from, folders[i]);
        if (!read_folder(all, dir, i, err)) return false;
    }
    return true;
}

/* ---- the archive ---- */

/* Whether an entry is a review, and which: by the last three parts of its name. */
static bool parse_entry(Review *r, const char *name) {
    const char *slash = strrchr(name, '/');
    for (int i = 0; slash && i < PARTS * CLASSES; i++) {
        size_t n = strlen(folders[i]), before = (size_t)(slash - name);
        if (before < n || memcmp(slash - n, folders[i], n) != 0) continue;
        if (before > n && slash[-(ptrdiff_t)n - 1] != '/') continue;
        r->folder = i;
        return parse_name(r, slash + 1);
    }
    return false;
}

static bool read_entry(void *all, Tar *tar, const TarEntry *entry, Err *err) {
    Review r = {0};
    size_t got;
    if (!parse_entry(&r, entry->name)) return true;
    unsigned char *to = reserve(all, &r, entry->size, entry->title, err);
    return to && tar_read(tar, to, r.size, &got, err);
}

/* ---- both ---- */

static int by_number(const void *a, const void *b) {
    const Review *x = a, *y = b;
    const bool same_part = x->folder / CLASSES == y->folder / CLASSES;
    if (!same_part || x->number == y->number) return x->folder - y->folder;
    return x->number - y->number;
}

/* Sorts them; each number is there once in each folder, and no folder is without any. */
static bool put_in_order(Reviews *all, const char *from, Err *err) {
    int count[PARTS * CLASSES] = {0};
    if (all->count) qsort(all->list, (size_t)all->count, sizeof *all->list, by_number);
    for (int i = 0; i < all->count; i++) {
        const Review *r = &all->list[i], *last = &all->list[i > 0 ? i - 1 : 0];
        count[r->folder]++;
        if (i > 0 && by_number(last, r) == 0)
            return err_set(
                err, EX_DATAERR, "%s: %s: review %d is there twice (%d_%d.txt, %d_%d.txt)", from,
                folders[r->folder], r->number, r->number, last->rating, r->number, r->rating);
    }
    for (int i = 0; i < PARTS * CLASSES; i++)
        if (count[i] == 0)
            return err_set(err, EX_NOINPUT,
                           "%s: %s: no reviews; expected <number>_<rating>.txt, as in " URL, from,
                           folders[i]);
    return true;
}

/* Where under `from` the reviews are: the folder with train and test, one that holds it or the
 * archive, or the archive. */
static bool locate(char *place, const char *from) {
    static const char *const inside[] = {FOLDER, NULL};
    return task_locate(place, from, inside, "train/pos") || task_join(place, from, ARCHIVE);
}

static bool read_all(const Task *t, Reviews *all, const char *from, Err *err) {
    char place[FILE_PATH_MAX];
    if (!task_place(t, place, from, err)) return false;
    bool ok = file_is_dir(place) ? read_directory(all, place, err)
                                 : tar_each(place, archive_limits, read_entry, all, err);
    return ok && put_in_order(all, place, err);
}

static void add_reviews(DatasetWriter *w, const Reviews *all, int part) {
    for (int i = 0; i < all->count; i++) {
        const Review *r = &all->list[i];
        if (r->folder / CLASSES != part) continue;
        dataset_add_example(w, r->folder % CLASSES,
                            dataset_add_bytes(w, all->bytes + r->at, r->size, 1), -1);
    }
}

static bool write_splits(const Reviews *all, const char *out, Err *err) {
    static const char source[] = SOURCE;
    static const char twice[] =
        SOURCE ": the test set once more, as the Long Range Arena validated";
    DatasetWriter *w[SPLITS];
    for (int s = 0; s < SPLITS; s++) {
        w[s] = dataset_writer("text", split_names[s], s == SPLIT_VAL ? twice : source, BYTES_VOCAB,
                              CLASSES, false);
        add_reviews(w[s], all, s == SPLIT_TRAIN ? 0 : 1);
    }
    return task_finish(w, true, out, err);
}

static bool import(const Task *t, const TaskRequest *r, Err *err) {
    Reviews all = {0};
    bool ok = read_all(t, &all, r->from, err) && write_splits(&all, r->out, err);
    mem_free(all.bytes);
    mem_free(all.list);
    return ok;
}

const Task task_text = {
    .name = "text",
    .title = "is a film review positive, from its bytes; IMDb",
    .vocab = BYTES_VOCAB,
    .classes = CLASSES,
    .per_example = 1,
    .max_length = 4096,
    .masked = 0.15,
    .holds_out = true,
    .official = {OFFICIAL, OFFICIAL, OFFICIAL},
    .imported = SOURCE,
    .archive = ARCHIVE,
    .url = URL,
    .tokens = TOKENS_BYTES,
    .labels = labels,
    .import = import,
    .locate = locate,
    .augment = augment_drop,
    .augment_keys = augment_drop_keys,
    .augment_masks = true,
    .holds = "train/pos, " FOLDER " or " ARCHIVE ": fetch " URL,
    .unpacks = true,
};
