/* Covers: src/data/retrieval.c src/io/lines.c */
#include "data/dataset.h"
#include "data/task.h"
#include "fuzz/fuzz.h"

static void import(const char *from, const char *out) {
    const TaskRequest r = {.from = from, .out = out, .seed = 1};
    char path[FILE_PATH_MAX];
    Dataset d;
    Err err;
    if (!task_import(task_find("retrieval"), &r, &err)) return;
    bool ok = dataset_path(path, out, SPLIT_TRAIN, &err) && dataset_open(&d, path, &err);
    REQUIRE(ok && dataset_check_hash(&d, &err), "%s", err.text);
    dataset_close(&d);
}

/* The training file of either kind: with texts, and of ids alone. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *texts = fuzz_mkdir("texts"), *ids = fuzz_mkdir("ids");
    fuzz_mkdir("ids/papers_text");
    fuzz_text("ids/papers_text/a.txt", "one");
    fuzz_text("ids/papers_text/b.txt", "two");
    fuzz_text("ids/papers_text/empty.txt", "");
    fuzz_text("ids/new_aan_pairs.eval.only_ids.tsv", "1\ta\tb\n");
    fuzz_text("ids/new_aan_pairs.test.only_ids.tsv", "1\ta\tb\n");
    fuzz_file("ids/new_aan_pairs.train.only_ids.tsv", data, size);
    import(ids, fuzz_path("out_ids"));
    fuzz_text("texts/new_aan_pairs.eval.tsv", "1\ta\tb\tone\ttwo\n");
    fuzz_text("texts/new_aan_pairs.test.tsv", "1\ta\tb\tone\ttwo\n");
    fuzz_file("texts/new_aan_pairs.train.tsv", data, size);
    import(texts, fuzz_path("out_texts"));
    return 0;
}
