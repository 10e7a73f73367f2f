/* Image: the ten classes of CIFAR-10 (Krizhevsky 2009), grey, as 1024 intensities; the id is the
 * intensity.
 *
 * Import reads CIFAR-10's binary version: data_batch_1..5.bin and test_batch.bin, records of a
 * label byte and 1024 bytes each of red, green and blue (3073), or of a label and 1024 bytes that
 * are grey already (1025). Which of the two, a file's size says: it is a multiple of one of them.
 * Both divide only multiples of 3,149,825 bytes; then the form in which every label is 0 to 9 is
 * taken, colour first.
 *
 * Grey is tf.image.rgb_to_grayscale on bytes, to the bit: x = v * (1/255), y = .2989 R + .5870 G +
 * .1140 B from left to right, trunc(y * 255.5), each step rounded to float. (Division by 255, or a
 * fused multiply-add, gives another intensity for some dozen colours.)
 *
 * Validation is a tenth of the 50,000 training images: those that a Philox permutation keyed by the
 * seed and "image.holdout" puts first. The test images are the official ones; all keep the official
 * order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/picture.h"
#include "data/task.h"
#include "io/tar.h"

enum {
    SIDE = 32,
    PIXELS = SIDE * SIDE,
    COLOUR = 1 + 3 * PIXELS,
    GREY = 1 + PIXELS,
    CLASSES = 10,
    BATCHES = 6,
    TEST = 5,               /* of the batches */
    HELD_OUT = 10,          /* one image in so many */
    FILE_MAX = 2 * 30730000 /* twice an official batch */
};

#define ARCHIVE "cifar-10-binary.tar.gz"
#define URL "https://www.cs.toronto.edu/~kriz/" ARCHIVE
#define FOLDER "cifar-10-batches-bin"

static const TarLimits archive_limits = {.bytes = 2 * 184380000ull, .entries = 1000};

static const char *const file_names[BATCHES] = {"data_batch_1.bin", "data_batch_2.bin",
                                                "data_batch_3.bin", "data_batch_4.bin",
                                                "data_batch_5.bin", "test_batch.bin"};

