#include "train/state.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "train/config.h"

#define FORMAT "cast-checkpoint-1"
#define MOMENT "state.m."

static const int64_t none;

/* Everything but vectors of parameters. */
static const struct {
    const char *name;
    Dtype dtype;
    int64_t n;
    size_t offset;
    const void *otherwise; /* what it is in a file without it; NULL: every file has it */
} small[] = {
    {"state.update", DT_I64, 1, offsetof(State, update)},
    {"state.evaluated", DT_I64, 1, offsetof(State, evaluated)},
    {"state.best_update", DT_I64, 1, offsetof(State, best_update)},
    {"state.stale", DT_I64, 1, offsetof(State, stale), &none},
    {"state.best", DT_F64, sizeof(Score) / sizeof(double), offsetof(State, best)},
    {"state.tally", DT_F64, sizeof(Tally) / sizeof(double), offsetof(State, tally)},
    {"state.guard", DT_F64, sizeof(Guard) / sizeof(double), offsetof(State, guard), &guard_unused},
};
enum { SMALL = sizeof small / sizeof *small };

void state_layout(State *s, Arena *a, const Params *params, bool averages) {
    s->params = params;
    s->guard = guard_unused;
    s->w = arena_reals(a, params->total);
    s->ema = averages ? arena_reals(a, params->total) : NULL;
    adamw_layout(&s->adamw, a, params);
}

void state_begin_averages(State *s) {
    if (s->ema) memcpy(s->ema, s->w, s->params->total * sizeof *s->w);
}

real *state_weights(const State *s) { return s->ema ? s->ema : s->w; }

static size_t vectors(bool averages) { return averages ? 4 : 3; }

size_t state_bytes(const Params *params, bool averages) {
    return vectors(averages) * params->total * sizeof(real);
}

size_t state_file_bytes(const Params *params, bool averages, const char *facts) {
    enum { TENSOR = 256, META = 1 << 14 }; /* of the header */
    const size_t escaped = facts ? 2 * strlen(facts) : 0;
    return state_bytes(params, averages) + escaped +
           (vectors(averages) * (size_t)params->count + SMALL) * TENSOR + META;
}

static int small_tensors(const State *s, StTensor *t) {
    int n = 0;
    for (int i = 0; i < SMALL; i++) {
        const void *data = (const char *)s + small[i].offset;
        const size_t bytes = (size_t)small[i].n * dtype_size(small[i].dtype);
        if (!small[i].otherwise || memcmp(data, small[i].otherwise, bytes) != 0)
            t[n++] = st_tensor(small[i].name, small[i].dtype, 1, &small[i].n, data);
    }
    return n;
}

bool state_save(const State *s, const cJSON *config, const char *path, Err *err) {
    const Params *p = s->params;
    const size_t most = vectors(s->ema) * (size_t)p->count + SMALL;
    StTensor *t = mem_alloc(most, sizeof *t);
    char(*names)[96] = mem_alloc(most, sizeof *names);
    int n = params_tensors(p, s->w, "", 0, t, names);
    n += params_tensors(p, s->adamw.m, MOMENT, PARAM_TRAINED, t + n, names + n);
    n += params_tensors(p, s->adamw.v, "state.v.", PARAM_TRAINED, t + n, names + n);
    if (s->ema) n += params_tensors(p, s->ema, PARAMS_AVERAGE, 0, t + n, names + n);
    n += small_tensors(s, t + n);
    char *text = cJSON_PrintUnformatted(config);
    StMeta meta[3 + IDENTITY_PARTS] = {{"format", FORMAT}, {"config", text}};
    int nmeta = 2 + identity_meta(&s->identity, meta + 2);
    if (s->facts) meta[nmeta++] = (StMeta){FACTS_META, s->facts};
    bool ok = st_write(path, KIND_CHECKPOINT, t, n, meta, nmeta, err);
    cJSON_free(text);
    mem_free(t);
    mem_free(names);
    return ok;
}

/* Moments or averages of parameters with these flags, of the very type that they were saved in. */
static bool read_vector(const Params *p, real *out, const char *prefix, unsigned flags,
                        const StFile *f, Err *err) {
    const Dtype dtype = sizeof(real) == 8 ? DT_F64 : DT_F32;
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        char name[96];
        if ((q->flags & flags) != flags) continue;
        snprintf(name, sizeof name, "%s%s", prefix, q->name);
        if (!st_want(f, name, dtype, q->ndim, q->shape, err)) return false;
        if (!st_reals(f, name, out + q->at, q->n, err)) return false;
    }
    return true;
}

/* A build of other numbers cannot go on bit by bit. */
static bool check_numbers(const Params *p, const StFile *f, Err *err) {
    const int ours = sizeof(real) == 8 ? 64 : 32, theirs = 96 - ours;
    for (int i = 0; i < p->count; i++) {
        char name[96];
        snprintf(name, sizeof name, MOMENT "%s", p->list[i].name);
        const StTensor *t = st_find(f, name);
        if (t && t->dtype == (theirs == 64 ? DT_F64 : DT_F32))
            return err_set(err, EX_CONFIG,
                           "%s: is of a build with %d-bit numbers (make%s), which can go on with "
                           "it; this one's have %d",
                           f->path, theirs, theirs == 64 ? " MODE=double" : "", ours);
    }
    return true;
}

