#include "train/state.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/small.h"

typedef struct Fixture {
    Config c;
    State s;
    Arena a;
} Fixture;

static void open_state(Fixture *x, const char *train) {
    Err err;
    *x = (Fixture){0};
    small_config(&x->c, train, false);
    state_layout(&x->s, &x->a, &x->c.model.params, x->c.train.ema > 0);
    assert_true(arena_open(&x->a, x->a.used, &err));
    state_layout(&x->s, &x->a, &x->c.model.params, x->c.train.ema > 0);
}

static void close_state(Fixture *x) {
    arena_close(&x->a);
    config_free(&x->c);
}

/* Random numbers in all that is trained, and odd counters. */
static void fill(Fixture *x) {
    const Params *p = &x->c.model.params;
    Draws d = draws_open("state", 1);
    for (int i = 0; i < p->count; i++) {
        const Param *q = &p->list[i];
        draw_normals(&d, x->s.w + q->at, q->n, 0, 1);
        if (x->s.ema) draw_normals(&d, x->s.ema + q->at, q->n, 0, 1);
        if (!(q->flags & PARAM_TRAINED)) continue;
        draw_normals(&d, x->s.adamw.m + q->at, q->n, 0, 1);
        draw_normals(&d, x->s.adamw.v + q->at, q->n, 0, 1);
    }
    x->s.update = 123456789012;
    x->s.evaluated = 123456789000;
    x->s.best_update = 17;
    x->s.best = (Score){0.1, 1.0 / 3};
    x->s.tally = (Tally){1, 2, 1e300, 4, 1.0 / 7};
    x->s.stale = 5;
    x->s.guard = (Guard){100, 3, 2, 0.25};
    x->s.identity = (Identity){.part = {"0123abcd", "", "4567abcd", "kernels", "\"a\" processor"}};
}

static void assert_same(const State *a, const State *b) {
    const size_t bytes = a->params->total * sizeof(real);
    assert_memory_equal(a->w, b->w, bytes);
    if (a->ema) assert_memory_equal(a->ema, b->ema, bytes);
    assert_memory_equal(a->adamw.m, b->adamw.m, bytes);
    assert_memory_equal(a->adamw.v, b->adamw.v, bytes);
    assert_true(a->update == b->update && a->evaluated == b->evaluated);
    assert_true(a->best_update == b->best_update && a->stale == b->stale);
    assert_memory_equal(&a->best, &b->best, sizeof a->best);
    assert_memory_equal(&a->tally, &b->tally, sizeof a->tally);
    assert_memory_equal(&a->guard, &b->guard, sizeof a->guard);
}

static const char *save(Fixture *x) {
    const char *path = scratch("last.safetensors");
    Err err;
    fill(x);
    if (!state_save(&x->s, x->c.resolved, path, &err)) fail_msg("%s", err.text);
    return path;
}

static void round_trip(const char *train, const char *other) {
    Fixture x, y;
    Err err;
    open_state(&x, train);
    open_state(&y, other);
    const char *path = save(&x);
    if (!state_load(&y.s, y.c.resolved, path, &err)) fail_msg("%s", err.text);
    assert_same(&x.s, &y.s);
    assert_memory_equal(&x.s.identity, &y.s.identity, sizeof x.s.identity);
    close_state(&x);
    close_state(&y);
}

static void test_round_trip(void **state) {
    (void)state;
    round_trip("", "\"log_every\":3"); /* which may differ */
    round_trip("\"ema\":0.5", "\"ema\":0.5");
}

/* As 0.1.0 wrote it: where nothing came of numbers that were not finite, there is nothing of it. */
static void test_guard(void **state) {
    static const Guard wrong[] = {{1, 2, 0, 1},   {-1, -1, 0, 1},  {200000000000, 0, 0, 1},
                                  {0, 0, 0, 0},   {0, 0, 0, 2},    {0, 0, -1, 1},
                                  {0, 0, 0, NAN}, {NAN, NAN, 0, 1}};
    Fixture x, y;
    StFile f;
    Err err;
    (void)state;
    open_state(&x, "");
    open_state(&y, "");
    const char *path = save(&x);
    assert_true(st_open(&f, path, &err));
    assert_non_null(st_find(&f, "state.guard"));
    st_close(&f);
    x.s.guard = guard_unused;
    assert_true(state_save(&x.s, x.c.resolved, path, &err) && st_open(&f, path, &err));
    assert_null(st_find(&f, "state.guard"));
    st_close(&f);
    assert_true(state_load(&y.s, y.c.resolved, path, &err));
    assert_same(&x.s, &y.s);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        x.s.guard = wrong[i];
        assert_true(state_save(&x.s, x.c.resolved, path, &err));
        assert_false(state_load(&y.s, y.c.resolved, path, &err));
        assert_int_equal(err.code, EX_DATAERR);
    }
    close_state(&x);
    close_state(&y);
}

