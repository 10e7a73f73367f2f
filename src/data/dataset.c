#include "data/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"
#include "data/bytes.h"
#include "data/grey.h"
#include "io/lock.h"

#define FORMAT "cast-dataset-1"
enum { SCAN = 1 << 12 };

const char *const split_names[SPLITS + 1] = {"train", "val", "test", NULL};

bool dataset_path(char buf[FILE_PATH_MAX], const char *dir, int split, Err *err) {
    char name[32];
    snprintf(name, sizeof name, "%s.safetensors", split_names[split]);
    return file_in(buf, dir, name, err);
}

bool dataset_is_whole(const char *dir) {
    char path[FILE_PATH_MAX];
    Err ignored;
    bool whole = true;
    for (int s = 0; whole && s < SPLITS; s++)
        whole = dataset_path(path, dir, s, &ignored) && file_exists(path);
    return whole;
}

static bool meta_int(const StFile *f, const char *key, int max, int *out, Err *err) {
    const char *text = st_meta(f, key);
    if (!text) return err_set(err, EX_DATAERR, "%s: its metadata has no \"%s\"", f->path, key);
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || *end || v < 1 || v > max)
        return err_set(err, EX_DATAERR, "%s: metadata \"%s\": expected 1 to %d, got \"%.40s\"",
                       f->path, key, max, text);
    *out = (int)v;
    return true;
}

const char *dataset_kind_of(const char *ids, int vocab) {
    if (ids && !strcmp(ids, DATASET_BYTES) && vocab == BYTES_VOCAB) return DATASET_BYTES;
    if (ids && !strcmp(ids, DATASET_PIXELS) && vocab == GREYS) return DATASET_PIXELS;
    return NULL;
}

const char *dataset_kind(const Dataset *d) {
    return dataset_kind_of(st_meta(&d->file, DATASET_IDS), d->vocab);
}

static bool check_kind(const Dataset *d, Err *err) {
    const char *ids = st_meta(&d->file, DATASET_IDS);
    if (!ids || dataset_kind(d)) return true;
    return err_set(
        err, EX_DATAERR,
        "%s: metadata \"ids\": expected \"bytes\" of a vocab of %d or \"pixels\" of %d, got "
        "\"%.40s\" of %d",
        d->file.path, BYTES_VOCAB, GREYS, ids, d->vocab);
}

static bool read_meta(Dataset *d, Err *err) {
    const StFile *f = &d->file;
    const char *format = st_meta(f, "format"), *hash = st_meta(f, "hash");
    snprintf(d->hash, sizeof d->hash, "%s", hash ? hash : "");
    if (format && strcmp(format, FORMAT) != 0)
        return err_set(err, EX_DATAERR,
                       "%s: format \"%.40s\" is not a dataset of this version (\"%s\")", f->path,
                       format, FORMAT);
    return meta_int(f, "vocab", DATASET_VOCAB_MAX, &d->vocab, err) &&
           meta_int(f, "classes", DATASET_CLASSES_MAX, &d->classes, err) && check_kind(d, err);
}

static const StTensor *want_vector(const StFile *f, const char *name, Dtype dtype, int64_t least,
                                   Err *err) {
    const StTensor *t = st_want(f, name, dtype, 1, (const int64_t[]){-1}, err);
    if (!t) return NULL;
    if (t->shape[0] >= least && t->shape[0] < INT_MAX) return t;
    err_set(err, EX_DATAERR, "%s: tensor %s: expected %" PRId64 " to %d elements, got %" PRId64,
            f->path, name, least, INT_MAX - 1, t->shape[0]);
    return NULL;
}

/* There are as many examples as pairs or documents, of class 0. */
static bool do_without_labels(Dataset *d, Err *err) {
    const StTensor *pairs = st_find(&d->file, "pairs");
    if (pairs && !(pairs = st_want(&d->file, "pairs", DT_I32, 2, (const int64_t[]){-1, 2}, err)))
        return false;
    const int64_t n = pairs ? pairs->shape[0] : d->documents;
    if (n < 1 || n >= INT_MAX)
        return err_set(err, EX_DATAERR, "%s: %" PRId64 " examples", d->file.path, n);
    d->examples = (int)n;
    d->labels = d->unlabelled = mem_alloc((size_t)n, sizeof *d->unlabelled);
    return true;
}

