#include "model/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "ops/linear.h"

enum { ALIGN = 64 / sizeof(real) };

size_t params_add(Params *p, const char *prefix, const ParamSpec *spec) {
    p->list = mem_grow(p->list, (size_t)p->count + 1, sizeof *p->list);
    Param *q = &p->list[p->count++];
    *q = (Param){
        .ndim = spec->ndim, .n = 1, .init = spec->init, .flags = spec->flags, .at = p->total};
    int len = snprintf(q->name, sizeof q->name, "%s%s", prefix, spec->name);
    REQUIRE(len < (int)sizeof q->name, "parameter name too long: %s%s", prefix, spec->name);
    for (int i = 0; i < spec->ndim; i++) {
        q->shape[i] = spec->shape[i];
        REQUIRE(size_mul(q->n, (size_t)spec->shape[i], &q->n), "%s is too large", q->name);
    }
    p->total += (q->n + ALIGN - 1) / ALIGN * ALIGN;
    return q->at;
}

LinearAt params_add_linear(Params *p, const char *prefix, int out, int in) {
    const ParamSpec weight = {
        "weight", 2, {out, in}, {INIT_XAVIER, 0}, PARAM_TRAINED | PARAM_DECAYED | PARAM_MATRIX};
    const ParamSpec bias = {"bias", 1, {out}, {INIT_CONST, 0}, PARAM_TRAINED};
    LinearAt at;
    at.w = params_add(p, prefix, &weight);
    at.b = params_add(p, prefix, &bias);
    return at;
}

const Param *params_find(const Params *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->list[i].name, name)) return &p->list[i];
    return NULL;
}

void params_free(Params *p) {
    mem_free(p->list);
    *p = (Params){0};
}

/* The last dimension, over which rows are contiguous. */
static size_t row_length(const Param *p) { return (size_t)p->shape[p->ndim - 1]; }

static double dot(const real *x, const real *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Row r becomes orthogonal to `before` rows above it, and 1 long: Gram-Schmidt, twice against
 * rounding. That is Q of the QR decomposition whose R has a positive diagonal. */
static void orthogonalise(real *x, size_t r, size_t before, size_t e) {
    real *row = x + r * e;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = r - before; i < r; i++) {
            const double along = dot(row, x + i * e, e);
            for (size_t j = 0; j < e; j++) row[j] -= (real)(along * (double)x[i * e + j]);
        }
    const double length = sqrt(dot(row, row, e));
    for (size_t j = 0; j < e; j++) row[j] = (real)((double)row[j] / length);
}

static void fill_orthogonal(const Param *p, real *x, RngKey key) {
    const size_t e = row_length(p), m = (size_t)p->shape[p->ndim - 2], rows = p->n / e;
    real *lengths = mem_alloc(p->n, sizeof *lengths);
    rng_fill_normal(x, (int64_t)p->n, rng_subkey_name(key, "directions"), 0, 1);
    rng_fill_normal(lengths, (int64_t)p->n, rng_subkey_name(key, "lengths"), 0, 1);
    for (size_t r = 0; r < rows; r++) orthogonalise(x, r, r % m % e, e);
    for (size_t r = 0; r < rows; r++) {
        const double length = sqrt(dot(lengths + r * e, lengths + r * e, e));
        for (size_t j = 0; j < e; j++) x[r * e + j] = (real)(length * (double)x[r * e + j]);
    }
    mem_free(lengths);
}

static void fill_hyperplanes(const Param *p, real *x, RngKey key) {
    const size_t e = row_length(p);
    rng_fill_normal(x, (int64_t)p->n, key, 0, 1);
    for (size_t last = e - 1; last < p->n; last += e) x[last] = 0;
}

static void fill_smooth(const Param *p, real *x, RngKey key) {
    const size_t e = row_length(p), rows = p->n / e;
    const RngKey phases = rng_subkey_name(key, "phases");
    real *frequency = mem_alloc(e, sizeof *frequency);
    rng_fill_normal(frequency, (int64_t)e, rng_subkey_name(key, "frequencies"), 0,
                    p->init.value / (double)rows);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < e; j++) {
            const double phase = 2 * acos(-1) * rng_uniform(phases, j);
            x[i * e + j] = (real)(sqrt(2) * cos((double)i * (double)frequency[j] + phase));
        }
    mem_free(frequency);
}

