/* A prepared split, memory-mapped: safetensors with
 *
 *   tokens   U8 or I16 [total]     all sequences end to end, uncut
 *   offsets  I64 [documents + 1]   where each starts; no sequence is empty
 *   labels   I32 [examples]
 *   pairs    I32 [examples,2]      for pairs only: indices of documents
 *
 * and metadata: vocab and classes; format, count and hash, checked where they are there; task, by
 * which verify checks, and other tasks refuse them; ids, what those of one's own are, "bytes"
 * (data/bytes.h; vocab is 257) or "pixels" (grey, row by row; 256); class_names (data/classes.h);
 * source, by which reports tell what was generated; split for people. Without pairs document i is
 * example i. All but the hash (data/verify.h) is checked once, when it is opened; errors are
 * EX_NOINPUT, or EX_DATAERR with the file, the example and what was expected. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdint.h>

#include "data/classes.h"
#include "io/safetensors.h"

enum {
    DATASET_HASH = 16
}; /* longer than a hash, so that a wrong one from a file is seen as wrong */

#define DATASET_IDS "ids"
#define DATASET_BYTES "bytes"
#define DATASET_PIXELS "pixels"

enum { DATASET_VOCAB_MAX = 32768, DATASET_CLASSES_MAX = 1 << 20 };

typedef struct Dataset {
    StFile file;
    char hash[DATASET_HASH]; /* the metadata's; "": they have none */
    int examples, documents;
    int per_example; /* documents an example: 1, or 2 for pairs */
    int vocab, classes;
    ClassNames class_names; /* of one that is opened with its labels */
    const uint8_t *tokens8; /* one of the two is NULL */
    const int16_t *tokens16;
    const int64_t *offsets;
    const int32_t *labels, *pairs;
    int32_t *unlabelled; /* labels where the file has none; or NULL */
} Dataset;

enum { SPLIT_TRAIN, SPLIT_VAL, SPLIT_TEST, SPLITS };
extern const char *const split_names[SPLITS + 1]; /* "train", "val", "test", NULL */

/* buf = dir/<split>.safetensors; one that does not fit is an error (EX_CANTCREAT). */
bool dataset_path(char buf[FILE_PATH_MAX], const char *dir, int split, Err *err);

/* Whether all three splits are there: making them may have been stopped in between. */
bool dataset_is_whole(const char *dir);

/* Token i of all. A negative one becomes 32768 or more, which no vocabulary has. */
static inline unsigned dataset_id(const Dataset *d, int64_t i) {
    return d->tokens8 ? d->tokens8[i] : (uint16_t)d->tokens16[i];
}

/* What "ids" says, DATASET_BYTES or DATASET_PIXELS; NULL: that is not what ids of such a vocabulary
 * may be, or says nothing. */
const char *dataset_kind_of(const char *ids, int vocab);
/* That of the set. */
const char *dataset_kind(const Dataset *d);

bool dataset_open(Dataset *d, const char *path, Err *err);
void dataset_close(Dataset *d);
/* The same without labels, which are 0 then: a set that is to be predicted. */
bool dataset_open_unlabelled(Dataset *d, const char *path, Err *err);

/* What "hash" in the metadata is to be: the CRC-32 of the tensors above, in that order. */
void dataset_hash(const Dataset *d, char hash[DATASET_HASH]);
/* Compares all data with the metadata's "hash" and the file's crc32, where there is one. Reads
 * every byte. */
bool dataset_check_hash(const Dataset *d, Err *err);

/* The document of an example (which: 0, or 1 for the second of a pair), and its whole length. */
int dataset_document(const Dataset *d, int example, int which);
int dataset_length(const Dataset *d, int document);

/* Tokens of its longest document. */
int dataset_longest(const Dataset *d);
/* Copies the first min(length, max_length) ids into out and returns how many. */
int dataset_tokens(const Dataset *d, int document, int max_length, int *out);

/* Collects a split in memory and writes it atomically. */
typedef struct DatasetWriter DatasetWriter;
DatasetWriter *dataset_writer(const char *task, const char *split, const char *source, int vocab,
                              int classes, bool pairs);
/* Returns the document's index. Ids must be below vocab; a sequence of length 0 is refused by the
 * importer, naming its file, before it comes here. */
int dataset_add_document(DatasetWriter *w, const int *tokens, int length);
/* The same of bytes, whose ids are `first` + byte. */
int dataset_add_bytes(DatasetWriter *w, const void *bytes, size_t size, int first);
/* Without pairs, example i is document i: `first` is the document just added and `second` is -1. */
void dataset_add_example(DatasetWriter *w, int label, int first, int second);
/* EX_CANTCREAT, EX_IOERR. */
bool dataset_write(DatasetWriter *w, const char *path, Err *err);
/* What was collected as a split without a file, as long as the writer is there. */
void dataset_of(Dataset *d, const DatasetWriter *w);
void dataset_writer_free(DatasetWriter *w);

/* Whether the splits may be written into `dir`: what is there in their places are datasets of that
 * task (EX_CANTCREAT). */
bool dataset_may_write(const char *dir, const char *task, Err *err);
/* Removes what writers that died left beside the splits. */
void dataset_tidy(const char *dir);
/* Writes the three splits into `dir`, which is made, one process at a time. What can fail is done
 * before anything that is there is touched: all three are on the disk when train.safetensors is
 * removed, test and val are renamed, and train last. So a directory that holds train holds three of
 * one preparation, whenever the process or the machine stops. EX_CANTCREAT, EX_IOERR. */
bool dataset_write_splits(DatasetWriter *const w[SPLITS], const char *dir, Err *err);

#endif