static bool find_labels(Dataset *d, bool needed, Err *err) {
    if (!needed) return do_without_labels(d, err);
    const StTensor *labels = want_vector(&d->file, "labels", DT_I32, 1, err);
    if (!labels) return false;
    d->labels = labels->data;
    d->examples = (int)labels->shape[0];
    return true;
}

static bool find_tokens(Dataset *d, Err *err) {
    const StFile *f = &d->file;
    const StTensor *tokens = st_find(f, "tokens");
    const bool wide = tokens && tokens->dtype == DT_I16;
    if (tokens && !wide && tokens->dtype != DT_U8) {
        char found[ST_DESCRIBED];
        st_describe(found, tokens->dtype, tokens->ndim, tokens->shape);
        return err_set(err, EX_DATAERR,
                       "%s: tensor 'tokens' must be U8, or I16 where ids are above 255, is %s",
                       f->path, found);
    }
    tokens = st_want(f, "tokens", wide ? DT_I16 : DT_U8, 1, (const int64_t[]){-1}, err);
    if (!tokens) return false;
    d->tokens16 = wide ? tokens->data : NULL;
    d->tokens8 = wide ? NULL : tokens->data;
    return true;
}

static bool find_tensors(Dataset *d, bool labels, Err *err) {
    const StFile *f = &d->file;
    const StTensor *offsets = want_vector(f, "offsets", DT_I64, 2, err);
    if (!offsets) return false;
    d->offsets = offsets->data;
    d->documents = (int)(offsets->shape[0] - 1);
    if (!find_labels(d, labels, err)) return false;
    d->per_example = st_find(f, "pairs") ? 2 : 1;
    if (d->per_example == 1 && d->examples != d->documents)
        return err_set(err, EX_DATAERR,
                       "%s: %d labels for %d sequences (offsets has one more), and no pairs",
                       f->path, d->examples, d->documents);
    if (d->per_example == 2) {
        const StTensor *pairs =
            st_want(f, "pairs", DT_I32, 2, (const int64_t[]){d->examples, 2}, err);
        if (!pairs) return false;
        d->pairs = pairs->data;
    }
    return find_tokens(d, err);
}

/* What people call document i: its example, or for pairs the document itself. */
static const char *unit(const Dataset *d) { return d->per_example == 1 ? "example" : "document"; }

static bool check_offsets(const Dataset *d, Err *err) {
    const char *path = d->file.path;
    int64_t total = st_find(&d->file, "tokens")->shape[0];
    if (d->offsets[0] != 0)
        return err_set(err, EX_DATAERR, "%s: offsets begin with %" PRId64 ", expected 0", path,
                       d->offsets[0]);
    for (int i = 0; i < d->documents; i++) {
        int64_t from = d->offsets[i], to = d->offsets[i + 1];
        if (to > from && to <= total && to - from <= INT_MAX) continue;
        return err_set(err, EX_DATAERR,
                       "%s: %s %d: its offsets are %" PRId64 " to %" PRId64
                       ", expected at least one token and at most %" PRId64,
                       path, unit(d), i, from, to, total);
    }
    if (d->offsets[d->documents] != total)
        return err_set(err, EX_DATAERR,
                       "%s: offsets end at %" PRId64 ", but there are %" PRId64 " tokens", path,
                       d->offsets[d->documents], total);
    return true;
}

static unsigned largest_id(const Dataset *d, int64_t from, int64_t to) {
    unsigned max = 0;
    for (int64_t i = from; i < to; i++) max = dataset_id(d, i) > max ? dataset_id(d, i) : max;
    return max;
}

static bool check_ids(const Dataset *d, Err *err) {
    int64_t total = d->offsets[d->documents];
    unsigned vocab = (unsigned)d->vocab;
    if (d->tokens8 && vocab > UINT8_MAX) return true;
    for (int64_t from = 0; from < total; from += SCAN) {
        int64_t to = from + SCAN < total ? from + SCAN : total;
        if (largest_id(d, from, to) < vocab) continue;
        while (dataset_id(d, from) < vocab) from++;
        int doc = 0;
        while (d->offsets[doc + 1] <= from) doc++;
        int id = d->tokens8 ? d->tokens8[from] : d->tokens16[from];
        return err_set(err, EX_DATAERR, "%s: %s %d: token %" PRId64 " is %d, expected 0 to %d",
                       d->file.path, unit(d), doc, from - d->offsets[doc], id, d->vocab - 1);
    }
    return true;
}

