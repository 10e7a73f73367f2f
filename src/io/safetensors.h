/* safetensors: the one format of checkpoints, prepared datasets and exchanged tensors.
 * https://github.com/huggingface/safetensors: u64 header length, JSON header, tensors end to end.
 *
 * The reader checks what the reference implementation checks: header length and size, valid UTF-8
 * and JSON without duplicate keys, offsets without holes or overlap that cover the file to its last
 * byte, sizes that match dtype and shape with checked products. Headers beyond 16 MiB are refused.
 * Its errors are EX_DATAERR (EX_NOINPUT: the file cannot be read) and name the file, and the tensor
 * where it is one's; the writer's are atomic_open's and EX_IOERR. */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include <stdint.h>

#include "core/real.h"
#include "io/file.h"

/* In the reference's order: ascending alignment. */
typedef enum Dtype {
    DT_BOOL,
    DT_U8,
    DT_I8,
    DT_I16,
    DT_U16,
    DT_F16,
    DT_BF16,
    DT_I32,
    DT_U32,
    DT_F32,
    DT_F64,
    DT_I64,
    DT_U64
} Dtype;
enum { ST_MAX_DIMS = 8, ST_MAX_HEADER = 16 << 20 };

typedef struct StTensor {
    const char *name;
    Dtype dtype;
    int ndim;
    int64_t shape[ST_MAX_DIMS];
    const void *data; /* reading: aligned to the dtype; writing: the caller's */
    size_t bytes;
} StTensor;

typedef struct StMeta {
    const char *key, *value;
} StMeta;

typedef struct StFile {
    FileMap map;
    char *path;
    StTensor *tensors; /* sorted by position in the file */
    int ntensors;
    StMeta *meta;
    int nmeta;
    void *header; /* owns names and metadata strings */
    void *copies; /* owns the data of tensors that the file does not align; others lie in the map */
} StFile;

bool st_open(StFile *f, const char *path, Err *err);
/* Compares the data with the "crc32" of the metadata, where there is one: finds a flipped bit.
 * Reads every byte. */
bool st_check_crc(const StFile *f, Err *err);
/* That of the data as they are, in eight digits. Reads every byte. */
enum { ST_CRC = 9 };
void st_crc(const StFile *f, char crc[ST_CRC]);
/* The same checks over `size` bytes in memory that the caller keeps: what the fuzzer drives. */
bool st_parse(StFile *f, const void *data, size_t size, const char *path, Err *err);
void st_close(StFile *f);

const StTensor *st_find(const StFile *f, const char *name); /* NULL if absent */
const char *st_meta(const StFile *f, const char *key);      /* NULL if absent */

/* Finds `name` and checks dtype and shape (a dimension of -1 matches any); err names what was
 * expected. */
const StTensor *st_want(const StFile *f, const char *name, Dtype dtype, int ndim,
                        const int64_t *shape, Err *err);

/* Copies a F32 or F64 tensor of exactly `n` elements into reals. */
bool st_reals(const StFile *f, const char *name, real *out, size_t n, Err *err);

/* Writes atomically, in the place of nothing but a file of that kind. Tensors are laid out in the
 * reference's order (descending alignment, then name); the header begins with '{' and is padded so
 * that data starts at a multiple of 64. Two sums of eight hexadecimal digits are added to the
 * metadata: "header_crc32" of the other metadata and the tensors' names, types and shapes, which
 * st_open checks; and "crc32" of the data. Names are unique. */
bool st_write(const char *path, FileKind kind, const StTensor *tensors, int ntensors,
              const StMeta *meta, int nmeta, Err *err);
/* The same but for the commit: where it is true, `a` is open. */
bool st_put(AtomicFile *a, const char *path, FileKind kind, const StTensor *tensors, int ntensors,
            const StMeta *meta, int nmeta, Err *err);

size_t dtype_size(Dtype t);
const char *dtype_name(Dtype t);
/* "F32 [10,64]" into buf, which is returned; a dimension of -1 as "*". */
enum { ST_DESCRIBED = 256 };
const char *st_describe(char buf[ST_DESCRIBED], Dtype dtype, int ndim, const int64_t *shape);
/* Of the caller's data, to be written. */
StTensor st_tensor(const char *name, Dtype dtype, int ndim, const int64_t *shape, const void *data);
StTensor st_real_tensor(const char *name, const real *data, int ndim, const int64_t *shape);

#endif
