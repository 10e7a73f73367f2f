#include "train/rundir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/lanes.h"
#include "io/json.h"
#include "scratch.h"
#include "text.h"

/* A process of that command, and what env.json then holds. */
static cJSON *describe(const char *command) {
    RunDir r;
    Err err;
    cJSON *config = cJSON_CreateObject();
    if (!rundir_name(&r, scratch_mkdir("run"), &err) ||
        !rundir_describe(&r, config, command, false, NULL, &err))
        fail_msg("%s", err.text);
    cJSON_Delete(config);
    cJSON *env = json_read(r.env, &err);
    if (!env) fail_msg("%s", err.text);
    return env;
}

static int earlier(const cJSON *env) { return cJSON_GetArraySize(json_at(env, "earlier")); }

static void expect(const cJSON *env, int i, const char *command) {
    const cJSON *process = cJSON_GetArrayItem(json_at(env, "earlier"), i);
    assert_string_equal(json_string(process, "command"), command);
    assert_non_null(json_string(process, "blas"));
    assert_null(json_at(process, "earlier"));
}

static void test_processes(void **state) {
    (void)state;
    cJSON *env = describe("first");
    assert_string_equal(json_string(env, "command"), "first");
    assert_null(json_at(env, "earlier"));
    cJSON_Delete(env);
    cJSON_Delete(describe("second"));
    env = describe("third");
    assert_string_equal(json_string(env, "command"), "third");
    assert_int_equal(earlier(env), 2);
    expect(env, 0, "first");
    expect(env, 1, "second");
    cJSON_Delete(env);
    /* What cannot be read is begun anew. */
    scratch_write("run/env.json", "{\"command\":", 11);
    env = describe("fourth");
    assert_null(json_at(env, "earlier"));
    cJSON_Delete(env);
}

/* A start that was killed while the room it took had a name. */
static void test_room_left(void **state) {
    RunDir r;
    Err err;
    (void)state;
    assert_true(rundir_name(&r, scratch_mkdir("left"), &err));
    scratch_write("left/room.tmp.1", "left", 4);
    assert_true(rundir_open(&r, &err));
    assert_false(file_exists(scratch("left/room.tmp.1")));
    assert_true(rundir_take_room(&r, 1000, 0, false, 0, &err));
    assert_int_equal(r.rooms, 3);
    assert_int_equal(text_count(scratch("left")), 1); /* the lock */
    rundir_close(&r);
}

/* A file of JSON may only be so long. */
static void test_many(void **state) {
    enum { MOST = 500 };
    (void)state;
    scratch_remove(scratch("run"));
    cJSON_Delete(describe("first"));
    cJSON *env = describe("second"), *list = json_at(env, "earlier");
    assert_int_equal(cJSON_GetArraySize(list), 1);
    while (cJSON_GetArraySize(list) < MOST)
        cJSON_AddItemToArray(list, cJSON_Duplicate(cJSON_GetArrayItem(list, 0), true));
    char *text = cJSON_PrintUnformatted(env);
    scratch_write("run/env.json", text, strlen(text));
    cJSON_free(text);
    cJSON_Delete(env);
    env = describe("third");
    assert_int_equal(earlier(env), MOST);
    expect(env, 0, "first");
    expect(env, MOST - 1, "second");
    cJSON_Delete(env);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_room_left),
    };
    lanes_open(1);
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
