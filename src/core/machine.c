#define _GNU_SOURCE
#include "core/machine.h"

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

#define TOPOLOGY "/sys/devices/system/cpu/cpu%d/topology/"

int machine_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) /* more than the set has room for */
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    int seen[CPU_SETSIZE], n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        char path[128];
        snprintf(path, sizeof path, TOPOLOGY "core_id", cpu);
        int core = read_int(path);
        snprintf(path, sizeof path, TOPOLOGY "physical_package_id", cpu);
        int id = core < 0 ? -1 - cpu : core + 65536 * read_int(path), known = 0;
        for (int i = 0; i < n; i++) known |= seen[i] == id;
        if (!known) seen[n++] = id;
    }
    return n > 0 ? n : 1;
}

/* ---- control groups ---- */

enum { PATH = 4096 };

/* Of a group's directory; "max" is no number. */
static int quota_of(const char *dir) {
    char path[PATH + 16];
    double quota, period;
    int cores = 0;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0)
        cores = quota < period ? 1 : (int)(quota / period);
    fclose(f);
    return cores;
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

int machine_quota(const char *mount, const char *groups) {
    char group[PATH], dir[PATH];
    int least = 0;
    read_group(group, groups);
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", mount, group);
        const int cores = quota_of(dir);
        if (cores && (!least || cores < least)) least = cores;
        char *last = strrchr(group, '/');
        if (!last) return least;
        *last = '\0';
    }
}