static void init(const Param *p, real *w, uint64_t seed) {
    const RngKey key = rng_subkey_name(rng_subkey_name(rng_key(seed), "init"), p->name);
    const int64_t n = (int64_t)p->n;
    real *x = w + p->at;
    switch (p->init.kind) {
    case INIT_CONST:
        for (size_t j = 0; j < p->n; j++) x[j] = (real)p->init.value;
        break;
    case INIT_NORMAL: rng_fill_normal(x, n, key, 0, p->init.value); break;
    case INIT_UNIFORM: rng_fill_uniform(x, n, key, p->init.value); break;
    case INIT_HYPERPLANES: fill_hyperplanes(p, x, key); break;
    case INIT_ORTHOGONAL: fill_orthogonal(p, x, key); break;
    case INIT_SMOOTH: fill_smooth(p, x, key); break;
    case INIT_XAVIER:
        rng_fill_uniform(x, n, key, sqrt(6.0 / (double)(p->shape[0] + p->shape[1])));
        break;
    }
}

void params_init(const Params *p, real *w, uint64_t seed) {
    for (int i = 0; i < p->count; i++) init(&p->list[i], w, seed);
}

void params_transpose(const Params *p, real *wt, const real *w) {
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        if (!(q->flags & PARAM_MATRIX)) continue;
        int rows = (int)q->shape[0], cols = (int)(q->n / (size_t)q->shape[0]);
        transpose(wt + q->at, rows, w + q->at, cols, rows, cols);
    }
}

bool params_is_state(const char *name) {
    return !strncmp(name, PARAMS_STATE, sizeof PARAMS_STATE - 1);
}

static bool known_tensor(const Params *p, const char *name) {
    return params_is_state(name) || params_find(p, name);
}

static bool take(const Param *p, real *w, const StFile *f, const StTensor *t, Err *err) {
    if (!t)
        return err_set(err, EX_DATAERR,
                       "%s: tensor '%s' is missing: the file belongs to another model", f->path,
                       p->name);
    const Dtype dtype = t->dtype == DT_F64 ? DT_F64 : DT_F32;
    return st_want(f, t->name, dtype, p->ndim, p->shape, err) &&
           st_reals(f, t->name, w + p->at, p->n, err);
}

bool params_read(const Params *p, real *w, const StFile *f, Err *err) {
    for (int i = 0; i < f->ntensors; i++)
        if (!known_tensor(p, f->tensors[i].name))
            return err_set(err, EX_DATAERR,
                           "%s: tensor '%s' is not a parameter of this model: the file belongs to "
                           "another model",
                           f->path, f->tensors[i].name);
    for (int i = 0; i < p->count; i++)
        if (!take(&p->list[i], w, f, st_find(f, p->list[i].name), err)) return false;
    return true;
}

const StTensor *params_tensor(const StFile *f, const char *name) {
    char averaged[96];
    snprintf(averaged, sizeof averaged, PARAMS_AVERAGE "%s", name);
    const StTensor *t = st_find(f, averaged);
    return t ? t : st_find(f, name);
}

bool params_same_shape(const Param *p, const StTensor *t) {
    bool same = t->ndim == p->ndim;
    for (int i = 0; same && i < p->ndim; i++) same = t->shape[i] == p->shape[i];
    return same;
}

bool params_lacks(const Param *p, const StFile *f) {
    const StTensor *t = st_find(f, p->name);
    return p->flags & (PARAM_DRAWN | PARAM_APART) && !(t && params_same_shape(p, t));
}

bool params_take(const Params *p, real *w, const StFile *f, uint64_t seed, Err *err) {
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        if (params_lacks(q, f))
            init(q, w, seed);
        else if (!take(q, w, f, params_tensor(f, q->name), err))
            return false;
    }
    return true;
}

int params_tensors(const Params *p, const real *w, const char *prefix, unsigned flags,
                   StTensor *tensors, char (*names)[96]) {
    int n = 0;
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        if ((q->flags & flags) != flags) continue;
        snprintf(names[n], sizeof names[n], "%s%s", prefix, q->name);
        tensors[n] = st_real_tensor(names[n], w + q->at, q->ndim, q->shape);
        n++;
    }
    return n;
}

int params_block(const char *name, const char **rest) {
    int block = -1, used = 0;
    const bool named = sscanf(name, "blocks.%d.%n", &block, &used) == 1 && used > 0;
    *rest = name + (named ? used : 0);
    return named ? block : -1;
}

enum { CHUNK = 16384 };

int params_chunks(const Params *p) { return (int)((p->total + CHUNK - 1) / CHUNK); }

bool params_overlap(const Param *q, int chunk, size_t *from, size_t *to) {
    const size_t a = (size_t)chunk * CHUNK, b = a + CHUNK;
    *from = q->at > a ? q->at : a;
    *to = q->at + q->n < b ? q->at + q->n : b;
    return *from < *to;
}

size_t params_values(const Params *p, unsigned flags) {
    size_t n = 0;
    for (int i = 0; i < p->count; i++)
        if ((p->list[i].flags & flags) == flags) n += p->list[i].n;
    return n;
}
