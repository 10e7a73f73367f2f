/* A config, and what reads its data. */
#ifndef TESTS_TRAIN_FIXTURE_H
#define TESTS_TRAIN_FIXTURE_H

#include "train/loader.h"
#include "train/small.h"

typedef struct Fixture {
    Config c;
    Loader f;
    Arena a; /* the loader's */
} Fixture;

/* Once the config is there. */
static inline void fixture_open_loader(Fixture *x) {
    Err err;
    if (!loader_open(&x->f, &x->c, &err)) fail_msg("%s", err.text);
    loader_layout(&x->f, &x->a);
    assert_true(arena_open(&x->a, x->a.used, &err));
    loader_layout(&x->f, &x->a);
}

static inline void fixture_close(Fixture *x) {
    loader_close(&x->f);
    arena_close(&x->a);
    config_free(&x->c);
}

#endif
