/* Image: the ten classes of CIFAR-10 (Krizhevsky 2009), grey, as 1024 intensities; the id is the
 * intensity.
 *
 * Import reads CIFAR-10's binary version: data_batch_1..5.bin and test_batch.bin, records of a
 * label byte and 1024 bytes each of red, green and blue (3073), or of a label and 1024 bytes that
 * are grey already (1025). Which of the two, a file's size says: it is a multiple of one of them.
 * Both divide only multiples of 3,149,825 bytes; then the form in which every label is 0 to 9 is
 * taken, colour first.
 *
 * Validation is a tenth of the 50,000 training images: those that a Philox permutation keyed by the
 * seed and "image.holdout" puts first. The test images are the official ones; all keep the official
 * order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "data/grey.h"
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

#define SOURCE "CIFAR-10 binary version"
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

static void to_grey(unsigned char *out, const unsigned char *rgb, const GreyTable *t) {
    for (int i = 0; i < PIXELS; i++)
        out[i] = grey_of(t, rgb[i], rgb[PIXELS + i], rgb[2 * PIXELS + i]);
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
            "from byte %zu, breaks off) nor of %d (label, grey; record %zu, from byte %zu): fetch "
            "it again from " URL,
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
    grey_table(&table);
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

static bool read_directory(Batch *batches, const char *dir, Err *err) {
    for (int i = 0; i < BATCHES; i++) {
        char path[FILE_PATH_MAX];
        if (!task_join(path, dir, file_names[i])) continue;
        FileMap map;
        if (!file_map(&map, path, err)) return false;
        bool ok = file_fits(path, map.size, FILE_MAX, err) &&
                  read_batch(&batches[i], path, map.data, map.size, err);
        file_unmap(&map);
        if (!ok) return false;
    }
    return true;
}

/* An archive's file is one by its name, whatever its folder. */
static bool read_entry(void *batches, Tar *tar, const TarEntry *entry, Err *err) {
    const char *slash = strrchr(entry->name, '/'), *name = slash ? slash + 1 : entry->name;
    int i = 0;
    while (i < BATCHES && strcmp(name, file_names[i]) != 0) i++;
    if (i == BATCHES) return true;
    Batch *b = (Batch *)batches + i;
    if (b->records) return err_set(err, EX_DATAERR, "%s: is in the archive twice", entry->title);
    unsigned char *bytes = tar_bytes(tar, entry, FILE_MAX, err);
    bool ok = bytes && read_batch(b, entry->title, bytes, (size_t)entry->size, err);
    mem_free(bytes);
    return ok;
}

/* Where under `from` the files are: a folder of them, one that holds their folder or the archive,
 * or the archive. */
static bool locate(char *place, const char *from) {
    static const char *const here[] = {NULL};
    for (int i = 0; i < BATCHES; i++)
        if (task_locate(place, from, here, file_names[i])) return true;
    return task_join(place, from, FOLDER) || task_join(place, from, ARCHIVE);
}

static bool read_all(const Task *t, Batch *batches, const char *from, Err *err) {
    char place[FILE_PATH_MAX];
    if (!task_place(t, place, from, err)) return false;
    bool ok = file_is_dir(place) ? read_directory(batches, place, err)
                                 : tar_each(place, archive_limits, read_entry, batches, err);
    if (!ok) return false;
    for (int i = 0; i < BATCHES; i++)
        if (!batches[i].records)
            return err_set(err, EX_NOINPUT,
                           "%s: %s is missing: expected data_batch_1.bin to data_batch_5.bin and "
                           "test_batch.bin, as in " URL,
                           place, file_names[i]);
    return true;
}

/* split: of each image; NULL: all are of test. */
static void add_images(DatasetWriter *const w[SPLITS], const Batch *b, const unsigned char *split) {
    for (int i = 0; i < b->count; i++) {
        const unsigned char *record = b->records + (size_t)i * GREY;
        DatasetWriter *to = w[split ? split[i] : SPLIT_TEST];
        dataset_add_example(to, record[0], dataset_add_bytes(to, record + 1, PIXELS, 0), -1);
    }
}

static bool write_splits(const Task *t, const Batch *batches, const TaskRequest *r, Err *err) {
    int n = 0;
    for (int i = 0; i < TEST; i++) n += batches[i].count;
    if (n < HELD_OUT)
        return err_set(err, EX_DATAERR, "%s: %d training images, expected at least %d", r->from, n,
                       HELD_OUT);
    DatasetWriter *w[SPLITS];
    task_writers(w, t, SOURCE ", grey; one training image in %d held out by seed %" PRIu64,
                 HELD_OUT, r->seed);
    unsigned char *split = task_deal(n, n / HELD_OUT, 0, r->seed, "image.holdout");
    for (int i = 0, at = 0; i < TEST; at += batches[i++].count)
        add_images(w, &batches[i], split + at);
    add_images(w, &batches[TEST], NULL);
    mem_free(split);
    return task_finish(w, true, r->out, err);
}

static bool import(const Task *t, const TaskRequest *r, Err *err) {
    Batch batches[BATCHES] = {0};
    bool ok = read_all(t, batches, r->from, err) && write_splits(t, batches, r, err);
    for (int i = 0; i < BATCHES; i++) mem_free(batches[i].records);
    return ok;
}

const Task task_image = {
    .name = "image",
    .title = "ten classes of pictures, pixel by pixel; CIFAR-10 in grey",
    .vocab = 256,
    .classes = CLASSES,
    .per_example = 1,
    .max_length = PIXELS,
    .masked = 0.5,
    .official = {45000, 5000, 10000},
    .imported = SOURCE,
    .archive = ARCHIVE,
    .url = URL,
    .tokens = TOKENS_PIXELS,
    .labels = class_names,
    .import = import,
    .locate = locate,
    .holds = "data_batch_1.bin, " FOLDER " or " ARCHIVE ": fetch " URL,
    .unpacks = true,
    .augment = augment_picture,
    .augment_keys = augment_picture_keys,
};