static bool check_examples(const Dataset *d, Err *err) {
    for (int i = 0; i < d->examples; i++) {
        if (d->labels[i] < 0 || d->labels[i] >= d->classes)
            return err_set(err, EX_DATAERR, "%s: example %d: label %d, expected 0 to %d",
                           d->file.path, i, (int)d->labels[i], d->classes - 1);
        for (int which = 0; d->pairs && which < 2; which++) {
            const int doc = dataset_document(d, i, which);
            if (doc < 0 || doc >= d->documents)
                return err_set(err, EX_DATAERR,
                               "%s: example %d: pairs names document %d, expected 0 to %d",
                               d->file.path, i, doc, d->documents - 1);
        }
    }
    return true;
}

static bool check_count(const Dataset *d, Err *err) {
    int count;
    if (!st_meta(&d->file, "count")) return true;
    if (!meta_int(&d->file, "count", INT_MAX, &count, err)) return false;
    if (count == d->examples) return true;
    return err_set(err, EX_DATAERR, "%s: metadata \"count\" says %d, but there are %d examples",
                   d->file.path, count, d->examples);
}

static bool open_set(Dataset *d, const char *path, bool labels, Err *err) {
    *d = (Dataset){0};
    if (!st_open(&d->file, path, err)) return false;
    if (read_meta(d, err) && find_tensors(d, labels, err) && check_count(d, err) &&
        (!labels || classes_open(&d->class_names, &d->file, d->classes, err)) &&
        check_offsets(d, err) && check_ids(d, err) && check_examples(d, err))
        return true;
    dataset_close(d);
    return false;
}

bool dataset_open(Dataset *d, const char *path, Err *err) { return open_set(d, path, true, err); }

bool dataset_open_unlabelled(Dataset *d, const char *path, Err *err) {
    return open_set(d, path, false, err);
}

void dataset_close(Dataset *d) {
    st_close(&d->file);
    classes_close(&d->class_names);
    mem_free(d->unlabelled);
    *d = (Dataset){0};
}

int dataset_document(const Dataset *d, int example, int which) {
    return d->pairs ? d->pairs[2 * (size_t)example + (size_t)which] : example;
}

int dataset_length(const Dataset *d, int document) {
    return (int)(d->offsets[document + 1] - d->offsets[document]);
}

int dataset_longest(const Dataset *d) {
    int most = 0;
    for (int i = 0; i < d->documents; i++)
        if (dataset_length(d, i) > most) most = dataset_length(d, i);
    return most;
}

int dataset_tokens(const Dataset *d, int document, int max_length, int *out) {
    int n = dataset_length(d, document);
    if (n > max_length) n = max_length;
    int64_t at = d->offsets[document];
    for (int i = 0; i < n; i++) out[i] = (int)dataset_id(d, at + i);
    return n;
}

/* The content, whatever the order of tensors in the file: tokens, offsets, labels, pairs. */
static uint32_t content_hash(const StTensor *tensors, int n) {
    static const char *const order[] = {"tokens", "offsets", "labels", "pairs"};
    uLong crc = 0;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (int i = 0; i < n; i++)
            if (strcmp(tensors[i].name, order[k]) == 0)
                crc = crc32_z(crc, tensors[i].data, tensors[i].bytes);
    return (uint32_t)crc;
}

void dataset_hash(const Dataset *d, char hash[DATASET_HASH]) {
    snprintf(hash, DATASET_HASH, "%08" PRIx32, content_hash(d->file.tensors, d->file.ntensors));
}

bool dataset_check_hash(const Dataset *d, Err *err) {
    const char *stored = st_meta(&d->file, "hash");
    char hash[DATASET_HASH];
    dataset_hash(d, hash);
    if (stored && strcmp(stored, hash) != 0)
        return err_set(err, EX_DATAERR,
                       "%s: its data's hash is %s, the metadata say %.16s: damaged, make it again",
                       d->file.path, hash, stored);
    return st_check_crc(&d->file, err);
}

