/* The training step of a config, timed on random tokens at full length or on the task's own
 * examples, and where its time goes. */
#ifndef TRAIN_BENCH_H
#define TRAIN_BENCH_H

#include "train/config.h"

typedef struct BenchPart {
    const char *name;
    double seconds, flops; /* of a sample on one thread; flops 0: none that count */
} BenchPart;

/* A step: a batch, and its share of the update that is made of train.accumulate of them. */
typedef struct BenchResult {
    const char *task, *mechanism;
    int tokens, batch, threads, ranks; /* tokens: of a document, the mean where they differ */
    int per_example, most_tokens;      /* documents of a sample; tokens of one, at most */
    size_t parameters, summed;         /* reals of weights, with what aligns them, and of sums */
    double step_seconds;               /* the mean */
    double samples_per_s, tokens_per_s, updates_per_s, gflops, peak_gflops, peak_rss_mb;
    double sample_seconds, sample_flops; /* a sample's share of a step, on one thread */
    double peak_ranks;                   /* so many ranks' peaks are peak_gflops (ranks_times) */
    double serial_seconds, busy_seconds; /* of a step: outside of lanes; of all threads in them */
    double apart_seconds;                /* of a step: that the mean rank waits for the slowest */
    double moved_bytes;                  /* of a step: what rank 0 and the others tell each other */
    double exchange_seconds, exchange_bytes; /* the same alone, with next to no tokens */
    double folded_share;  /* of sample_flops: the embedding's projection where it is folded
                             (model/fold.h) */
    double avoided_share; /* of sample_flops: never executed, see AttnMeter */
    BenchPart parts[8];
    int nparts;
} BenchResult;

/* Measures for about `seconds`. peak_gflops is the best seen before and after. `data`: batches of
 * the training split, in their order; the splits have to be there. With these, and on several
 * ranks, no parts. EX_OSERR: too little memory; errors of loader_open. */
bool bench_run(BenchResult *r, const Config *c, double seconds, bool data, Err *err);

/* What so many threads can do at most, as an object, to be deleted: peak_gflops, gemm_gflops (of
 * small products of matrices) and memory_gb_per_s, with threads, kernels and numbers. */
cJSON *bench_machine(int threads);

/* All of it as an object, to be deleted, with `c`, what it is of, and what measured it. */
cJSON *bench_json(const BenchResult *r, const Config *c);

/* Adds to such an object how many times as fast it is as that of the first row, `alone` (itself,
 * for that one), its efficiency, and what the rest of all threads' time is lost to. */
void bench_losses(cJSON *row, const cJSON *alone);

#endif
