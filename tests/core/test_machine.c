#define _GNU_SOURCE /* sched_setaffinity */
#include "core/machine.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scratch.h"

static const char *write_text(const char *name, const char *text) {
    return scratch_write(name, text, strlen(text));
}

typedef struct Groups {
    char mount[1024], list[1024];
} Groups;

static Groups groups_at(const char *mount, const char *groups) {
    Groups g;
    snprintf(g.mount, sizeof g.mount, "%s", scratch(mount));
    snprintf(g.list, sizeof g.list, "%s", write_text("groups", groups));
    return g;
}

static int quota(const char *groups) {
    const Groups g = groups_at("mount", groups);
    return machine_quota(g.mount, g.list);
}

/* A job's step, without a namespace of its own, is told of by its parents too. */
static void quotas(void **state) {
    (void)state;
    scratch_mkdir("mount");
    scratch_mkdir("mount/job");
    scratch_mkdir("mount/job/step");
    assert_int_equal(quota("0::/job/step\n"), 0);
    write_text("mount/job/cpu.max", "350000 100000\n");
    assert_int_equal(quota("3:cpuset:/\n0::/job/step\n"), 3);
    write_text("mount/job/step/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/job/step\n"), 3);
    write_text("mount/job/step/cpu.max", "20000 100000\n");
    assert_int_equal(quota("0::/job/step\n"), 1);
    assert_int_equal(quota("0::/job\n"), 3);
    assert_int_equal(quota("0::/\n"), 0);
    write_text("mount/cpu.max", "200000 100000\n"); /* a container's own */
    assert_int_equal(quota("0::/\n"), 2);
    assert_int_equal(quota("0::/job\n"), 2);
    assert_int_equal(quota("0::/gone\n"), 2);
    assert_int_equal(quota(""), 2);
    assert_int_equal(machine_quota(scratch("none"), scratch("none")), 0);
}

/* Version 1: a hierarchy a controller. */
static void quotas_of_version_1(void **state) {
    static const char list[] = "4:memory:/else\n3:cpu,cpuacct:/job/step\n0::/\n";
    (void)state;
    scratch_mkdir("mount1");
    scratch_mkdir("mount1/cpu");
    scratch_mkdir("mount1/cpu/job");
    scratch_mkdir("mount1/cpu/job/step");
    const Groups g = groups_at("mount1", list);
    write_text("mount1/cpu/cpu.cfs_period_us", "100000\n");
    write_text("mount1/cpu/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(machine_quota(g.mount, g.list), 0);
    write_text("mount1/cpu/job/cpu.cfs_period_us", "50000\n");
    write_text("mount1/cpu/job/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(machine_quota(g.mount, g.list), 5);
    write_text("mount1/cpu.max", "300000 100000\n"); /* of both the less */
    assert_int_equal(machine_quota(g.mount, g.list), 3);
    write_text("mount1/cpu/job/step/cpu.cfs_period_us", "50000\n");
    write_text("mount1/cpu/job/step/cpu.cfs_quota_us", "100000\n");
    assert_int_equal(machine_quota(g.mount, g.list), 2);
    write_text("mount1/cpu/cpu.max", "100000 100000\n"); /* of another group, called cpu */
    write_text("groups", "0::/\n");
    assert_int_equal(machine_quota(g.mount, g.list), 3);
}

static double memory(const char *groups) {
    const Groups g = groups_at("memory", groups);
    return machine_memory(g.mount, g.list);
}

static void limits_of_memory(void **state) {
    (void)state;
    scratch_mkdir("memory");
    scratch_mkdir("memory/job");
    scratch_mkdir("memory/job/step");
    assert_true(memory("0::/job/step\n") == 0);
    write_text("memory/job/memory.max", "4000000000\n");
    assert_true(memory("0::/job/step\n") == 4e9);
    write_text("memory/job/memory.current", "3000000000\n");
    write_text("memory/job/memory.stat",
               "anon 500000000\nfile 2400000000\nkernel 1\nshmem 400000000\n");
    assert_true(memory("0::/job/step\n") == 3e9);
    write_text("memory/job/step/memory.max", "max\n");
    assert_true(memory("0::/job/step\n") == 3e9);
    write_text("memory/job/step/memory.max", "2000000000\n");
    write_text("memory/job/step/memory.current", "2100000000\n");
    assert_true(memory("0::/job/step\n") == 1); /* none, but a limit */
    assert_true(memory("0::/job\n") == 3e9);
    assert_true(memory("0::/\n") == 0);
}

static void limits_of_version_1(void **state) {
    static const char list[] = "5:cpu,cpuacct:/\n4:memory:/job\n0::/\n";
    (void)state;
    scratch_mkdir("memory1");
    scratch_mkdir("memory1/memory");
    scratch_mkdir("memory1/memory/job");
    const Groups g = groups_at("memory1", list);
    write_text("memory1/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(machine_memory(g.mount, g.list) == 0);
    write_text("memory1/memory/job/memory.limit_in_bytes", "4000000000\n");
    write_text("memory1/memory/job/memory.usage_in_bytes", "3500000000\n");
    write_text("memory1/memory/job/memory.stat",
               "cache 7\nshmem 7\ntotal_cache 2000000000\ntotal_shmem 500000000\n");
    assert_true(machine_memory(g.mount, g.list) == 2e9);
}

/* Those that the process may run on, whatever there are. */
static void those_of_the_mask(void **state) {
    (void)state;
    cpu_set_t all, one;
    size_t cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_in_range(machine_processors(), 1, CPU_COUNT(&all));
    assert_in_range(machine_cores(), 1, CPU_COUNT(&all));
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int processors = machine_processors(), cores = machine_cores();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(processors, 1);
    assert_int_equal(cores, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas), cmocka_unit_test(quotas_of_version_1),
        cmocka_unit_test(limits_of_memory), cmocka_unit_test(limits_of_version_1),
        cmocka_unit_test(those_of_the_mask)};
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