struct DatasetWriter {
    char *task, *split, *source;
    int vocab, classes, documents, examples;
    bool pairs;
    size_t width; /* bytes of a token */
    unsigned char *tokens;
    int64_t *offsets;
    int32_t *labels, *couples; /* couples: (examples,2) */
    size_t tokens_cap, offsets_cap, labels_cap, couples_cap;
};

DatasetWriter *dataset_writer(const char *task, const char *split, const char *source, int vocab,
                              int classes, bool pairs) {
    REQUIRE(vocab > 0 && vocab <= DATASET_VOCAB_MAX && classes > 0, "vocab %d, classes %d", vocab,
            classes);
    DatasetWriter *w = mem_alloc(1, sizeof *w);
    w->task = mem_strdup(task);
    w->split = mem_strdup(split);
    w->source = mem_strdup(source);
    w->vocab = vocab;
    w->classes = classes;
    w->pairs = pairs;
    w->width = vocab <= UINT8_MAX + 1 ? 1 : 2;
    w->offsets = mem_reserve(NULL, 1, &w->offsets_cap, sizeof *w->offsets);
    w->offsets[0] = 0;
    return w;
}

void dataset_writer_free(DatasetWriter *w) {
    if (!w) return;
    void *owned[] = {w->task, w->split, w->source, w->tokens, w->offsets, w->labels, w->couples, w};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) mem_free(owned[i]);
}

int dataset_add_document(DatasetWriter *w, const int *tokens, int length) {
    REQUIRE(length > 0 && w->documents < INT_MAX - 2, "length %d, document %d", length,
            w->documents);
    size_t at = (size_t)w->offsets[w->documents];
    w->tokens = mem_reserve(w->tokens, at + (size_t)length, &w->tokens_cap, w->width);
    for (int i = 0; i < length; i++) {
        REQUIRE(tokens[i] >= 0 && tokens[i] < w->vocab, "id %d of vocabulary %d", tokens[i],
                w->vocab);
        if (w->width == 1)
            w->tokens[at + (size_t)i] = (unsigned char)tokens[i];
        else
            ((int16_t *)(void *)w->tokens)[at + (size_t)i] = (int16_t)tokens[i];
    }
    w->offsets =
        mem_reserve(w->offsets, (size_t)w->documents + 2, &w->offsets_cap, sizeof *w->offsets);
    w->offsets[++w->documents] = (int64_t)at + length;
    return w->documents - 1;
}

int dataset_add_bytes(DatasetWriter *w, const void *bytes, size_t size, int first) {
    REQUIRE(size <= INT_MAX, "a document of %zu bytes", size);
    const unsigned char *byte = bytes;
    int *ids = mem_alloc(size, sizeof *ids);
    for (size_t i = 0; i < size; i++) ids[i] = first + byte[i];
    const int document = dataset_add_document(w, ids, (int)size);
    mem_free(ids);
    return document;
}

void dataset_add_example(DatasetWriter *w, int label, int first, int second) {
    REQUIRE(label >= 0 && label < w->classes, "label %d of %d", label, w->classes);
    REQUIRE(first >= 0 && first < w->documents, "document %d of %d", first, w->documents);
    REQUIRE(w->pairs ? second >= 0 && second < w->documents : first == w->examples && second == -1,
            "example %d of documents %d, %d", w->examples, first, second);
    size_t n = (size_t)w->examples++;
    w->labels = mem_reserve(w->labels, n + 1, &w->labels_cap, sizeof *w->labels);
    w->labels[n] = label;
    if (!w->pairs) return;
    w->couples = mem_reserve(w->couples, 2 * n + 2, &w->couples_cap, sizeof *w->couples);
    w->couples[2 * n] = first;
    w->couples[2 * n + 1] = second;
}

