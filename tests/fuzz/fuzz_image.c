/* Covers: src/data/image.c */
#include "data/dataset.h"
#include "data/task.h"
#include "fuzz/fuzz.h"

enum { GREY = 1025, IMAGES = 3 };

/* The first batch of training, beside others of grey images, enough to hold one out. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *from = fuzz_mkdir("from"), *out = fuzz_path("out");
    const TaskRequest r = {.from = from, .out = out, .seed = 1};
    static const unsigned char images[IMAGES * GREY] = {9};
    char name[64], path[FILE_PATH_MAX];
    Dataset d;
    Err err;
    for (int i = 2; i <= 5; i++) {
        snprintf(name, sizeof name, "from/data_batch_%d.bin", i);
        fuzz_file(name, images, sizeof images);
    }
    fuzz_file("from/test_batch.bin", images, sizeof images);
    fuzz_file("from/data_batch_1.bin", data, size);
    if (!task_import(task_find("image"), &r, &err)) return 0;
    const bool ok = dataset_path(path, out, SPLIT_TRAIN, &err) && dataset_open(&d, path, &err);
    REQUIRE(ok && dataset_check_hash(&d, &err), "%s", err.text);
    dataset_close(&d);
    return 0;
}
