/* What the ranks of a job tell each other (core/ranks.h). Rank 0 runs the program. Where its engine
 * begins with a batch, it sends the others the samples; each rank computes what is its part, and
 * sums of gradients and what became of samples come back. So the others need no data, no directory
 * and no state, and what is read and written knows nothing of ranks. */
#ifndef MODEL_CREW_H
#define MODEL_CREW_H

#include "core/ranks.h"
#include "model/deal.h"
#include "model/model.h"

typedef enum Order {
    CREW_HIRE,    /* a CrewModel and its keys follow: open an engine of it, and answer */
    CREW_RELEASE, /* close it */
    CREW_WEIGHTS, /* they follow */
    CREW_STEP,
    CREW_EVALUATE, /* samples follow */
    CREW_ECHO,     /* bytes follow, which rank 1 sends back */
    CREW_DISMISS   /* no more orders */
} Order;

typedef struct Call {
    Order order;
    int B;
    double scale, smoothing; /* as of engine_step */
    RngKey key;
    size_t ints;        /* of the samples that follow; the bytes of an echo */
    double sum_seconds; /* as of Deal */
} Call;

/* An engine's model, and what ranks have to have in common for its bits besides version and build,
 * which ranks_open has seen to. */
typedef struct CrewModel {
    ModelTask task;
    int max_batch, lanes;
    bool train;
    size_t json; /* bytes of the keys */
    char kernels[256], command[512];
    uint64_t command_hash; /* of all of it: what is shown may be cut */
} CrewModel;

/* For main, before all else: what the program was called with, which ranks have to have in common
 * but for --threads. */
void crew_command(int argc, char **argv);

/* ---- rank 0 ---- */

/* EX_CONFIG where a rank's command or kernels are others, which would give other bits, or what kept
 * it from opening its engine; its host is named. */
bool crew_hire(const Model *m, int max_batch, int lanes, bool train, Err *err);
void crew_release(void);
void crew_weights(const Model *m, const real *w);
/* The call's order, B, scale, smoothing and key; before a step too how fast ranks are, as d has it.
 */
void crew_batch(const Model *m, const Deal *d, Call call, const Sample *samples);
/* Seconds until so many bytes have been at rank 1 and back. */
double crew_echo(size_t bytes);
void crew_dismiss(void);

/* ---- ranks 1, 2, ... ---- */

/* The next order. After CREW_HIRE: the model, its keys (to be freed) and whether rank 0 has the
 * same of these; and the answer, err->code 0 if all is well. */
Call crew_call(void);
bool crew_offer(CrewModel *model, char **json, Err *err);
void crew_answer(const Model *m, int max_batch, const Err *err);
/* After CREW_RELEASE: frees what an answer that all is well has opened. */
void crew_leave(void);
void crew_answer_echo(const Call *call);
/* After a batch's order: into (max_batch) samples, and before a step how fast ranks are, into d. */
void crew_take_batch(const Model *m, Deal *d, const Call *call, Sample *samples);

/* ---- all ---- */

/* What became of samples comes to rank 0 (all but logits); and of the moments of a batch's samples,
 * n reals each, all ranks get all. */
void crew_outcomes(const Deal *d, int B, const Outcome *out);
/* How long each took for its part comes to rank 0, into d->seconds. */
void crew_seconds(Deal *d, double seconds);
void crew_moments(const Deal *d, int B, real *moments, size_t n);

#endif