static bool is_sound(const State *s) {
    return s->update >= 0 && s->evaluated >= 0 && s->evaluated <= s->update &&
           s->best_update >= 0 && s->best_update <= s->update && s->stale >= 0 &&
           s->stale <= s->evaluated && guard_is_sound(&s->guard) &&
           s->guard.skipped <= (double)s->update;
}

/* What may be missing could be there under a damaged name: no tensor is left over. */
static bool check_count(const State *s, const StFile *f, Err *err) {
    int n = (s->ema ? 2 : 1) * s->params->count;
    for (int i = 0; i < s->params->count; i++)
        if (s->params->list[i].flags & PARAM_TRAINED) n += 2;
    for (int i = 0; i < SMALL; i++) n += st_find(f, small[i].name) != NULL;
    return n == f->ntensors ||
           err_set(err, EX_DATAERR, "%s: has %d tensors, of which %d are not of a checkpoint",
                   f->path, f->ntensors, f->ntensors - n);
}

static bool read_small(State *s, const StFile *f, Err *err) {
    for (int i = 0; i < SMALL; i++) {
        void *to = (char *)s + small[i].offset;
        const size_t bytes = (size_t)small[i].n * dtype_size(small[i].dtype);
        if (small[i].otherwise && !st_find(f, small[i].name)) {
            memcpy(to, small[i].otherwise, bytes);
            continue;
        }
        const StTensor *t = st_want(f, small[i].name, small[i].dtype, 1, &small[i].n, err);
        if (!t) return false;
        memcpy(to, t->data, bytes);
    }
    return is_sound(s) || err_set(err, EX_DATAERR,
                                  "%s: its counters (update %lld, evaluated %lld, best %lld, stale "
                                  "%lld; skipped %g, in a row "
                                  "%g, rollbacks %g, rate %g) cannot be",
                                  f->path, (long long)s->update, (long long)s->evaluated,
                                  (long long)s->best_update, (long long)s->stale, s->guard.skipped,
                                  s->guard.in_a_row, s->guard.rollbacks, s->guard.rate);
}

cJSON *state_config(const StFile *f, Err *err) {
    const char *text = st_meta(f, "config");
    if (!text) {
        err_set(err, EX_DATAERR, "%s: its metadata has no \"config\"", f->path);
        return NULL;
    }
    cJSON *o = json_parse(text, strlen(text), JSON_MAX_BYTES, JSON_MAX_DEPTH, f->path, err);
    if (cJSON_IsObject(o)) return o;
    if (o) err_set(err, EX_DATAERR, "%s: the \"config\" of its metadata is no object", f->path);
    err->code = EX_DATAERR; /* a config, but not one that somebody wrote */
    cJSON_Delete(o);
    return NULL;
}

/* The config that the checkpoint was made under must be ours. */
static bool check_config(const StFile *f, const cJSON *config, Err *err) {
    cJSON *theirs = state_config(f, err);
    if (theirs) config_complete(theirs);
    bool ok = theirs && config_same(theirs, config, f->path, err);
    cJSON_Delete(theirs);
    if (!ok) err->code = EX_DATAERR;
    return ok;
}

bool state_check(const StFile *f, Err *err) {
    const char *format = st_meta(f, "format");
    if (!format || strcmp(format, FORMAT) != 0)
        return err_set(err, EX_DATAERR,
                       "%s: is not a checkpoint of this version (" FORMAT "): %s%.40s", f->path,
                       format ? "its format is " : "it has no format", format ? format : "");
    /* Without it, damage would go unseen. */
    if (!st_meta(f, "crc32"))
        return err_set(err, EX_DATAERR, "%s: its metadata has no \"crc32\"", f->path);
    return st_check_crc(f, err);
}

bool state_update(const StFile *f, int64_t *update, Err *err) {
    const int64_t one = 1;
    const StTensor *t = st_want(f, "state.update", DT_I64, 1, &one, err);
    if (t) memcpy(update, t->data, sizeof *update);
    return t != NULL;
}

static bool read_averages(const State *s, const StFile *f, Err *err) {
    return !s->ema || read_vector(s->params, s->ema, PARAMS_AVERAGE, 0, f, err);
}

bool state_read_weights(const State *s, const StFile *f, Err *err) {
    return s->ema ? read_averages(s, f, err) : params_read(s->params, s->w, f, err);
}

static bool read_vectors(const State *s, const StFile *f, Err *err) {
    return read_vector(s->params, s->adamw.m, MOMENT, PARAM_TRAINED, f, err) &&
           read_vector(s->params, s->adamw.v, "state.v.", PARAM_TRAINED, f, err) &&
           read_averages(s, f, err);
}

static bool check_all(const State *s, const cJSON *config, const StFile *f, Err *err) {
    return state_check(f, err) && check_numbers(s->params, f, err) && check_config(f, config, err);
}

bool state_may_load(const State *s, const cJSON *config, const char *path, Err *err) {
    StFile f;
    if (!st_open(&f, path, err)) return false;
    const bool ok = check_all(s, config, &f, err);
    st_close(&f);
    return ok;
}

bool state_load(State *s, const cJSON *config, const char *path, Err *err) {
    StFile f;
    if (!st_open(&f, path, err)) return false;
    bool ok = check_all(s, config, &f, err) && params_read(s->params, s->w, &f, err) &&
              read_vectors(s, &f, err) && read_small(s, &f, err) && check_count(s, &f, err);
    if (ok) identity_read(&s->identity, &f);
    st_close(&f);
    return ok;
}
