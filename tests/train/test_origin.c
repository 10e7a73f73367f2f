/* train.init: what a run takes from other weights, by name and shape, and what it refuses. */
#include "train/origin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/small.h"
#include "train/state.h"

enum { MOST = 8 };

/* The small config with keys set: "key=value key=value". */
static void open_config(Config *c, const char *keys, const char *init) {
    char text[512], from[FILE_PATH_MAX], *words[MOST];
    Config small;
    Err err;
    int n = 0;
    small_config(&small, "", false);
    snprintf(text, sizeof text, "%s", keys);
    for (char *at = text; *at; at += strspn(at, " ")) {
        words[n++] = at;
        at += strcspn(at, " ");
        if (*at) *at++ = '\0';
    }
    snprintf(from, sizeof from, "train.init=%s", init ? init : "");
    words[n++] = from;
    if (!config_open(c, small.resolved, "config", NULL, words, n, &err)) fail_msg("%s", err.text);
    config_free(&small);
}

static real *drawn(const Params *p, uint64_t seed) {
    real *w = mem_alloc(p->total, sizeof *w);
    params_init(p, w, seed);
    return w;
}

/* A checkpoint under `keys` whose weights are draws of seed 7, and no constants. */
static const char *checkpoint(const char *keys) {
    const char *path = scratch("there.safetensors");
    Config c;
    State s = {0};
    Arena a = {0};
    Err err;
    open_config(&c, keys, NULL);
    state_layout(&s, &a, &c.model.params, false);
    assert_true(arena_open(&a, a.used, &err));
    state_layout(&s, &a, &c.model.params, false);
    Draws d = draws_open("origin", 1);
    for (int i = 0; i < s.params->count; i++)
        draw_normals(&d, s.w + s.params->list[i].at, s.params->list[i].n, 0, 1);
    s.update = 12;
    if (!state_save(&s, c.resolved, path, &err)) fail_msg("%s", err.text);
    arena_close(&a);
    config_free(&c);
    return path;
}

typedef struct Fixture {
    Config c;
    Origin o;
    real *w, *initial;
} Fixture;

/* The weights that a run under `keys` begins with. */
static void begin(Fixture *x, const char *keys, const char *init) {
    Err err;
    *x = (Fixture){0};
    open_config(&x->c, keys, init);
    if (!origin_open(&x->o, &x->c, &err)) fail_msg("%s", err.text);
    x->w = drawn(&x->c.model.params, 1);
    x->initial = drawn(&x->c.model.params, 1);
    if (!origin_take(&x->o, x->w, &err)) fail_msg("%s", err.text);
    origin_tell(&x->o);
}

static void end(Fixture *x) {
    mem_free(x->w);
    mem_free(x->initial);
    origin_close(&x->o);
    config_free(&x->c);
}

static void refuse(const char *keys, const char *init, int code, const char *what) {
    Config c;
    Origin o;
    Err err;
    open_config(&c, keys, init);
    assert_false(origin_open(&o, &c, &err));
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
    assert_int_equal(err.code, code);
    config_free(&c);
}

/* How many of a parameter's first values are those of the file's tensor; of the rest all must be
 * initial. */
static size_t taken_from(const Fixture *x, const char *name, const char *tensor) {
    const Param *p = params_find(&x->c.model.params, name);
    const StTensor *t = st_find(&x->o.file, tensor);
    size_t n = 0;
    assert_non_null(p);
    if (!t) return 0;
    const real *now = x->w + p->at, *there = t->data;
    while (n < p->n && n < t->bytes / sizeof *there && now[n] == there[n]) n++;
    assert_memory_equal(now + n, x->initial + p->at + n, (p->n - n) * sizeof *now);
    return n;
}
static size_t taken(const Fixture *x, const char *name) { return taken_from(x, name, name); }
static size_t size_of(const Fixture *x, const char *name) {
    return params_find(&x->c.model.params, name)->n;
}

static void count(const Fixture *x, int taken_whole, int rows, int new, int left) {
    assert_int_equal(x->o.count[ORIGIN_TAKEN], taken_whole);
    assert_int_equal(x->o.count[ORIGIN_ROWS], rows);
    assert_int_equal(x->o.count[ORIGIN_NEW], new);
    assert_int_equal(x->o.count[ORIGIN_LEFT], left);
}

static void test_none(void **state) {
    Fixture x;
    (void)state;
    begin(&x, "", NULL);
    assert_null(x.o.params);
    assert_null(origin_describe(&x.o));
    assert_memory_equal(x.w, x.initial, x.c.model.params.total * sizeof *x.w);
    end(&x);
}

static void test_same_model(void **state) {
    Fixture x;
    (void)state;
    begin(&x, "model.norm=batch train.lr=0.5", checkpoint("model.norm=batch"));
    const Params *p = &x.c.model.params;
    count(&x, p->count, 0, 0, 0);
    for (int i = 0; i < p->count; i++) assert_int_equal(taken(&x, p->list[i].name), p->list[i].n);
    assert_non_null(params_find(p, "last.bn.running_var"));
    assert_int_equal(x.o.from.update, 12);
    end(&x);
}

static void test_another_length(void **state) {
    Fixture x;
    (void)state;
    const char *there = checkpoint("model.max_length=6");
    begin(&x, "", there);
    assert_int_equal(taken(&x, "pos.weight"), 6 * 8);
    count(&x, x.c.model.params.count - 1, 1, 0, 0);
    end(&x);
    begin(&x, "model.max_length=4", there);
    assert_int_equal(taken(&x, "pos.weight"), 4 * 8);
    end(&x);
    begin(&x, "model.positions=rope", there);
    count(&x, x.c.model.params.count, 0, 0, 1);
    end(&x);
}