static void refuse(Fixture *y, const char *path, const char *what) {
    Err err;
    assert_false(state_load(&y->s, y->c.resolved, path, &err));
    assert_int_equal(err.code, EX_DATAERR);
    if (!strstr(err.text, what)) fail_msg("expected '%s' in: %s", what, err.text);
}

/* With its moments in numbers of the other width, as another build has them. */
static void test_other_numbers(void **state) {
    const Dtype other = sizeof(real) == 8 ? DT_F32 : DT_F64;
    static const char zeros[1 << 16];
    Fixture x;
    StFile f;
    StTensor *t;
    StMeta meta[] = {{"format", NULL}, {"config", NULL}};
    Err err;
    (void)state;
    open_state(&x, "");
    assert_true(st_open(&f, save(&x), &err));
    for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
        meta[i].value = st_meta(&f, meta[i].key);
    t = mem_alloc((size_t)f.ntensors, sizeof *t);
    for (int i = 0; i < f.ntensors; i++) {
        t[i] = f.tensors[i];
        if (strncmp(t[i].name, "state.m.", 8) != 0) continue;
        t[i] = st_tensor(t[i].name, other, t[i].ndim, t[i].shape, zeros);
        assert_true(t[i].bytes <= sizeof zeros);
    }
    const char *path = scratch("other.safetensors");
    assert_true(st_write(path, KIND_CHECKPOINT, t, f.ntensors, meta, 2, &err));
    assert_false(state_load(&x.s, x.c.resolved, path, &err));
    assert_int_equal(err.code, EX_CONFIG);
    assert_non_null(strstr(err.text, other == DT_F64 ? "64-bit numbers (make MODE=double)"
                                                     : "32-bit numbers (make)"));
    mem_free(t);
    st_close(&f);
    close_state(&x);
}

static void test_another_config(void **state) {
    Fixture x, y;
    (void)state;
    open_state(&x, "");
    open_state(&y, "\"lr\":0.25");
    refuse(&y, save(&x), "train.lr (0.001, now 0.25)");
    /* Of a version without the key, which then had its default. */
    cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItem(x.c.resolved, "train"), "lr");
    refuse(&y, save(&x), "train.lr (0.001, now 0.25)");
    close_state(&x);
    close_state(&y);
}

/* Wherever a bit flips, the checkpoint is refused, or what was flipped means nothing. */
static void test_flipped_bits(void **state) {
    Fixture x, y;
    Err err;
    size_t size;
    int refused = 0, tried = 0;
    (void)state;
    open_state(&x, "\"ema\":0.5");
    open_state(&y, "\"ema\":0.5");
    unsigned char *bytes = scratch_read(save(&x), &size);
    for (size_t at = 0; at < size; at += 1 + at / 150, tried++) {
        bytes[at] ^= (unsigned char)(1 << at % 8);
        const char *path = scratch_write("flipped.safetensors", bytes, size);
        y.s.identity = (Identity){0};
        if (state_load(&y.s, y.c.resolved, path, &err)) {
            assert_same(&x.s, &y.s);
            assert_memory_equal(&x.s.identity, &y.s.identity, sizeof x.s.identity);
        } else {
            assert_int_equal(err.code, EX_DATAERR);
            refused++;
        }
        bytes[at] ^= (unsigned char)(1 << at % 8);
    }
    assert_true(tried > 500 && tried - refused <= 16); /* those in the name header_crc32 */
    free(bytes);
    close_state(&x);
    close_state(&y);
}

static void test_cut_short(void **state) {
    Fixture x, y;
    Err err;
    size_t size;
    (void)state;
    open_state(&x, "");
    open_state(&y, "");
    unsigned char *bytes = scratch_read(save(&x), &size);
    for (size_t n = 0; n < size; n += 1 + n / 20) {
        const char *path = scratch_write("short.safetensors", bytes, n);
        assert_false(state_load(&y.s, y.c.resolved, path, &err));
        assert_int_equal(err.code, EX_DATAERR);
    }
    free(bytes);
    close_state(&x);
    close_state(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_guard),
        cmocka_unit_test(test_another_config), cmocka_unit_test(test_other_numbers),
        cmocka_unit_test(test_flipped_bits),   cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
