/* Covers: src/data/input.c */
#include "data/input.h"
#include "fuzz/fuzz.h"

enum { SIDE = 4, MOST = 24, VOCAB = 12 };

/* What each kind of model reads of a file. */
static const struct {
    const char *task;
    int per_example;
    bool lines;
} kinds[] = {{"image", 1, false},     {"text", 1, false},    {"text", 1, true},
             {"retrieval", 2, false}, {"listops", 1, false}, {"custom", 1, false},
             {"custom", 2, false}};

static void check_set(const Input *in, int vocab) {
    REQUIRE(in->n > 0 && in->n == in->set.examples, "%d examples of %d", in->n, in->set.examples);
    for (int i = 0; i < in->n; i++) REQUIRE(in->name[i] && *in->name[i], "example %d: no name", i);
    for (int64_t i = 0; i < in->set.offsets[in->set.documents]; i++)
        REQUIRE(dataset_id(&in->set, i) < (unsigned)vocab, "id %u", dataset_id(&in->set, i));
}

/* The first byte says which kind. What is taken has examples, of ids that the model knows. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const size_t kind = data[0] % (sizeof kinds / sizeof *kinds);
    const Task *task = task_find(kinds[kind].task);
    const InputAsked asked = {.from = fuzz_file("input", data + 1, size - 1),
                              .lines = kinds[kind].lines,
                              .split = -1,
                              .task = task,
                              .vocab = task->vocab ? task->vocab : VOCAB,
                              .classes = 2,
                              .per_example = kinds[kind].per_example,
                              .side = SIDE,
                              .most = MOST};
    Input in;
    Err err;
    if (!input_open(&in, &asked, &err)) return 0;
    check_set(&in, asked.vocab);
    input_close(&in);
    return 0;
}
