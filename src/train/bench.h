/* The training step of a config, timed on random tokens at full length, and where its time goes. */
#ifndef TRAIN_BENCH_H
#define TRAIN_BENCH_H

#include "train/config.h"

typedef struct BenchPart {
    const char *name;
    double seconds, flops; /* of a sample on one thread; flops 0: none that count */
} BenchPart;

typedef struct BenchResult {
    const char *task, *mechanism;
    int tokens, batch, threads; /* tokens: of a document */
    double samples_per_s, tokens_per_s, gflops, peak_gflops, peak_rss_mb;
    double sample_seconds, sample_flops; /* a sample's share of a step, on one thread */
    double serial_seconds, busy_seconds; /* of a step: outside of lanes; of all threads in them */
    double folded_share;  /* of sample_flops: the embedding's projection where it is folded
                             (model/fold.h) */
    double avoided_share; /* of sample_flops: never executed, see AttnMeter */
    BenchPart parts[8];
    int nparts;
} BenchResult;

/* Measures for about `seconds`. peak_gflops is the best seen before and after. */
bool bench_run(BenchResult *r, const Config *c, double seconds, Err *err);

#endif