static bool put(const DatasetWriter *w, AtomicFile *a, const char *path, Err *err) {
    REQUIRE(w->examples > 0, "%s: no example", path);
    REQUIRE(w->pairs || w->examples == w->documents, "%s: %d examples, %d documents", path,
            w->examples, w->documents);
    Dtype id = w->width == 1 ? DT_U8 : DT_I16;
    const int64_t documents[] = {w->documents + 1}, examples[] = {w->examples, 2};
    const StTensor tensors[] = {st_tensor("tokens", id, 1, &w->offsets[w->documents], w->tokens),
                                st_tensor("offsets", DT_I64, 1, documents, w->offsets),
                                st_tensor("labels", DT_I32, 1, examples, w->labels),
                                st_tensor("pairs", DT_I32, 2, examples, w->couples)};
    int ntensors = w->pairs ? 4 : 3;
    char vocab[16], classes[16], count[16], hash[16];
    snprintf(vocab, sizeof vocab, "%d", w->vocab);
    snprintf(classes, sizeof classes, "%d", w->classes);
    snprintf(count, sizeof count, "%d", w->examples);
    snprintf(hash, sizeof hash, "%08" PRIx32, content_hash(tensors, ntensors));
    const StMeta meta[] = {
        {"format", FORMAT}, {"task", w->task},    {"split", w->split}, {"source", w->source},
        {"vocab", vocab},   {"classes", classes}, {"count", count},    {"hash", hash},
    };
    return st_put(a, path, KIND_DATASET, tensors, ntensors, meta, sizeof meta / sizeof *meta, err);
}

bool dataset_write(DatasetWriter *w, const char *path, Err *err) {
    AtomicFile a;
    return put(w, &a, path, err) && atomic_commit(&a, err);
}

void dataset_of(Dataset *d, const DatasetWriter *w) {
    *d = (Dataset){.examples = w->examples,
                   .documents = w->documents,
                   .per_example = w->pairs ? 2 : 1,
                   .vocab = w->vocab,
                   .classes = w->classes,
                   .tokens8 = w->width == 1 ? w->tokens : NULL,
                   .tokens16 = w->width == 1 ? NULL : (const int16_t *)(const void *)w->tokens,
                   .offsets = w->offsets,
                   .labels = w->labels,
                   .pairs = w->couples};
}

/* Whether what is there, if anything, is of that task. One that is damaged may be replaced. */
static bool is_of_task(const char *path, const char *task, Err *err) {
    StFile f;
    Err ignored;
    if (!file_exists(path) || !st_open(&f, path, &ignored)) return true;
    const char *theirs = st_meta(&f, "task");
    const bool same = theirs && !strcmp(theirs, task);
    if (!same)
        err_set(err, EX_CANTCREAT,
                "%s: is there and is of %.40s, so no set of %s takes its place: give another "
                "directory, or remove it",
                path, theirs ? theirs : "no task that it names", task);
    st_close(&f);
    return same;
}

static bool is_own(const char *path, Err *err) {
    return !file_is_link(path) ||
           err_set(err, EX_CANTCREAT,
                   "%s: is a link, and the set that it leads to would be written over: remove it, "
                   "or give another directory",
                   path);
}

bool dataset_may_write(const char *dir, const char *task, Err *err) {
    char path[FILE_PATH_MAX];
    for (int s = 0; s < SPLITS; s++)
        if (!dataset_path(path, dir, s, err) || !is_own(path, err) ||
            !kind_may_replace(path, KIND_DATASET, err) || !is_of_task(path, task, err))
            return false;
    return true;
}

void dataset_tidy(const char *dir) {
    char path[FILE_PATH_MAX];
    Err ignored;
    for (int s = 0; s < SPLITS; s++)
        if (dataset_path(path, dir, s, &ignored)) atomic_tidy(path);
}

/* Train goes before the first of the others changes and comes back last. */
static bool take_places(AtomicFile file[SPLITS], Err *err) {
    if (!file_remove(file[SPLIT_TRAIN].path, err)) return false;
    for (int s = SPLITS; s-- > 0;)
        if (!atomic_commit(&file[s], err))
            return err_set(err, err->code, "%s. The set is no longer whole: make it again",
                           err->text);
    return true;
}

bool dataset_write_splits(DatasetWriter *const w[SPLITS], const char *dir, Err *err) {
    AtomicFile file[SPLITS] = {0};
    char path[FILE_PATH_MAX];
    DirLock lock;
    if (!file_make_dirs(dir, err)) return false;
    lock_wait(&lock, dir);
    bool ok = true;
    for (int s = 0; ok && s < SPLITS; s++)
        ok = dataset_path(path, dir, s, err) && put(w[s], &file[s], path, err) &&
             atomic_prepare(&file[s], err);
    ok = ok && take_places(file, err);
    for (int s = 0; s < SPLITS; s++) atomic_abandon(&file[s]);
    lock_release(&lock);
    return ok;
}
