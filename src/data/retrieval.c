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

#include "core/hash.h"
#include "core/log.h"
#include "core/mem.h"
#include "data/bytes.h"
#include "data/hashmap.h"
#include "data/task.h"
#include "io/lines.h"

#define SOURCE "ACL Anthology Network"
#define URL "https://storage.googleapis.com/long-range-arena/lra_release.gz"
#define TEXTS "papers_text"

enum { CLASSES = 2, ID_MOST = 64, COLUMNS_IDS = 3, COLUMNS_TEXTS = 5 };

static const char *const labels[CLASSES] = {"neither cites the other", "one cites the other"};
#define TABLE "new_aan_pairs.train.tsv"
#define LIST "new_aan_pairs.train.only_ids.tsv"
static const char *const files[2][SPLITS] = {
    {TABLE, "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"},
    {LIST, "new_aan_pairs.eval.only_ids.tsv", "new_aan_pairs.test.only_ids.tsv"},
};
static const char *const folders[] = {"tsv_data", "lra_release/tsv_data",
                                      "lra_release/lra_release/tsv_data", NULL};

typedef struct Reading {
    Lines lines;
    const char *dir;
    bool texts; /* in the lines */
    DatasetWriter *w;
    HashMap ids, papers; /* documents by id; by id and text */
    int apart;           /* documents whose id had another text before */
} Reading;

static bool read_label(const Reading *r, Span s, int *label, Err *err) {
    *label = span_is(s, "1") || span_is(s, "1.0");
    return *label || span_is(s, "0") || span_is(s, "0.0") ||
           lines_refuse(&r->lines, "expected the label 0, 1, 0.0 or 1.0, got", s, err);
}

/* An id becomes a file's name, so it may not lead anywhere else. */
static bool check_id(const Reading *r, Span id, Err *err) {
    bool ok = id.size > 0 && id.size <= ID_MOST && id.at[0] != '.';
    for (size_t i = 0; ok && i < id.size; i++)
        ok = isalnum((unsigned char)id.at[i]) || strchr("-_.", id.at[i]);
    return ok ||
           lines_refuse(&r->lines, "expected a paper's id: letters, digits, '-', '_' and '.', got",
                        id, err);
}

static bool add_file(Reading *r, Span id, int *document, Err *err) {
    char name[sizeof TEXTS "/.txt" + ID_MOST], path[FILE_PATH_MAX];
    FileMap map;
    snprintf(name, sizeof name, TEXTS "/%.*s.txt", (int)id.size, id.at);
    if (!file_in(path, r->dir, name, err)) return false;
    if (!file_map(&map, path, err))
        return err_set(err, err->code, "%s: line %d: %s", r->lines.path, r->lines.line, err->text);
    bool ok = file_fits(path, map.size, LINE_MOST, err);
    const unsigned char *nul = ok ? memchr(map.data, '\0', map.size) : NULL;
    if (nul) /* as in a table's line */
        ok = err_set(err, EX_DATAERR, "%s: byte %zu is NUL: the file is damaged", path,
                     (size_t)(nul - map.data));
    if (ok) *document = dataset_add_bytes(r->w, map.data, map.size, 1);
    file_unmap(&map);
    return ok;
}

/* `text` is of no interest where texts are in files. */
static bool find_document(Reading *r, Span id, Span text, int *document, Err *err) {
    if (!check_id(r, id, err)) return false;
    int *known = hashmap_at(&r->ids, hash_bytes(id.at, id.size));
    if (r->texts) {
        if (text.size == 0)
            return lines_refuse(&r->lines, "an empty text of a paper, got", id, err);
        const uint64_t both = hash_more(hash_bytes(id.at, id.size), "\t", 1);
        int *paper = hashmap_at(&r->papers, hash_more(both, text.at, text.size));
        if (*paper < 0) {
            r->apart += *known >= 0;
            *paper = dataset_add_bytes(r->w, text.at, text.size, 1);
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

static bool locate(char *place, const char *from) {
    return task_locate(place, from, folders, TABLE) || task_locate(place, from, folders, LIST);
}

static bool read_all(DatasetWriter *const w[SPLITS], const char *dir, bool texts, Err *err) {
    bool ok = true;
    for (int s = 0; ok && s < SPLITS; s++) {
        char path[FILE_PATH_MAX];
        Reading r = {.dir = dir, .texts = texts, .w = w[s]};
        ok = file_in(path, dir, files[texts ? 0 : 1][s], err) && read_split(&r, path, err);
        hashmap_free(&r.ids);
        hashmap_free(&r.papers);
    }
    return ok;
}

static bool import(const Task *t, const TaskRequest *r, Err *err) {
    char dir[FILE_PATH_MAX], table[FILE_PATH_MAX];
    if (!task_place(t, dir, r->from, err)) return false;
    const bool texts = task_join(table, dir, TABLE);
    DatasetWriter *w[SPLITS];
    task_writers(w, t, SOURCE ", pairs in the Long Range Arena's form; %s",
                 texts ? "its texts" : "texts from " TEXTS);
    return task_finish(w, read_all(w, dir, texts, err), r->out, err);
}

const Task task_retrieval = {
    .name = "retrieval",
    .title = "does one of two papers cite the other, from their bytes; AAN, two documents an "
             "example",
    .vocab = BYTES_VOCAB,
    .classes = CLASSES,
    .per_example = 2,
    .max_length = 4000,
    .masked = 0.15,
    .official = {147086, 18090, 17437},
    .imported = SOURCE,
    .archive = "lra_release/lra_release/tsv_data",
    .url = URL,
    .tokens = TOKENS_BYTES,
    .labels = labels,
    .import = import,
    .locate = locate,
    .augment = augment_drop,
    .augment_keys = augment_drop_keys,
    .augment_masks = true,
    .holds = TABLE ", nor " LIST " with " TEXTS "; they are the folder tsv_data of " URL,
};
