#define _GNU_SOURCE
#include "core/machine.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_int(const char *path) {
    int v = -1;
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    if (fscanf(f, "%d", &v) != 1) v = -1;
    fclose(f);
    return v;
}

int machine_processors(void) {
    cpu_set_t set;
    const int quota = machine_quota(MACHINE_GROUPS);
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                              : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return quota && quota < n ? quota : n > 0 ? n : 1;
}

#define TOPOLOGY "/sys/devices/system/cpu/cpu%d/topology/"

int machine_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) /* more than the set has room for */
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    int seen[CPU_SETSIZE], n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        char path[128];
        /* A core is known by the first of its threads: core_id begins anew in each cluster of some
         * ARM systems. */
        snprintf(path, sizeof path, TOPOLOGY "thread_siblings_list", cpu);
        const int first = read_int(path), id = first < 0 ? cpu : first;
        int known = 0;
        for (int i = 0; i < n; i++) known |= seen[i] == id;
        if (!known) seen[n++] = id;
    }
    return n > 0 ? n : 1;
}

/* ---- control groups ---- */

/* In the unified hierarchy (version 2) files lie in MOUNT/PATH, in one of version 1 in
 * MOUNT/CONTROLLER/PATH, under other names. */
enum { PATH = 4096 };

static FILE *open_of(const char *dir, const char *name) {
    char path[PATH + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, "r");
}

/* NAN where there is none, and for "max". */
static double number_of(const char *dir, const char *name) {
    double number = NAN;
    FILE *f = open_of(dir, name);
    if (f && fscanf(f, "%lf", &number) != 1) number = NAN;
    if (f) fclose(f);
    return number;
}

/* Of a group's directory, like those below; 0: it sets no limit. */
static double quota_of(const char *dir) {
    double quota = number_of(dir, "cpu.cfs_quota_us"), period = number_of(dir, "cpu.cfs_period_us");
    FILE *f = open_of(dir, "cpu.max");
    if (f && fscanf(f, "%lf %lf", &quota, &period) != 2) quota = NAN;
    if (f) fclose(f);
    if (!(quota > 0 && period > 0)) return 0;
    return quota < period ? 1 : floor(quota / period);
}

/* Files in memory, but for those that are nowhere else; with those of groups inside. */
static double cached_of(const char *dir, const char *files, const char *unbacked) {
    char key[64];
    double value, cached = 0;
    FILE *f = open_of(dir, "memory.stat");
    if (!f) return 0;
    while (fscanf(f, "%63s %lf", key, &value) == 2) {
        if (!strcmp(key, files)) cached += value;
        if (!strcmp(key, unbacked)) cached -= value;
    }
    fclose(f);
    return cached;
}

static double left_of(double most, double used, double cached) {
    const double none = 0x1p60; /* version 1 writes the largest number of pages */
    if (!(most > 0 && most < none)) return 0;
    return fmax(1, fmin(most - (isnan(used) ? 0 : used) + cached, most));
}

static double memory_of(const char *dir) {
    const double unified = left_of(number_of(dir, "memory.max"), number_of(dir, "memory.current"),
                                   cached_of(dir, "file", "shmem"));
    if (unified > 0) return unified;
    return left_of(number_of(dir, "memory.limit_in_bytes"), number_of(dir, "memory.usage_in_bytes"),
                   cached_of(dir, "total_cache", "total_shmem"));
}

/* Whether "cpu,cpuacct" has the word; the unified hierarchy's list, "", has "". */
static bool lists(const char *list, const char *end, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = list; at <= end; at += strcspn(at, ",:") + 1)
        if (strcspn(at, ",:") == n && !memcmp(at, word, n)) return true;
    return false;
}

/* The path in the line "4:cpu,cpuacct:/PATH", or "0::/PATH" of controller "". */
static bool read_group(char group[PATH], const char *groups, const char *controller) {
    char line[PATH];
    FILE *f = fopen(groups, "r");
    bool found = false;
    *group = '\0';
    if (!f) return false;
    while (fgets(line, sizeof line, f)) {
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || path[1] != '/' || !lists(list + 1, path, controller)) continue;
        snprintf(group, PATH, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
        found = true;
    }
    fclose(f);
    return found;
}

static double least(double a, double b) { return !(a > 0) || (b > 0 && b < a) ? b : a; }

/* The least of what the group and those around it say; 0: none does. */
static double least_above(const char *mount, char group[PATH], double (*of)(const char *dir)) {
    char dir[2 * PATH];
    double all = 0;
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", mount, group);
        all = least(all, of(dir));
        char *last = strrchr(group, '/');
        if (!last) return all;
        *last = '\0';
    }
}

static double least_of(const char *mount, const char *groups, const char *controller,
                       double (*of)(const char *dir)) {
    char group[PATH], own[PATH];
    read_group(group, groups, "");
    const double unified = least_above(mount, group, of);
    snprintf(own, sizeof own, "%s/%s", mount, controller);
    /* Else it is a group of that name. */
    const bool is_hierarchy = read_group(group, groups, controller);
    return is_hierarchy ? least(unified, least_above(own, group, of)) : unified;
}

int machine_quota(const char *mount, const char *groups) {
    return (int)least_of(mount, groups, "cpu", quota_of);
}

double machine_memory(const char *mount, const char *groups) {
    return least_of(mount, groups, "memory", memory_of);
}
