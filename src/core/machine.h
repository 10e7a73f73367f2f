/* How many processor cores and how much memory this process may use. */
#ifndef CORE_MACHINE_H
#define CORE_MACHINE_H

/* Hardware threads of the affinity mask; where there is none, or more than it has room for, those
 * that are online. */
int machine_processors(void);
/* Physical cores of the affinity mask: a second hardware thread of a core brings nothing to a
 * FMA-bound loop. Where there is no mask, the hardware threads that are online. */
int machine_cores(void);

/* Whole cores of the least quota (cpu.max) of a control group and those that it is part of, at
 * least 1; 0: there is none. `groups` is /proc/self/cgroup, which names the group, and `mount`
 * /sys/fs/cgroup, where it lies. */
int machine_quota(const char *mount, const char *groups);
/* Bytes that such groups have left below the least memory.max, where what files have in memory
 * counts as free, since it goes when room is needed; 0: there is no limit. */
double machine_memory(const char *mount, const char *groups);

#endif