static const char *const class_names[CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

typedef struct Batch {
    unsigned char *records; /* of GREY bytes; NULL until the file was read */
    int count;
} Batch;

/* Each colour's share of y. That they are looked up keeps the compiler from fusing products into
 * the sums. */
typedef struct GreyTable {
    float r[256], g[256], b[256];
} GreyTable;

static void fill_grey_table(GreyTable *t) {
    for (int v = 0; v < 256; v++) {
        float x = (float)v * (1.0f / 255.0f);
        t->r[v] = x * 0.2989f;
        t->g[v] = x * 0.5870f;
        t->b[v] = x * 0.1140f;
    }
}

static void to_grey(unsigned char *out, const unsigned char *rgb, const GreyTable *t) {
    for (int i = 0; i < PIXELS; i++) {
        float y = t->r[rgb[i]] + t->g[rgb[PIXELS + i]] + t->b[rgb[2 * PIXELS + i]];
        out[i] = (unsigned char)(y * 255.5f);
    }
}

static bool labels_fit(const unsigned char *bytes, size_t size, size_t record) {
    for (size_t at = 0; at < size; at += record)
        if (bytes[at] >= CLASSES) return false;
    return true;
}

/* 0 and err where the file is no row of whole records. */
static size_t record_size(const char *path, const unsigned char *bytes, size_t size, Err *err) {
    bool colour = size % COLOUR == 0, grey = size % GREY == 0;
    if (colour && grey)
        return labels_fit(bytes, size, COLOUR) || !labels_fit(bytes, size, GREY) ? COLOUR : GREY;
    if (colour || grey) return colour ? COLOUR : GREY;
    err_set(err, EX_DATAERR,
            "%s: %zu bytes are no whole records of %d bytes (label, red, green, blue; record %zu, "
            "from byte %zu, breaks "
            "off) nor of %d (label, grey; record %zu, from byte %zu): fetch it again from " URL,
            path, size, COLOUR, size / COLOUR, size / COLOUR * COLOUR, GREY, size / GREY,
            size / GREY * GREY);
    return 0;
}

static bool read_batch(Batch *b, const char *path, const unsigned char *bytes, size_t size,
                       Err *err) {
    if (size == 0) return err_set(err, EX_DATAERR, "%s: is empty; fetch it again from " URL, path);
    size_t record = record_size(path, bytes, size, err);
    if (record == 0) return false;
    GreyTable table;
    fill_grey_table(&table);
    b->count = (int)(size / record);
    b->records = mem_alloc((size_t)b->count, GREY);
    for (int i = 0; i < b->count; i++) {
        size_t at = (size_t)i * record;
        unsigned char *to = b->records + (size_t)i * GREY;
        if (bytes[at] >= CLASSES)
            return err_set(err, EX_DATAERR, "%s: record %d (byte %zu): label %d, expected 0 to %d",
                           path, i, at, bytes[at], CLASSES - 1);
        to[0] = bytes[at];
        if (record == COLOUR)
            to_grey(to + 1, bytes + at + 1, &table);
        else
            memcpy(to + 1, bytes + at + 1, PIXELS);
    }
    return true;
}

static bool too_large(const char *path, uint64_t size, Err *err) {
    return err_set(err, EX_DATAERR, "%s: %" PRIu64 " bytes, expected at most %d", path, size,
                   FILE_MAX);
}

static bool join(char buf[FILE_PATH_MAX], const char *dir, const char *name) {
    int n = snprintf(buf, FILE_PATH_MAX, "%s/%s", dir, name);
    return n < FILE_PATH_MAX && file_exists(buf);
}

static bool read_directory(Batch *batches, const char *dir, Err *err) {
    for (int i = 0; i < BATCHES; i++) {
        char path[FILE_PATH_MAX];
        if (!join(path, dir, file_names[i])) continue;
        FileMap map;
        if (!file_map(&map, path, err)) return false;
        bool ok = map.size <= FILE_MAX ? read_batch(&batches[i], path, map.data, map.size, err)
                                       : too_large(path, map.size, err);
        file_unmap(&map);
        if (!ok) return false;
    }
    return true;
}

/* Which batch an archive's entry is, whatever its folder; -1 for the other files. */
static int batch_of(const char *name) {
    const char *slash = strrchr(name, '/');
    for (int i = 0; i < BATCHES; i++)
        if (strcmp(slash ? slash + 1 : name, file_names[i]) == 0) return i;
    return -1;
}

static bool read_entry(Batch *b, Tar *tar, const TarEntry *entry, const char *archive, Err *err) {
    char path[512];
    snprintf(path, sizeof path, "%.250s: %.250s", archive, entry->name);
    if (b->records) return err_set(err, EX_DATAERR, "%s: is in the archive twice", path);
    if (entry->size > FILE_MAX) return too_large(path, entry->size, err);
    unsigned char *bytes = mem_alloc((size_t)entry->size, 1);
    size_t got;
    bool ok = tar_read(tar, bytes, (size_t)entry->size, &got, err) &&
              read_batch(b, path, bytes, got, err);
    mem_free(bytes);
    return ok;
}

static bool read_archive(Batch *batches, const char *archive, Err *err) {
    Tar *tar = tar_open(archive, archive_limits, err);
    if (!tar) return false;
    TarEntry entry;
    bool ok;
    while ((ok = tar_next(tar, &entry, err)) && entry.name) {
        int i = batch_of(entry.name);
        if (i >= 0 && !(ok = read_entry(&batches[i], tar, &entry, archive, err))) break;
    }
    tar_close(tar);
    return ok;
}

/* Where under `from` the files are: a folder of them, one that holds their folder or the archive,
 * or the archive. */
static bool locate(char buf[FILE_PATH_MAX], const char *from) {
    char probe[FILE_PATH_MAX];
    for (int i = 0; i < BATCHES; i++)
        if (join(probe, from, file_names[i]))
            return snprintf(buf, FILE_PATH_MAX, "%s", from) < FILE_PATH_MAX;
    return join(buf, from, FOLDER) || join(buf, from, ARCHIVE);
}

static bool read_all(Batch *batches, const char *from, Err *err) {
    char place[FILE_PATH_MAX];
    if (!file_exists(from)) return err_set(err, EX_NOINPUT, "%s: no such file or directory", from);
    if (!file_is_dir(from))
        snprintf(place, sizeof place, "%s", from);
    else if (!locate(place, from))
        return err_set(err, EX_NOINPUT, "%s: holds no %s, %s or %s: fetch " URL, from,
                       file_names[0], FOLDER, ARCHIVE);
    bool ok = file_is_dir(place) ? read_directory(batches, place, err)
                                 : read_archive(batches, place, err);
    if (!ok) return false;
    for (int i = 0; i < BATCHES; i++)
        if (!batches[i].records)
            return err_set(err, EX_NOINPUT,
                           "%s: %s is missing: expected data_batch_1.bin to data_batch_5.bin and "
                           "test_batch.bin, as "
                           "in " URL,
                           place, file_names[i]);
    return true;
}

static void add_images(DatasetWriter *const w[SPLITS], const Batch *b, const unsigned char *held,
                       int other) {
    int ids[PIXELS];
    for (int i = 0; i < b->count; i++) {
        const unsigned char *record = b->records + (size_t)i * GREY;
        for (int p = 0; p < PIXELS; p++) ids[p] = record[1 + p];
        DatasetWriter *to = w[held && held[i] ? SPLIT_VAL : other];
        dataset_add_example(to, record[0], dataset_add_document(to, ids, PIXELS), -1);
    }
}

/* 1 for the n / HELD_OUT training images that become validation. */
static unsigned char *choose_held(int n, uint64_t seed) {
    unsigned char *held = mem_alloc((size_t)n, 1);
    int *perm = mem_alloc((size_t)n, sizeof *perm);
    rng_permutation(perm, n, rng_fold_name(rng_key(seed), "image.holdout"));
    for (int i = 0; i < n / HELD_OUT; i++) held[perm[i]] = 1;
    mem_free(perm);
    return held;
}

static bool write_splits(const Batch *batches, const TaskRequest *r, Err *err) {
    int n = 0;
    for (int i = 0; i < TEST; i++) n += batches[i].count;
    if (n < HELD_OUT)
        return err_set(err, EX_DATAERR, "%s: %d training images, expected at least %d", r->from, n,
                       HELD_OUT);
    char source[128];
    snprintf(source, sizeof source,
             "CIFAR-10 binary version, grey; one training image in %d held out by seed %" PRIu64,
             HELD_OUT, r->seed);
    DatasetWriter *w[SPLITS];
    for (int s = 0; s < SPLITS; s++)
        w[s] = dataset_writer("image", split_names[s], source, 256, CLASSES, false);
    unsigned char *held = choose_held(n, r->seed);
    for (int i = 0, at = 0; i < TEST; at += batches[i++].count)
        add_images(w, &batches[i], held + at, SPLIT_TRAIN);
    add_images(w, &batches[TEST], NULL, SPLIT_TEST);
    bool ok = dataset_write_splits(w, r->out, err);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
    mem_free(held);
    return ok;
}

static bool import(const TaskRequest *r, Err *err) {
    Batch batches[BATCHES] = {0};
    bool ok = read_all(batches, r->from, err) && write_splits(batches, r, err);
    for (int i = 0; i < BATCHES; i++) mem_free(batches[i].records);
    return ok;
}

static bool recognise(const char *dir) {
    char place[FILE_PATH_MAX];
    return locate(place, dir);
}

static void print(const int *tokens, int length, int label) {
    printf("%s (label %d)\n", class_names[label], label);
    picture_print(tokens, SIDE, length / SIDE);
}

const Task task_image = {
    .name = "image",
    .title = "ten classes of pictures, pixel by pixel; CIFAR-10 in grey",
    .vocab = 256,
    .classes = CLASSES,
    .per_example = 1,
    .max_length = PIXELS,
    .official = {45000, 5000, 10000},
    .source = "CIFAR-10's binary version: " ARCHIVE " or the directory it holds",
    .archive = ARCHIVE,
    .url = URL,
    .tokens = TOKENS_PIXELS,
    .labels = class_names,
    .import = import,
    .recognise = recognise,
    .print = print,
};
