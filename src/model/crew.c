#include "model/crew.h"

#include <stdio.h>
#include <string.h>

#include "core/gemm.h"
#include "core/hash.h"
#include "core/log.h"

typedef struct Result {
    double loss;
    int predicted, correct;
} Result;

/* What is on its way, of the engine at hand. */
static int *ints;
static Result *results; /* (max_batch) */
static real *packed;    /* (max_batch, moments of a sample), with batch norm */

enum { HEAD = 4 }; /* ints before a sample's tokens: label, number, lengths */

static void open_memory(const Model *m, int max_batch) {
    const size_t B = (size_t)max_batch,
                 tokens = (size_t)(2 * m->task.per_example) * (size_t)m->conf.max_length;
    ints = mem_alloc(B * (HEAD + tokens), sizeof *ints);
    results = mem_alloc(B, sizeof *results);
    if (m->conf.norm == NORM_BATCH)
        packed = mem_alloc(B * (size_t)m->task.per_example * 2 * (size_t)m->conf.d, sizeof *packed);
}

void crew_leave(void) {
    mem_free(ints);
    mem_free(results);
    mem_free(packed);
    ints = NULL, results = NULL, packed = NULL;
}

static char command[sizeof((CrewModel *)NULL)->command];
static uint64_t command_hash;

/* --threads, which may be shortened and have its value behind it. */
static bool is_threads(const char *word, size_t n) {
    return n >= strlen("--t") && n <= strlen("--threads") && !strncmp(word, "--threads", n);
}

void crew_command(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const size_t n = strcspn(argv[i], "=");
        if (is_threads(argv[i], n)) {
            i += argv[i][n] == '\0';
            continue;
        }
        format_add(command, sizeof command, "%s%s", command[0] ? " " : "", argv[i]);
        command_hash = hash_more(command_hash, argv[i], strlen(argv[i]) + 1);
    }
}

static void describe_here(CrewModel *c) {
    snprintf(c->kernels, sizeof c->kernels, "%s", gemm_kernels());
    snprintf(c->command, sizeof c->command, "%s", command);
    c->command_hash = command_hash;
}

/* ---- rank 0 ---- */

static void tell(Order order) { ranks_order(&(Call){.order = order}, sizeof(Call)); }

static bool hear_answers(Err *err) {
    bool ok = true;
    for (int r = 1; r < ranks_count(); r++) {
        Err theirs;
        ranks_receive(r, &theirs, sizeof theirs);
        if (ok && theirs.code)
            ok = err_set(err, theirs.code, "rank %d on %s: %s", r, ranks_host(r), theirs.text);
    }
    return ok;
}

bool crew_hire(const Model *m, int max_batch, int lanes, bool train, Err *err) {
    cJSON *keys = cJSON_CreateObject();
    model_write(m, keys);
    char *text = cJSON_PrintUnformatted(keys);
    CrewModel c = {m->task, max_batch, lanes, train, strlen(text) + 1};
    describe_here(&c);
    tell(CREW_HIRE);
    ranks_broadcast(&c, sizeof c);
    ranks_broadcast(text, c.json);
    cJSON_free(text);
    cJSON_Delete(keys);
    if (!hear_answers(err)) {
        tell(CREW_RELEASE); /* those who could */
        return false;
    }
    open_memory(m, max_batch);
    return true;
}

void crew_release(void) {
    tell(CREW_RELEASE);
    crew_leave();
}

void crew_weights(const Model *m, const real *w) {
    tell(CREW_WEIGHTS);
    ranks_broadcast((real *)w, m->params.total * sizeof *w);
}

static int *put(int *at, const int *from, size_t n) {
    memcpy(at, from, n * sizeof *at);
    return at + n;
}

void crew_batch(const Model *m, const Deal *d, Call call, const Sample *samples) {
    int *at = ints;
    for (int i = 0; i < call.B; i++) {
        const Sample *s = &samples[i];
        at = put(at, (const int[HEAD]){s->label, s->number, s->length[0], s->length[1]}, HEAD);
        for (int j = 0; j < m->task.per_example; j++) {
            const size_t n = (size_t)model_reads(m, s->length[j]);
            at = put(at, s->ids[j], n);
            if (m->task.masked > 0) at = put(at, s->targets[j], n);
        }
    }
    call.ints = (size_t)(at - ints);
    call.sum_seconds = d->sum_seconds;
    ranks_order(&call, sizeof call);
    ranks_broadcast(ints, call.ints * sizeof *ints);
    if (call.order == CREW_STEP) ranks_broadcast(d->pace, (size_t)d->ranks * sizeof *d->pace);
}

double crew_echo(size_t bytes) {
    char *data = mem_alloc(bytes, 1);
    ranks_order(&(Call){.order = CREW_ECHO, .ints = bytes}, sizeof(Call));
    const double start = clock_seconds();
    ranks_send(1, data, bytes);
    ranks_receive(1, data, bytes);
    const double seconds = clock_seconds() - start;
    mem_free(data);
    return seconds;
}

