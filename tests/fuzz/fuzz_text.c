/* Covers: src/data/text.c src/io/tar.c src/io/gz.c */
#include "archive.h"
#include "data/dataset.h"
#include "data/task.h"
#include "fuzz/fuzz.h"

/* The archive, packed: the data, with right sums in its headers, behind one review of each kind. */
static void write_archive(const uint8_t *data, size_t size) {
    static const char *const names[] = {"aclImdb/train/neg/0_1.txt", "aclImdb/train/pos/0_9.txt",
                                        "aclImdb/test/neg/0_1.txt", "aclImdb/test/pos/0_9.txt"};
    Bytes tar = {0}, gz = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tar_add(&tar, names[i], '0', "one review", 10);
    const size_t begins = tar.size;
    bytes_add(&tar, data, size);
    tar_seal_all(&tar, begins);
    gzip_add(&gz, tar.data, tar.size);
    fuzz_file("from/aclImdb_v1.tar.gz", gz.data, gz.size);
    bytes_free(&tar);
    bytes_free(&gz);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *from = fuzz_mkdir("from"), *out = fuzz_path("out");
    const TaskRequest r = {.from = from, .out = out, .seed = 1};
    char path[FILE_PATH_MAX];
    Dataset d;
    Err err;
    write_archive(data, size);
    if (!task_import(task_find("text"), &r, &err)) return 0;
    const bool ok = dataset_path(path, out, SPLIT_TRAIN, &err) && dataset_open(&d, path, &err);
    REQUIRE(ok && dataset_check_hash(&d, &err), "%s", err.text);
    dataset_close(&d);
    return 0;
}
