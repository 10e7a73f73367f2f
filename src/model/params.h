/* The registry of parameters. Each is registered once: name, shape, initial value, flags. They live
 * end to end in one vector (64-byte aligned each), and gradients, moments and transposed copies
 * have the same layout, so that an offset finds a parameter in any of them. Checkpoints, the
 * optimiser, gradient checks and cast_step walk the registry. */
#ifndef MODEL_PARAMS_H
#define MODEL_PARAMS_H

#include "core/param.h"
#include "core/rng.h"
#include "io/safetensors.h"

typedef struct Param {
    char name[64];
    int ndim;
    int64_t shape[PARAM_MAX_DIMS];
    size_t at, n; /* offset and number of elements */
    Init init;
    unsigned flags;
} Param;

typedef struct Params {
    Param *list;
    int count;
    size_t total; /* reals of a vector, alignment included */
} Params;

/* Returns the parameter's offset. Its name is `prefix` followed by the spec's. */
size_t params_add(Params *p, const char *prefix, const ParamSpec *spec);
const Param *params_find(const Params *p, const char *name);
void params_free(Params *p);

/* A linear layer's weight [out,in] and bias [out]. */
typedef struct LinearAt {
    size_t w, b;
} LinearAt;
LinearAt params_add_linear(Params *p, const char *prefix, int out, int in);

/* Draws every initial value from Philox keyed by seed and parameter name. */
void params_init(const Params *p, real *w, uint64_t seed);

/* wt = transposed copies of all PARAM_MATRIX parameters. */
void params_transpose(const Params *p, real *wt, const real *w);

/* What a checkpoint has besides parameters (train/state.h). */
#define PARAMS_STATE "state."
bool params_is_state(const char *name);

/* Reads every parameter from a file; a missing, misshapen or unknown tensor, but of state, is an
 * error that names it. */
bool params_read(const Params *p, real *w, const StFile *f, Err *err);
/* The tensor that trained weights have of a parameter; NULL: none. That is of averaged weights,
 * PARAMS_AVERAGE before its name, where the file has these, else NAME. */
#define PARAMS_AVERAGE PARAMS_STATE "ema."
const StTensor *params_tensor(const StFile *f, const char *name);

/* For evaluation: reads what params_tensor names; tensors that are no parameter are passed over,
 * and what params_lacks says is made as params_init would. */
bool params_take(const Params *p, real *w, const StFile *f, uint64_t seed, Err *err);
bool params_same_shape(const Param *p, const StTensor *t);
/* Whether the file lacks, in that shape, a parameter that can be drawn: PARAM_DRAWN, PARAM_APART.
 */
bool params_lacks(const Param *p, const StFile *f);

/* Fills `tensors` (count entries at most) for st_write with the parameters that have all of
 * `flags`, and returns how many; names are the registry's, each behind `prefix`, kept in `names`.
 */
int params_tensors(const Params *p, const real *w, const char *prefix, unsigned flags,
                   StTensor *tensors, char (*names)[96]);

/* The number of the block that a parameter is of, and the rest of its name ("attn.q.weight"); -1
 * and the whole name where it is of none. */
int params_block(const char *name, const char **rest);

/* The vector in chunks that threads take, always the same: how many, and what a chunk has of a
 * parameter; false: nothing. */
int params_chunks(const Params *p);
bool params_overlap(const Param *q, int chunk, size_t *from, size_t *to);

/* The number of values of parameters that have all of `flags`. */
size_t params_values(const Params *p, unsigned flags);

#endif
