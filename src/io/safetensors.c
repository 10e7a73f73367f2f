/* Reading is linear in the file's header but for two sorts; the data is mapped, not read. */
#include "io/safetensors.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/log.h"
#include "core/mem.h"
#include "io/json.h"
#include "io/json_print.h"
#include "io/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are mapped as little-endian");

#define META_KEY "__metadata__"
#define CRC_KEY "crc32"
#define HEADER_CRC_KEY "header_crc32"

enum { HEADER_DEPTH = 4, DATA_ALIGN = 64, COPY_ALIGN = 8, CRC_DIGITS = 8 };

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DT_BOOL] = {"BOOL", 1}, [DT_U8] = {"U8", 1},   [DT_I8] = {"I8", 1},     [DT_I16] = {"I16", 2},
    [DT_U16] = {"U16", 2},   [DT_F16] = {"F16", 2}, [DT_BF16] = {"BF16", 2}, [DT_I32] = {"I32", 4},
    [DT_U32] = {"U32", 4},   [DT_F32] = {"F32", 4}, [DT_F64] = {"F64", 8},   [DT_I64] = {"I64", 8},
    [DT_U64] = {"U64", 8},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

size_t dtype_size(Dtype t) { return dtypes[t].size; }
const char *dtype_name(Dtype t) { return dtypes[t].name; }

/* Bytes of a tensor of this shape: false on overflow. */
static bool shape_bytes(Dtype dtype, int ndim, const int64_t *shape, size_t *bytes) {
    size_t n = dtype_size(dtype);
    for (int i = 0; i < ndim; i++)
        if (!size_mul(n, (size_t)shape[i], &n)) return false;
    *bytes = n;
    return true;
}

StTensor st_tensor(const char *name, Dtype dtype, int ndim, const int64_t *shape,
                   const void *data) {
    StTensor t = {.name = name, .dtype = dtype, .ndim = ndim, .data = data};
    REQUIRE(ndim >= 0 && ndim <= ST_MAX_DIMS, "tensor '%s' has %d dimensions", name, ndim);
    memcpy(t.shape, shape, (size_t)ndim * sizeof *shape);
    REQUIRE(shape_bytes(dtype, ndim, shape, &t.bytes), "the shape of '%s' overflows", name);
    return t;
}

StTensor st_real_tensor(const char *name, const real *data, int ndim, const int64_t *shape) {
    return st_tensor(name, sizeof(real) == 8 ? DT_F64 : DT_F32, ndim, shape, data);
}

static bool wrong(const StFile *f, const char *tensor, const char *what, Err *err) {
    return err_set(err, EX_DATAERR, "%s: tensor '%.200s': %s", f->path, tensor, what);
}

/* An integer of JSON that a double holds exactly and that is no offset before 0. */
static bool to_size(const cJSON *v, size_t *out) {
    double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
    if (signbit(x) || x != floor(x) || x > 9007199254740991.0) return false;
    *out = (size_t)x;
    return true;
}

static bool read_dtype(const StFile *f, StTensor *t, const cJSON *v, Err *err) {
    char what[128];
    if (!cJSON_IsString(v)) return wrong(f, t->name, "its dtype is not a string", err);
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(v->valuestring, dtypes[i].name) != 0) continue;
        t->dtype = (Dtype)i;
        return true;
    }
    snprintf(what, sizeof what, "its dtype '%.40s' is not supported here", v->valuestring);
    return wrong(f, t->name, what, err);
}

static bool read_shape(StTensor *t, const cJSON *v) {
    size_t n = 0;
    if (!cJSON_IsArray(v)) return false;
    for (const cJSON *item = v->child; item; item = item->next) {
        if (t->ndim == ST_MAX_DIMS || !to_size(item, &n)) return false;
        t->shape[t->ndim++] = (int64_t)n;
    }
    return true;
}

static bool read_range(size_t range[2], const cJSON *v) {
    const cJSON *begin = cJSON_IsArray(v) ? v->child : NULL;
    const cJSON *end = begin ? begin->next : NULL;
    return end && !end->next && to_size(begin, &range[0]) && to_size(end, &range[1]);
}