void crew_dismiss(void) { tell(CREW_DISMISS); }

/* ---- ranks 1, 2, ... ---- */

Call crew_call(void) {
    Call call;
    ranks_order(&call, sizeof call);
    return call;
}

void crew_answer_echo(const Call *call) {
    if (ranks_me() != 1) return;
    char *data = mem_alloc(call->ints, 1);
    ranks_receive(0, data, call->ints);
    ranks_send(0, data, call->ints);
    mem_free(data);
}

bool crew_offer(CrewModel *model, char **json, Err *err) {
    CrewModel here;
    ranks_broadcast(model, sizeof *model);
    *json = mem_alloc(model->json, 1);
    ranks_broadcast(*json, model->json);
    describe_here(&here);
    if (strcmp(here.command, model->command) != 0)
        return err_set(err, EX_CONFIG,
                       "was started with another command: '%s', and rank 0 with '%s'", here.command,
                       model->command);
    if (here.command_hash != model->command_hash)
        return err_set(err, EX_CONFIG,
                       "was started with another command than rank 0: they differ behind '%s'",
                       here.command);
    return !strcmp(here.kernels, model->kernels) ||
           err_set(err, EX_CONFIG, "its kernels would give other bits: '%s', and rank 0 has '%s'",
                   here.kernels, model->kernels);
}

void crew_answer(const Model *m, int max_batch, const Err *err) {
    if (!err->code) open_memory(m, max_batch);
    ranks_send(0, err, sizeof *err);
}

void crew_take_batch(const Model *m, Deal *d, const Call *call, Sample *samples) {
    const int *at = ints;
    ranks_broadcast(ints, call->ints * sizeof *ints);
    d->sum_seconds = call->sum_seconds;
    if (call->order == CREW_STEP) ranks_broadcast(d->pace, (size_t)d->ranks * sizeof *d->pace);
    for (int i = 0; i < call->B; i++) {
        Sample s = {.label = at[0], .number = at[1], .length = {at[2], at[3]}};
        at += HEAD;
        for (int j = 0; j < m->task.per_example; j++) {
            s.ids[j] = at, at += model_reads(m, s.length[j]);
            if (m->task.masked > 0) s.targets[j] = at, at += model_reads(m, s.length[j]);
        }
        samples[i] = s;
    }
}

/* ---- all ---- */

static int count_of(const Deal *d, int B, int rank) {
    int n = 0;
    for (int i = 0; i < B; i++) n += d->rank_of[i] == rank;
    return n;
}

static void send_outcomes(const Deal *d, int B, const Outcome *out) {
    int n = 0;
    for (int i = 0; i < B; i++)
        if (d->rank_of[i] == ranks_me())
            results[n++] = (Result){out->loss[i], out->predicted[i], out->correct[i]};
    ranks_send(0, results, (size_t)n * sizeof *results);
}

static void take_outcomes(const Deal *d, int B, int rank, const Outcome *out) {
    const Result *next = results;
    ranks_receive(rank, results, (size_t)count_of(d, B, rank) * sizeof *results);
    for (int i = 0; i < B; i++) {
        if (d->rank_of[i] != rank) continue;
        if (out->loss) out->loss[i] = next->loss;
        if (out->predicted) out->predicted[i] = next->predicted;
        if (out->correct) out->correct[i] = next->correct;
        next++;
    }
}

void crew_outcomes(const Deal *d, int B, const Outcome *out) {
    if (ranks_me() != 0) send_outcomes(d, B, out);
    for (int r = 1; r < d->ranks && ranks_me() == 0; r++) take_outcomes(d, B, r, out);
}

void crew_seconds(Deal *d, double seconds) {
    d->seconds[ranks_me()] = seconds;
    if (ranks_me() != 0) ranks_send(0, &seconds, sizeof seconds);
    for (int r = 1; r < d->ranks && ranks_me() == 0; r++)
        ranks_receive(r, &d->seconds[r], sizeof seconds);
}

static void send_moments(const Deal *d, int B, const real *moments, size_t n) {
    size_t at = 0;
    for (int i = 0; i < B; i++) {
        if (d->rank_of[i] != ranks_me()) continue;
        memcpy(packed + at, moments + (size_t)i * n, n * sizeof *packed);
        at += n;
    }
    ranks_send(0, packed, at * sizeof *packed);
}

static void take_moments(const Deal *d, int B, int rank, real *moments, size_t n) {
    const real *next = packed;
    ranks_receive(rank, packed, (size_t)count_of(d, B, rank) * n * sizeof *packed);
    for (int i = 0; i < B; i++) {
        if (d->rank_of[i] != rank) continue;
        memcpy(moments + (size_t)i * n, next, n * sizeof *next);
        next += n;
    }
}

void crew_moments(const Deal *d, int B, real *moments, size_t n) {
    if (ranks_me() != 0) send_moments(d, B, moments, n);
    for (int r = 1; r < d->ranks && ranks_me() == 0; r++) take_moments(d, B, r, moments, n);
    ranks_broadcast(moments, (size_t)B * n * sizeof *moments);
}
