/* Runs of a few configs, for reports on them. cmocka is included before. */
#ifndef TESTS_REPORT_RUNS_H
#define TESTS_REPORT_RUNS_H

#include "report/results.h"
#include "train/made.h"

#define CONFIG(task, attention, train)                                                             \
    "{\"task\": \"" task "\", \"data\": {\"dir\": \"data/x\"}, \"model\": {\"d\": 16, \"d_emb\": " \
    "16, \"attention\": {" attention "}}, \"train\": {\"steps\": 10, \"batch\": 2, " train "}}"
#define CAST(clusters) "\"type\": \"cast\", \"mechanism\": \"topk\", \"clusters\": " #clusters
#define FULL "\"type\": \"full\""
#define DONE(validation, last, best)                                                               \
    TRAIN(10, 1.5, 4) VAL(10, validation, 1) TEST(10, "last", last) TEST(10, "best", best)

static inline RunSet read_all(const char *name) {
    RunSet set;
    Err err;
    char *paths[] = {(char *)(size_t)scratch(name)};
    if (!runs_read(&set, paths, 1, false, &err)) fail_msg("%s", err.text);
    return set;
}

#endif
