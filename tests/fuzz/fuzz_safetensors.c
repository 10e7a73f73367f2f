/* Covers: src/io/safetensors.c src/data/facts.c */
#include "core/mem.h"
#include "data/facts.h"
#include "fuzz/fuzz.h"
#include "io/safetensors.h"

/* Every byte is where the tensor says. */
static void look(const StFile *f, const StTensor *t) {
    unsigned char *copy = mem_alloc(t->bytes, 1);
    const size_t n = t->bytes / dtype_size(t->dtype);
    Err err;
    memcpy(copy, t->data, t->bytes);
    mem_free(copy);
    real *x = mem_alloc(n, sizeof *x);
    const bool reals = t->dtype == DT_F32 || t->dtype == DT_F64;
    REQUIRE(st_reals(f, t->name, x, n, &err) == reals, "%s", err.text);
    mem_free(x);
}

/* What was accepted can be written, and is the same when it is read again. */
static void write_again(const StFile *f) {
    const char *path = fuzz_path("again.safetensors");
    StMeta *meta = mem_alloc((size_t)f->nmeta, sizeof *meta);
    StFile g;
    Err err;
    int n = 0;
    for (int i = 0; i < f->nmeta; i++)
        if (!strstr(f->meta[i].key, "crc32")) meta[n++] = f->meta[i]; /* the writer adds both */
    REQUIRE(st_write(path, KIND_ANY, f->tensors, f->ntensors, meta, n, &err), "%s", err.text);
    REQUIRE(st_open(&g, path, &err) && st_check_crc(&g, &err), "%s", err.text);
    REQUIRE(g.ntensors == f->ntensors && g.nmeta == n + 2, "%d tensors", g.ntensors);
    for (int i = 0; i < f->ntensors; i++) {
        const StTensor *t = &f->tensors[i];
        const StTensor *u = st_want(&g, t->name, t->dtype, t->ndim, t->shape, &err);
        REQUIRE(u && !memcmp(t->data, u->data, t->bytes), "another tensor '%s'", t->name);
    }
    for (int i = 0; i < n; i++)
        REQUIRE(!strcmp(st_meta(&g, meta[i].key), meta[i].value), "another '%s'", meta[i].key);
    st_close(&g);
    mem_free(meta);
}

/* What weights say of their set, which a file of anything may claim to say. */
static void read_facts(const StFile *f) {
    Facts s;
    Err err;
    if (!facts_read(&s, f, &err)) REQUIRE(err.code == EX_DATAERR, "%s", err.text);
    for (int k = 0; k < s.classes && s.class_names.name; k++)
        REQUIRE(strlen(s.class_names.name[k]) <= CLASS_NAME_MOST, "class %d", k);
    facts_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    StFile f;
    Err err;
    if (!st_parse(&f, data, size, "fuzz.safetensors", &err)) return 0;
    for (int i = 0; i < f.ntensors; i++) look(&f, &f.tensors[i]);
    st_check_crc(&f, &err);
    read_facts(&f);
    write_again(&f);
    st_close(&f);
    return 0;
}
