/* What a run was begun with, and what it goes on with; and data that are read slowly, whose damage
 * is found when training is under way. */
#include "train/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gemm.h"
#include "core/lanes.h"
#include "train/small.h"

static void test_parts(void **state) {
    const Identity a = {.part = {"1", "2", "", "x", "y", "z"}};
    Identity b = a;
    (void)state;
    assert_true(identity_same(&a, &b));
    for (int i = 0; i < IDENTITY_PARTS; i++) {
        assert_false(identity_differs(&a, &b, i));
        b.part[i][0] = 'o';
        assert_int_equal(identity_differs(&a, &b, i), i != SPLIT_TEST);
        assert_false(identity_same(&a, &b));
        b.part[i][0] = '\0'; /* not known */
        assert_false(identity_differs(&a, &b, i));
        assert_false(identity_differs(&b, &a, i));
    }
}

/* A config's loader, of data that were just made. */
static void open_loader(Loader *f, Config *c, int train) {
    Err err;
    small_data(train, 3, 3, false);
    small_config(c, "\"batch\":2,\"steps\":4", false);
    if (!loader_open(f, c, &err)) fail_msg("%s", err.text);
}

static void close_loader(Loader *f, Config *c) {
    loader_close(f);
    config_free(c);
}

static void test_here(void **state) {
    Config c;
    Loader f;
    Identity id;
    StMeta meta[IDENTITY_PARTS];
    (void)state;
    open_loader(&f, &c, 8);
    identity_here(&id, &f);
    assert_string_equal(id.part[SPLIT_VAL], st_meta(&f.split[SPLIT_VAL].file, "hash"));
    assert_string_equal(id.part[IDENTITY_KERNELS], gemm_kernels());
    assert_int_equal(identity_meta(&id, meta), IDENTITY_PARTS);
    assert_string_equal(meta[IDENTITY_BUILD].key, "build");
    /* What is held out of train has no file of its own. */
    int view[1] = {0};
    f.view[SPLIT_VAL] = f.view[SPLIT_TRAIN] = view;
    identity_here(&id, &f);
    assert_string_equal(id.part[SPLIT_TRAIN], st_meta(&f.split[SPLIT_TRAIN].file, "hash"));
    assert_string_equal(id.part[SPLIT_VAL], "");
    assert_int_equal(identity_meta(&id, meta), IDENTITY_PARTS - 1);
    f.view[SPLIT_VAL] = f.view[SPLIT_TRAIN] = NULL;
    close_loader(&f, &c);
}

static void test_goes_on(void **state) {
    Config c;
    Loader f;
    Identity was, now;
    Err err;
    (void)state;
    open_loader(&f, &c, 8);
    identity_here(&was, &f);
    close_loader(&f, &c);
    open_loader(&f, &c, 9);
    identity_here(&now, &f);
    assert_false(identity_goes_on(&was, &now, &f, "last", false, &err));
    assert_int_equal(err.code, EX_CONFIG);
    const char *const named[] = {"train.safetensors", was.part[SPLIT_TRAIN], now.part[SPLIT_TRAIN]};
    for (int i = 0; i < 3; i++) assert_non_null(strstr(err.text, named[i]));
    assert_true(identity_goes_on(&was, &now, &f, "last", true, &err));
    assert_true(identity_goes_on(&now, &now, &f, "last", false, &err));
    was = now;
    was.part[IDENTITY_PROCESSOR][0] ^= 1; /* which is told */
    assert_true(identity_goes_on(&was, &now, &f, "last", false, &err));
    assert_true(identity_goes_on(&(Identity){0}, &now, &f, "last", false, &err));
    close_loader(&f, &c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_here),
        cmocka_unit_test(test_goes_on),
    };
    lanes_open(1);
    gemm_open();
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
