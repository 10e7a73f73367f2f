#define _GNU_SOURCE
#include "core/machine.h"

#include <math.h>
#include <sched.h>
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
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                              : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

#define TOPOLOGY "/sys/devices/system/cpu/cpu%d/topology/"

int machine_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) /* more than the set has room for */
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    int seen[CPU_SETSIZE], n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
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

enum { PATH = 4096 };

static FILE *open_of(const char *dir, const char *name) {
    char path[PATH + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, "r");
}

/* Of a group's directory, like those below; "max" is no number. */
static double quota_of(const char *dir) {
    double quota, period, cores = 0;
    FILE *f = open_of(dir, "cpu.max");
    if (!f) return 0;
    if (fscanf(f, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0)
        cores = quota < period ? 1 : floor(quota / period);
    fclose(f);
    return cores;
}

static double number_of(const char *dir, const char *name) {
    double number = 0;
    FILE *f = open_of(dir, name);
    if (f && fscanf(f, "%lf", &number) != 1) number = 0;
    if (f) fclose(f);
    return number;
}

/* Files in memory, but for those that are nowhere else. */
static double cached_of(const char *dir) {
    char key[64];
    double value, files = 0;
    FILE *f = open_of(dir, "memory.stat");
    if (!f) return 0;
    while (fscanf(f, "%63s %lf", key, &value) == 2) {
        if (!strcmp(key, "file")) files += value;
        if (!strcmp(key, "shmem")) files -= value;
    }
    fclose(f);
    return files;
}

static double memory_of(const char *dir) {
    const double most = number_of(dir, "memory.max");
    if (!(most > 0)) return 0;
    const double left = most - number_of(dir, "memory.current") + cached_of(dir);
    return fmax(1, fmin(left, most));
}

/* The line "0::/PATH" is of the hierarchy that has cpu.max. */
static void read_group(char group[PATH], const char *groups) {
    static const char unified[] = "0::/";
    char line[PATH];
    FILE *f = fopen(groups, "r");
    *group = '\0';
    if (!f) return;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, unified, sizeof unified - 1))
            snprintf(group, PATH, "/%.*s", (int)strcspn(line + sizeof unified - 1, "\n"),
                     line + sizeof unified - 1);
    fclose(f);
}

/* The least of what the group and those around it say; 0: none does. */
static double least_of(const char *mount, const char *groups, double (*of)(const char *dir)) {
    char group[PATH], dir[PATH];
    double least = 0;
    read_group(group, groups);
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", mount, group);
        const double here = of(dir);
        if (here > 0 && (!(least > 0) || here < least)) least = here;
        char *last = strrchr(group, '/');
        if (!last) return least;
        *last = '\0';
    }
}

int machine_quota(const char *mount, const char *groups) {
    return (int)least_of(mount, groups, quota_of);
}

double machine_memory(const char *mount, const char *groups) {
    return least_of(mount, groups, memory_of);
}