/* A task has tokens and classes of its own. */
static void test_another_task(void **state) {
    Fixture x;
    (void)state;
    begin(&x, "task=text data.dir=elsewhere", checkpoint(""));
    assert_int_equal(taken(&x, "tok.weight"), 0);
    assert_int_equal(taken(&x, "fc2.weight"), 0);
    assert_int_equal(taken(&x, "fc1.weight"), 8 * 8);
    count(&x, x.c.model.params.count - 3, 0, 3, 0);
    end(&x);
    begin(&x, "task=retrieval data.dir=elsewhere", scratch("there.safetensors"));
    assert_int_equal(taken(&x, "fc1.weight"), 0);
    end(&x);
}

static void test_another_depth_and_mechanism(void **state) {
    Fixture x;
    (void)state;
    begin(&x, "model.depth=2 model.attention.type=full", checkpoint(""));
    assert_int_equal(taken(&x, "blocks.0.attn.q.weight"), 64);
    assert_int_equal(taken(&x, "blocks.1.attn.q.weight"), 0);
    assert_int_equal(x.o.count[ORIGIN_LEFT], 3); /* surrogate, phi */
    end(&x);
}

static void test_shapes(void **state) {
    (void)state;
    const char *there = checkpoint("");
    refuse("model.d_ff=9", there, EX_CONFIG, "tensor 'blocks.0.fc1.weight' is F");
    refuse("model.d_ff=9", there, EX_CONFIG,
           " [9,8]. To start from it, set as it was there: model.d_ff (8, now 9)");
    refuse("model.attention.clusters=4", there, EX_CONFIG, "model.attention.clusters (3, now 4)");
}

/* Tensors without a config, as other programs write them; an average stands before the weights. */
static void write_tensors(const char *path, const char *name, Dtype dtype, const void *data) {
    StTensor t[2] = {st_tensor("stranger", DT_F64, 1, (int64_t[]){1}, (double[]){0}),
                     st_tensor(name, dtype, 2, (int64_t[]){8, 8}, data)};
    Err err;
    if (!st_write(path, KIND_TENSORS, t, 2, NULL, 0, &err)) fail_msg("%s", err.text);
}

static void test_tensors_alone(void **state) {
    static const double wide[64] = {1, 2, 0.5};
    static const int32_t whole[64];
    static const float bad[64] = {NAN};
    const char *path = scratch("tensors.safetensors");
    Fixture x;
    Config c;
    Origin o;
    Err err;
    (void)state;
    write_tensors(path, "fc1.weight", DT_F64, wide);
    begin(&x, "", path);
    const real *now = x.w + params_find(&x.c.model.params, "fc1.weight")->at;
    assert_true(now[0] == 1 && now[1] == 2 && now[2] == REAL(0.5) && now[3] == 0);
    count(&x, 1, 0, x.c.model.params.count - 1, 1);
    assert_int_equal(x.o.from.update, -1);
    end(&x);
    write_tensors(path, "nowhere", DT_F64, wide);
    refuse("", path, EX_CONFIG, "has nothing in common with this model: of its 2 tensors");
    write_tensors(path, "fc1.weight", DT_I32, whole);
    refuse("", path, EX_DATAERR, "'fc1.weight' must be F32 or F64, is I32");
    write_tensors(path, "fc1.weight", DT_F32, bad);
    open_config(&c, "", path);
    assert_true(origin_open(&o, &c, &err));
    real *w = drawn(&c.model.params, 1);
    assert_false(origin_take(&o, w, &err));
    assert_int_equal(err.code, EX_DATAERR);
    assert_non_null(strstr(err.text, "'fc1.weight': 1 of its 64 values is not finite"));
    mem_free(w);
    origin_close(&o);
    config_free(&c);
}

static void test_averages(void **state) {
    real plain[64], average[64];
    const char *path = scratch("average.safetensors");
    Fixture x;
    Err err;
    (void)state;
    for (int i = 0; i < 64; i++) plain[i] = (real)i, average[i] = (real)(100 + i);
    const int64_t shape[] = {8, 8};
    StTensor t[] = {st_real_tensor("fc1.weight", plain, 2, shape),
                    st_real_tensor("state.ema.fc1.weight", average, 2, shape),
                    st_real_tensor("blocks.0.fc1.weight", plain, 2, shape)};
    assert_true(st_write(path, KIND_TENSORS, t, 3, NULL, 0, &err));
    begin(&x, "", path);
    assert_int_equal(taken_from(&x, "fc1.weight", "state.ema.fc1.weight"), 64);
    assert_int_equal(taken(&x, "blocks.0.fc1.weight"), size_of(&x, "blocks.0.fc1.weight"));
    count(&x, 2, 0, x.c.model.params.count - 2, 0);
    end(&x);
}

static void test_files(void **state) {
    size_t size;
    (void)state;
    unsigned char *bytes = scratch_read(checkpoint(""), &size);
    refuse("", scratch("nowhere.safetensors"), EX_NOINPUT, "train.init: ");
    refuse("", scratch_write("torn.safetensors", bytes, size - 40), EX_DATAERR,
           "torn.safetensors: ");
    bytes[size - 40] ^= 1;
    refuse("", scratch_write("flipped.safetensors", bytes, size), EX_DATAERR, "is damaged");
    refuse("", scratch_write("text", "no tensors at all", 17), EX_DATAERR, "not safetensors");
    refuse("", scratch_mkdir("empty"), EX_NOINPUT, "not a run's: it has no config.json");
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_same_model),
        cmocka_unit_test(test_another_length),
        cmocka_unit_test(test_another_task),
        cmocka_unit_test(test_another_depth_and_mechanism),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_tensors_alone),
        cmocka_unit_test(test_averages),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