/* `data` is the file's `size` bytes after the header. */
static bool read_tensor(StFile *f, StTensor *t, const cJSON *entry, const unsigned char *data,
                        size_t size, Err *err) {
    const char *name = entry->string;
    size_t range[2] = {0, 0}, bytes = 0;
    *t = (StTensor){.name = name};
    if (!cJSON_IsObject(entry)) return wrong(f, name, "its entry is not an object", err);
    if (!read_dtype(f, t, cJSON_GetObjectItemCaseSensitive(entry, "dtype"), err)) return false;
    if (!read_shape(t, cJSON_GetObjectItemCaseSensitive(entry, "shape")))
        return wrong(f, name, "its shape must be at most 8 integers >= 0", err);
    if (!read_range(range, cJSON_GetObjectItemCaseSensitive(entry, "data_offsets")))
        return wrong(f, name, "its data_offsets must be two integers >= 0", err);
    if (range[0] > range[1] || range[1] > size)
        return wrong(f, name, "its data_offsets lie outside the file, which may be cut short", err);
    if (!shape_bytes(t->dtype, t->ndim, t->shape, &bytes))
        return wrong(f, name, "its shape overflows", err);
    if (bytes != range[1] - range[0])
        return wrong(f, name, "its data_offsets do not fit its dtype and shape", err);
    t->data = data + range[0];
    t->bytes = bytes;
    return true;
}

static bool read_meta(StFile *f, const cJSON *object, Err *err) {
    if (!cJSON_IsObject(object))
        return err_set(err, EX_DATAERR, "%s: " META_KEY " is not an object", f->path);
    f->meta = mem_alloc((size_t)cJSON_GetArraySize(object), sizeof *f->meta);
    for (const cJSON *v = object->child; v; v = v->next) {
        if (!cJSON_IsString(v))
            return err_set(err, EX_DATAERR, "%s: " META_KEY ": '%.200s' is not a string", f->path,
                           v->string);
        f->meta[f->nmeta++] = (StMeta){v->string, v->valuestring};
    }
    return true;
}

