/* Covers: src/data/listops_tsv.c src/io/lines.c */
#include "data/dataset.h"
#include "data/listops_tsv.h"
#include "fuzz/fuzz.h"

static bool import(const char *from, const char *out) {
    const TaskRequest r = {.from = from, .out = out, .seed = 1};
    Err err;
    return task_import(task_find("listops"), &r, &err);
}

static void open_train(Dataset *d, const char *dir) {
    char path[FILE_PATH_MAX];
    Err err;
    bool ok = dataset_path(path, dir, SPLIT_TRAIN, &err) && dataset_open(d, path, &err);
    REQUIRE(ok, "%s", err.text);
}

/* The training file; what is accepted can be written as such files, and is then the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *from = fuzz_mkdir("from"), *out = fuzz_path("out");
    const char *back = fuzz_path("back"), *again = fuzz_path("again");
    Dataset d, e;
    Err err;
    fuzz_text("from/basic_val.tsv", "Source\tTarget\r\n7\t7\r\n");
    fuzz_text("from/basic_test.tsv", "Source\tTarget\r\n7\t7\r\n");
    fuzz_file("from/basic_train.tsv", data, size);
    if (!import(from, out)) return 0;
    open_train(&d, out);
    REQUIRE(listops_export(out, back, &err), "%s", err.text);
    REQUIRE(import(back, again), "%s is refused", back);
    open_train(&e, again);
    REQUIRE(!strcmp(st_meta(&d.file, "hash"), st_meta(&e.file, "hash")), "another set");
    dataset_close(&d);
    dataset_close(&e);
    return 0;
}
