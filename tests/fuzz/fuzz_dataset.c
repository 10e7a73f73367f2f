/* Covers: src/data/dataset.c src/data/classes.c */
#include "core/mem.h"
#include "data/dataset.h"
#include "fuzz/fuzz.h"
#include "io/text.h"

static int tokens_of(const Dataset *d, int document, int **ids) {
    const int n = dataset_length(d, document);
    *ids = mem_alloc((size_t)n, sizeof **ids);
    return dataset_tokens(d, document, n, *ids);
}

/* What was accepted can be written, and is the same when it is read again. */
static void write_again(const Dataset *d) {
    const char *path = fuzz_path("again.safetensors");
    const bool pairs = d->per_example == 2;
    DatasetWriter *w = dataset_writer("fuzz", "train", "", d->vocab, d->classes, pairs);
    Dataset e;
    Err err;
    int *a, *b;
    for (int i = 0; i < d->documents; i++) {
        const int n = tokens_of(d, i, &a);
        dataset_add_document(w, a, n);
        mem_free(a);
        if (!pairs) dataset_add_example(w, d->labels[i], i, -1);
    }
    for (int i = 0; pairs && i < d->examples; i++)
        dataset_add_example(w, d->labels[i], dataset_document(d, i, 0), dataset_document(d, i, 1));
    REQUIRE(dataset_write(w, path, &err), "%s", err.text);
    dataset_writer_free(w);
    REQUIRE(dataset_open(&e, path, &err) && dataset_check_hash(&e, &err), "%s", err.text);
    REQUIRE(e.documents == d->documents && e.examples == d->examples, "%d", e.documents);
    for (int i = 0; i < d->documents; i++) {
        const int n = tokens_of(d, i, &a), m = tokens_of(&e, i, &b);
        REQUIRE(n == m && !memcmp(a, b, (size_t)n * sizeof *a), "another document %d", i);
        mem_free(a);
        mem_free(b);
    }
    for (int i = 0; i < d->examples; i++) {
        REQUIRE(e.labels[i] == d->labels[i], "another label %d", i);
        for (int j = 0; j < d->per_example; j++)
            REQUIRE(dataset_document(&e, i, j) == dataset_document(d, i, j), "another pair %d", i);
    }
    dataset_close(&e);
}

/* What is shown of a name that was accepted is whole characters that a terminal can show. */
static void show_names(const Dataset *d) {
    char buf[64];
    for (int k = 0; k < d->classes && d->class_names.name; k++) {
        class_text(k, d->class_names.name[k], buf, sizeof buf);
        char *plain = text_of(text_plain, buf);
        REQUIRE(!strcmp(plain, buf), "class %d", k);
        mem_free(plain);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Dataset d;
    Err err;
    if (!dataset_open(&d, fuzz_file("fuzz.safetensors", data, size), &err)) return 0;
    dataset_check_hash(&d, &err);
    show_names(&d);
    write_again(&d);
    dataset_close(&d);
    return 0;
}
