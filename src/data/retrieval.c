/* Retrieval: does one of two papers of the ACL Anthology Network (Radev et al. 2009) cite the
 * other? Two documents an example, as bytes: id is byte + 1, 0 is padding; classes 0 no, 1 yes.
 * Nothing is cleaned or cut.
 *
 * Import reads the Long Range Arena's new_aan_pairs.{train,eval,test}.tsv, lines without a header
 * of five columns between TABs: label (0, 1, 0.0 or 1.0), both papers' ids, both texts; quotes mean
 * nothing. Or, where these are not there, new_aan_pairs.*.only_ids.tsv, lines of the first three
 * columns, and beside them papers_text/<id>.txt.
 *
 * A split holds each paper once. An id that comes with several texts stands for several documents,
 * because what is to be read is what the line says; how many there are is told. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/bytes.h"
#include "data/task.h"
#include "io/lines.h"

#define URL "https://storage.googleapis.com/long-range-arena/lra_release.gz"
#define TEXTS "papers_text"

enum { CLASSES = 2, ID_MOST = 64, COLUMNS_IDS = 3, COLUMNS_TEXTS = 5 };

static const char *const labels[CLASSES] = {"neither cites the other", "one cites the other"};
static const char *const files[2][SPLITS] = {
    {"new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"},
    {"new_aan_pairs.train.only_ids.tsv", "new_aan_pairs.eval.only_ids.tsv",
     "new_aan_pairs.test.only_ids.tsv"},
};
static const char *const folders[] = {"tsv_data", "lra_release/tsv_data",
                                      "lra_release/lra_release/tsv_data", NULL};

/* From hashes to documents: open addressing, at most half full; 0 marks an empty slot. Two of
 * 50,000 papers share 64 bits with a chance of 1e-10; they would count as one. */
typedef struct Map {
    uint64_t *hash;
    int *document;
    size_t slots, used;
} Map;

static size_t map_slot(const Map *m, uint64_t hash) {
    size_t i = (size_t)hash & (m->slots - 1);
    while (m->hash[i] != 0 && m->hash[i] != hash) i = (i + 1) & (m->slots - 1);
    return i;
}

static void map_free(Map *m) {
    mem_free(m->hash);
    mem_free(m->document);
    *m = (Map){0};
}

static void map_grow(Map *m) {
    Map bigger = {.slots = m->slots ? 2 * m->slots : 1024, .used = m->used};
    bigger.hash = mem_alloc(bigger.slots, sizeof *bigger.hash);
    bigger.document = mem_alloc(bigger.slots, sizeof *bigger.document);
    for (size_t i = 0; i < m->slots; i++) {
        if (m->hash[i] == 0) continue;
        size_t to = map_slot(&bigger, m->hash[i]);
        bigger.hash[to] = m->hash[i];
        bigger.document[to] = m->document[i];
    }
    map_free(m);
    *m = bigger;
}

/* The document of a hash, -1 for one that is new: then the caller sets it. */
static int *map_find(Map *m, uint64_t hash) {
    if (2 * m->used >= m->slots) map_grow(m);
    if (hash == 0) hash = 1;
    size_t i = map_slot(m, hash);
    if (m->hash[i] == 0) {
        m->hash[i] = hash;
        m->document[i] = -1;
        m->used++;
    }
    return &m->document[i];
}

/* FNV-1a. */
static uint64_t hash_more(uint64_t h, Span s) {
    for (size_t i = 0; i < s.size; i++) h = (h ^ (unsigned char)s.at[i]) * 0x100000001b3u;
    return h;
}
static uint64_t hash_span(Span s) { return hash_more(0xcbf29ce484222325u, s); }

/* A split that is being read. */
typedef struct Reading {
    Lines lines;
    const char *dir;
    bool texts; /* in the lines */
    DatasetWriter *w;
    Map ids, papers; /* by id; by id and text */
    int apart;       /* documents whose id had another text before */
} Reading;

static bool refuse(const Reading *r, Err *err, const char *what, Span got) {
    const int most = 40;
    return err_set(err, EX_DATAERR, "%s: line %d: %s, got \"%.*s\"", r->lines.path, r->lines.line,
                   what, got.size > (size_t)most ? most : (int)got.size, got.at);
}

static bool read_label(const Reading *r, Span s, int *label, Err *err) {
    *label = span_is(s, "1") || span_is(s, "1.0");
    return *label || span_is(s, "0") || span_is(s, "0.0") ||
           refuse(r, err, "expected the label 0, 1, 0.0 or 1.0", s);
}

/* An id becomes a file's name, so it may not lead anywhere else. */
static bool check_id(const Reading *r, Span id, Err *err) {
    bool ok = id.size > 0 && id.size <= ID_MOST && id.at[0] != '.';
    for (size_t i = 0; ok && i < id.size; i++)
        ok = isalnum((unsigned char)id.at[i]) || strchr("-_.", id.at[i]);
    return ok || refuse(r, err, "expected a paper's id: letters, digits, '-', '_' and '.'", id);
}

