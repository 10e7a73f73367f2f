/* Run directories made by tests, in the scratch directory, and lines of their metrics. */
#ifndef TESTS_TRAIN_MADE_H
#define TESTS_TRAIN_MADE_H

#include "text.h"

#define TRAIN(step, loss, seconds)                                                                 \
    "{\"kind\": \"train\", \"step\": " #step ", \"epoch\": 0." #step ", \"loss\": " #loss          \
    ", \"seconds\": " #seconds "}\n"
#define VAL(step, accuracy, loss)                                                                  \
    "{\"kind\": \"val\", \"step\": " #step ", \"accuracy\": " #accuracy ", \"loss\": " #loss "}\n"
#define TEST(step, which, accuracy)                                                                \
    "{\"kind\": \"test\", \"step\": " #step ", \"which\": \"" which "\", \"accuracy\": " #accuracy \
    ", \"loss\": 1}\n"

#define MARK(kind, step, seconds)                                                                  \
    "{\"kind\": \"" kind "\", \"step\": " #step ", \"epoch\": 0." #step ", \"seconds\": " #seconds \
    "}\n"

/* A run's directory of that name. */
static inline const char *make_run(const char *name, const char *config, const char *metrics) {
    static char path[1024];
    char inner[256];
    snprintf(path, sizeof path, "%s", scratch_mkdir(name));
    snprintf(inner, sizeof inner, "%s/config.json", name);
    if (config) scratch_write(inner, config, strlen(config));
    snprintf(inner, sizeof inner, "%s/metrics.jsonl", name);
    if (metrics) scratch_write(inner, metrics, strlen(metrics));
    return path;
}

#endif