/* Empty tensors may share their place with others: the end, then the name decide. */
static int by_place(const void *a, const void *b) {
    const StTensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Every byte of the data belongs to one tensor: nothing can hide between or behind them. */
static bool check_cover(const StFile *f, const unsigned char *data, size_t size, Err *err) {
    const unsigned char *at = data;
    for (int i = 0; i < f->ntensors; i++) {
        const StTensor *t = &f->tensors[i];
        if (t->data != at)
            return wrong(f, t->name, "its data does not begin where the one before it ends", err);
        at += t->bytes;
    }
    if (at == data + size) return true;
    return err_set(err, EX_DATAERR, "%s: %zu bytes follow the last tensor", f->path,
                   (size_t)(data + size - at));
}

static bool is_aligned(const StTensor *t) { return (uintptr_t)t->data % dtype_size(t->dtype) == 0; }

static size_t copy_room(const StTensor *t) { return (t->bytes / COPY_ALIGN + 1) * COPY_ALIGN; }

/* A header without padding is legal, but its tensors cannot be used where they lie. */
static void align_data(StFile *f) {
    size_t total = 0;
    for (int i = 0; i < f->ntensors; i++)
        if (!is_aligned(&f->tensors[i])) total += copy_room(&f->tensors[i]);
    if (total == 0) return;
    char *to = f->copies = mem_alloc(total, 1);
    for (int i = 0; i < f->ntensors; i++) {
        StTensor *t = &f->tensors[i];
        if (is_aligned(t)) continue;
        t->data = memcpy(to, t->data, t->bytes);
        to += copy_room(t);
    }
}

static int by_name(const void *a, const void *b) {
    const StTensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int by_key(const void *a, const void *b) {
    const StMeta *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static uLong add_text(uLong crc, const char *text) {
    return crc32_z(crc, (const Bytef *)text, strlen(text) + 1);
}

/* Of what a header says, in whatever order and with whatever blanks: the metadata but this sum, and
 * the tensors' names, types and shapes. */
static uLong header_crc(const StMeta *meta, int nmeta, const StTensor *tensors, int n) {
    StMeta *keys = mem_alloc((size_t)nmeta, sizeof *keys);
    const StTensor **names = mem_alloc((size_t)n, sizeof *names);
    char type[ST_DESCRIBED];
    uLong crc = 0;
    for (int i = 0; i < nmeta; i++) keys[i] = meta[i];
    for (int i = 0; i < n; i++) names[i] = &tensors[i];
    qsort(keys, (size_t)nmeta, sizeof *keys, by_key);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < nmeta; i++)
        if (strcmp(keys[i].key, HEADER_CRC_KEY) != 0)
            crc = add_text(add_text(crc, keys[i].key), keys[i].value);
    for (int i = 0; i < n; i++)
        crc = add_text(add_text(crc, names[i]->name),
                       st_describe(type, names[i]->dtype, names[i]->ndim, names[i]->shape));
    mem_free(keys);
    mem_free(names);
    return crc;
}

static void print_crc(char text[ST_CRC], uLong crc) {
    snprintf(text, ST_CRC, "%08lx", crc & 0xffffffffUL);
}

/* `of`: "header", "data". */
static bool same_crc(const StFile *f, const char *key, const char *of, const char *text, uLong crc,
                     Err *err) {
    char found[ST_CRC];
    if (strspn(text, "0123456789abcdef") != CRC_DIGITS || text[CRC_DIGITS])
        return err_set(err, EX_DATAERR, "%s: %s must be eight hex digits", f->path, key);
    print_crc(found, crc);
    return !strcmp(found, text) ||
           err_set(err, EX_DATAERR, "%s: is damaged: the %s of its %s is %s, not %s", f->path, key,
                   of, found, text);
}

static bool check_header(const StFile *f, Err *err) {
    const char *text = st_meta(f, HEADER_CRC_KEY);
    const uLong crc = text ? header_crc(f->meta, f->nmeta, f->tensors, f->ntensors) : 0;
    return !text || same_crc(f, HEADER_CRC_KEY, "header", text, crc, err);
}

static bool read_header(StFile *f, const unsigned char *data, size_t size, Err *err) {
    const cJSON *root = f->header;
    if (!cJSON_IsObject(root))
        return err_set(err, EX_DATAERR, "%s: the header is not an object", f->path);
    f->tensors = mem_alloc((size_t)cJSON_GetArraySize(root), sizeof *f->tensors);
    for (const cJSON *v = root->child; v; v = v->next) {
        bool meta = strcmp(v->string, META_KEY) == 0;
        if (meta && !read_meta(f, v, err)) return false;
        if (!meta && !read_tensor(f, &f->tensors[f->ntensors++], v, data, size, err)) return false;
    }
    qsort(f->tensors, (size_t)f->ntensors, sizeof *f->tensors, by_place);
    if (!check_cover(f, data, size, err) || !check_header(f, err)) return false;
    align_data(f);
    return true;
}

static bool parse(StFile *f, const unsigned char *bytes, size_t size, Err *err) {
    char where[FILE_PATH_MAX + 16];
    uint64_t n = 0;
    if (size < sizeof n)
        return err_set(err, EX_DATAERR, "%s: not safetensors: it has %zu bytes", f->path, size);
    memcpy(&n, bytes, sizeof n);
    if (n > ST_MAX_HEADER && *bytes == '{' && bytes[sizeof n - 1])
        return err_set(err, EX_DATAERR, "%s: not safetensors: it begins as JSON does", f->path);
    if (n > ST_MAX_HEADER)
        return err_set(err, EX_DATAERR, "%s: not safetensors: a header of %llu bytes (at most %d)",
                       f->path, (unsigned long long)n, ST_MAX_HEADER);
    if (n > size - sizeof n)
        return err_set(err, EX_DATAERR, "%s: is cut short: the header has %llu bytes, the file %zu",
                       f->path, (unsigned long long)n, size);
    snprintf(where, sizeof where, "%s: header", f->path);
    f->header = json_parse((const char *)bytes + sizeof n, (size_t)n, ST_MAX_HEADER, HEADER_DEPTH,
                           where, err);
    if (f->header) return read_header(f, bytes + sizeof n + n, size - sizeof n - (size_t)n, err);
    if (err->code == EX_CONFIG) err->code = EX_DATAERR;
    return false;
}

bool st_parse(StFile *f, const void *data, size_t size, const char *path, Err *err) {
    *f = (StFile){.path = mem_strdup(path)};
    if (parse(f, data, size, err)) return true;
    st_close(f);
    return false;
}

bool st_open(StFile *f, const char *path, Err *err) {
    *f = (StFile){.path = mem_strdup(path)};
    if (file_map(&f->map, path, err) && parse(f, f->map.data, f->map.size, err)) return true;
    st_close(f);
    return false;
}

void st_close(StFile *f) {
    file_unmap(&f->map);
    cJSON_Delete(f->header);
    mem_free(f->path);
    mem_free(f->tensors);
    mem_free(f->meta);
    mem_free(f->copies);
    *f = (StFile){0};
}

const StTensor *st_find(const StFile *f, const char *name) {
    for (int i = 0; i < f->ntensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

const char *st_meta(const StFile *f, const char *key) {
    for (int i = 0; i < f->nmeta; i++)
        if (strcmp(f->meta[i].key, key) == 0) return f->meta[i].value;
    return NULL;
}

const char *st_describe(char buf[ST_DESCRIBED], Dtype dtype, int ndim, const int64_t *shape) {
    snprintf(buf, ST_DESCRIBED, "%s [", dtype_name(dtype));
    for (int i = 0; i < ndim; i++) {
        char size[24] = "*";
        if (shape[i] >= 0) snprintf(size, sizeof size, "%lld", (long long)shape[i]);
        format_add(buf, ST_DESCRIBED, "%s%s", i ? "," : "", size);
    }
    format_add(buf, ST_DESCRIBED, "]");
    return buf;
}

const StTensor *st_want(const StFile *f, const char *name, Dtype dtype, int ndim,
                        const int64_t *shape, Err *err) {
    char wanted[ST_DESCRIBED], found[ST_DESCRIBED];
    const StTensor *t = st_find(f, name);
    st_describe(wanted, dtype, ndim, shape);
    if (!t) {
        err_set(err, EX_DATAERR, "%s: tensor '%s' (%s) is missing", f->path, name, wanted);
        return NULL;
    }
    bool same = t->dtype == dtype && t->ndim == ndim;
    for (int i = 0; same && i < ndim; i++) same = shape[i] < 0 || shape[i] == t->shape[i];
    if (same) return t;
    st_describe(found, t->dtype, t->ndim, t->shape);
    err_set(err, EX_DATAERR, "%s: tensor '%s' must be %s, is %s", f->path, name, wanted, found);
    return NULL;
}

bool st_reals(const StFile *f, const char *name, real *out, size_t n, Err *err) {
    char type[ST_DESCRIBED], what[ST_DESCRIBED + 64];
    const StTensor *t = st_find(f, name);
    if (!t) return wrong(f, name, "is missing", err);
    bool wide = t->dtype == DT_F64;
    if ((!wide && t->dtype != DT_F32) || t->bytes / dtype_size(t->dtype) != n) {
        st_describe(type, t->dtype, t->ndim, t->shape);
        snprintf(what, sizeof what, "must hold %zu numbers, F32 or F64, is %s", n, type);
        return wrong(f, name, what, err);
    }
    const float *f32 = t->data;
    const double *f64 = t->data;
    for (size_t i = 0; i < n; i++) out[i] = wide ? (real)f64[i] : (real)f32[i];
    return true;
}

/* Not for empty tensors: crc32_z forgets what it had where the pointer is NULL. */
static uLong add_crc(uLong crc, const StTensor *t) {
    return t->bytes ? crc32_z(crc, t->data, t->bytes) : crc;
}

static uLong data_crc(const StFile *f) {
    uLong sum = 0;
    for (int i = 0; i < f->ntensors; i++) sum = add_crc(sum, &f->tensors[i]);
    return sum;
}

void st_crc(const StFile *f, char crc[ST_CRC]) { print_crc(crc, data_crc(f)); }

bool st_check_crc(const StFile *f, Err *err) {
    const char *text = st_meta(f, CRC_KEY);
    return !text || same_crc(f, CRC_KEY, "data", text, data_crc(f), err);
}

static int by_alignment(const void *a, const void *b) {
    const StTensor *const *x = a, *const *y = b;
    if ((*x)->dtype != (*y)->dtype) return (*x)->dtype > (*y)->dtype ? -1 : 1;
    return by_name(a, b);
}

/* The tensors in the order of the file. */
static const StTensor **layout(const StTensor *tensors, int n) {
    const StTensor **order = mem_alloc((size_t)n, sizeof *order);
    for (int i = 0; i < n; i++) {
        const StTensor *t = &tensors[i];
        size_t bytes = 0;
        bool sound = shape_bytes(t->dtype, t->ndim, t->shape, &bytes) && bytes == t->bytes;
        REQUIRE(sound, "tensor '%s' has %zu bytes", t->name, t->bytes);
        order[i] = t;
    }
    qsort(order, (size_t)n, sizeof *order, by_name);
    for (int i = 1; i < n; i++)
        REQUIRE(strcmp(order[i - 1]->name, order[i]->name), "two tensors '%s'", order[i]->name);
    qsort(order, (size_t)n, sizeof *order, by_alignment);
    return order;
}

static void print_entry(FILE *h, const StTensor *t, size_t begin) {
    fputc(',', h);
    json_print_string(h, t->name);
    fprintf(h, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->dtype));
    for (int i = 0; i < t->ndim; i++) fprintf(h, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    fprintf(h, "],\"data_offsets\":[%zu,%zu]}", begin, begin + t->bytes);
}

static void print_header(FILE *h, const StTensor *const *order, int n, const StMeta *meta,
                         int nmeta) {
    size_t begin = 0;
    fputs("{\"" META_KEY "\":{", h);
    for (int i = 0; i < nmeta; i++) {
        if (i > 0) fputc(',', h);
        json_print_string(h, meta[i].key);
        fputc(':', h);
        json_print_string(h, meta[i].value);
    }
    fputc('}', h);
    for (int i = 0; i < n; i++) {
        print_entry(h, order[i], begin);
        begin += order[i]->bytes;
    }
    fputc('}', h);
    while ((sizeof(uint64_t) + (size_t)ftell(h)) % DATA_ALIGN) fputc(' ', h);
}

/* The metadata behind both sums, whose texts are kept in `sums`; to be freed. */
static StMeta *with_sums(const StMeta *meta, int nmeta, char sums[2][ST_CRC],
                         const StTensor *tensors, const StTensor *const *order, int n) {
    StMeta *all = mem_alloc((size_t)nmeta + 2, sizeof *all);
    uLong crc = 0;
    for (int i = 0; i < n; i++) crc = add_crc(crc, order[i]);
    print_crc(sums[1], crc);
    all[0] = (StMeta){HEADER_CRC_KEY, sums[0]};
    all[1] = (StMeta){CRC_KEY, sums[1]};
    for (int i = 0; i < nmeta; i++) {
        REQUIRE(strcmp(meta[i].key, CRC_KEY) && strcmp(meta[i].key, HEADER_CRC_KEY),
                "the sums are written here");
        all[i + 2] = meta[i];
    }
    print_crc(sums[0], header_crc(all, nmeta + 2, tensors, n));
    return all;
}

static bool reads_back(const char *path, Err *err) {
    StFile f;
    if (!st_open(&f, path, err)) return false;
    const bool ok = st_check_crc(&f, err);
    st_close(&f);
    return ok;
}

bool st_put(AtomicFile *a, const char *path, FileKind kind, const StTensor *tensors, int ntensors,
            const StMeta *meta, int nmeta, Err *err) {
    char *header = NULL;
    size_t size = 0;
    if (!atomic_open(a, path, kind, err)) return false;
    a->check = reads_back;
    const StTensor **order = layout(tensors, ntensors);
    char sums[2][ST_CRC];
    StMeta *all = with_sums(meta, nmeta, sums, tensors, order, ntensors);
    FILE *h = text_stream(&header, &size);
    print_header(h, order, ntensors, all, nmeta + 2);
    fclose(h);
    mem_free(all);

    const bool fits = size <= ST_MAX_HEADER;
    uint64_t length = size;
    if (fits) atomic_write(a, &length, sizeof length);
    if (fits) atomic_write(a, header, size);
    for (int i = 0; fits && i < ntensors; i++) atomic_write(a, order[i]->data, order[i]->bytes);
    free(header);
    mem_free(order);
    if (fits) return true;
    atomic_abandon(a);
    return err_set(err, EX_IOERR, "%s: its header would have %zu bytes; at most %d", path, size,
                   ST_MAX_HEADER);
}

bool st_write(const char *path, FileKind kind, const StTensor *tensors, int ntensors,
              const StMeta *meta, int nmeta, Err *err) {
    AtomicFile a;
    return st_put(&a, path, kind, tensors, ntensors, meta, nmeta, err) && atomic_commit(&a, err);
}