static bool add_file(Reading *r, Span id, int *document, Err *err) {
    char path[FILE_PATH_MAX];
    FileMap map;
    int n = snprintf(path, sizeof path, "%s/" TEXTS "/%.*s.txt", r->dir, (int)id.size, id.at);
    if (n >= FILE_PATH_MAX)
        return err_set(err, EX_USAGE, "%.80s...: this name is longer than %d bytes", r->dir,
                       FILE_PATH_MAX);
    if (!file_map(&map, path, err))
        return err_set(err, err->code, "%s: line %d: %s", r->lines.path, r->lines.line, err->text);
    bool ok = map.size <= LINE_MOST;
    if (ok)
        *document = bytes_add(r->w, map.data, map.size);
    else
        err_set(err, EX_DATAERR, "%s: %zu bytes, expected at most %d", path, map.size, LINE_MOST);
    file_unmap(&map);
    return ok;
}

/* `text` is of no interest where texts are in files. */
static bool find_document(Reading *r, Span id, Span text, int *document, Err *err) {
    if (!check_id(r, id, err)) return false;
    int *known = map_find(&r->ids, hash_span(id));
    if (r->texts) {
        if (text.size == 0) return refuse(r, err, "an empty text of a paper", id);
        const Span tab = {"\t", 1};
        int *paper = map_find(&r->papers, hash_more(hash_more(hash_span(id), tab), text));
        if (*paper < 0) {
            r->apart += *known >= 0;
            *paper = bytes_add(r->w, text.at, text.size);
        }
        *known = *paper;
    } else if (*known < 0 && !add_file(r, id, known, err)) {
        return false;
    }
    *document = *known;
    return true;
}

static bool read_line(Reading *r, Err *err) {
    const int want = r->texts ? COLUMNS_TEXTS : COLUMNS_IDS;
    Span c[COLUMNS_TEXTS] = {{0}};
    int document[2], label, n = lines_columns(&r->lines, c, want);
    if (n != want)
        return err_set(err, EX_DATAERR, "%s: line %d: %d columns, expected %d: %s", r->lines.path,
                       r->lines.line, n, want,
                       r->texts ? "label, two ids, two texts" : "label, two ids");
    if (!read_label(r, c[0], &label, err)) return false;
    for (int i = 0; i < 2; i++)
        if (!find_document(r, c[1 + i], c[3 + i], &document[i], err)) return false;
    dataset_add_example(r->w, label, document[0], document[1]);
    return true;
}

static bool read_split(Reading *r, const char *path, Err *err) {
    if (!lines_open(&r->lines, path, err)) return false;
    bool ok;
    while ((ok = lines_next(&r->lines, err)) && r->lines.text.at)
        if (!(ok = read_line(r, err))) break;
    if (ok && r->apart)
        log_warn("%s: %d texts are not the first ones of their papers' ids: kept as documents of "
                 "their own",
                 path, r->apart);
    lines_close(&r->lines);
    return ok;
}

/* Where the files lie, and whether they are those with texts. */
static bool locate(char *buf, const char *from, bool *texts) {
    *texts = task_locate(buf, from, folders, files[0][SPLIT_TRAIN]);
    return *texts || task_locate(buf, from, folders, files[1][SPLIT_TRAIN]);
}

static bool read_all(DatasetWriter *const w[SPLITS], const char *dir, bool texts, Err *err) {
    bool ok = true;
    for (int s = 0; ok && s < SPLITS; s++) {
        char path[FILE_PATH_MAX];
        Reading r = {.dir = dir, .texts = texts, .w = w[s]};
        ok = dataset_file(path, dir, files[texts ? 0 : 1][s], err) && read_split(&r, path, err);
        map_free(&r.ids);
        map_free(&r.papers);
    }
    return ok;
}

static bool import(const TaskRequest *r, Err *err) {
    char dir[FILE_PATH_MAX], source[128];
    bool texts;
    if (!file_exists(r->from))
        return err_set(err, EX_NOINPUT, "%s: no such file or directory", r->from);
    if (!locate(dir, r->from, &texts))
        return err_set(err, EX_NOINPUT,
                       "%s: holds no %s, nor %s with " TEXTS
                       "; they are the folder tsv_data of " URL,
                       r->from, files[0][0], files[1][0]);
    snprintf(source, sizeof source, "ACL Anthology Network, the Long Range Arena's pairs; %s",
             texts ? "its texts" : "texts from " TEXTS);
    DatasetWriter *w[SPLITS];
    for (int s = 0; s < SPLITS; s++)
        w[s] = dataset_writer("retrieval", split_names[s], source, BYTES_VOCAB, CLASSES, true);
    bool ok = read_all(w, dir, texts, err) && dataset_write_splits(w, r->out, err);
    for (int s = 0; s < SPLITS; s++) dataset_writer_free(w[s]);
    return ok;
}

static bool recognise(const char *dir) {
    char place[FILE_PATH_MAX];
    bool texts;
    return locate(place, dir, &texts);
}

static void print(const int *tokens, int length, int label) {
    bytes_print(tokens, length);
    if (label >= 0) printf("= %s (label %d)\n", labels[label], label);
}

const Task task_retrieval = {
    .name = "retrieval",
    .title = "does one of two papers cite the other, from their bytes; AAN, two documents an "
             "example",
    .vocab = BYTES_VOCAB,
    .classes = CLASSES,
    .per_example = 2,
    .max_length = 4000,
    .official = {147086, 18090, 17437},
    .source = "the folder tsv_data of the Long Range Arena's release, or its lists of ids with the "
              "papers' texts",
    .archive = "lra_release/lra_release/tsv_data",
    .url = URL,
    .tokens = TOKENS_BYTES,
    .labels = labels,
    .import = import,
    .recognise = recognise,
    .print = print,
};
