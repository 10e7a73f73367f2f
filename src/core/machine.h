/* How many processor cores and how much memory this process may use. */
#ifndef CORE_MACHINE_H
#define CORE_MACHINE_H

/* Hardware threads of the affinity mask, or, where there are more than it has room for, those that
 * are online; no more than a control group's quota. */
int machine_processors(void);
/* Physical cores of the affinity mask: a second hardware thread of a core brings nothing to a
 * FMA-bound loop. Where there is no mask, the hardware threads that are online. */
int machine_cores(void);

/* Whole cores of the least quota of a control group and those that it is part of, of either version
 * (cpu.max, cpu.cfs_quota_us), at least 1; 0: there is none. `groups` names the group, and lies
 * where `mount` has the files of all. */
#define MACHINE_GROUPS "/sys/fs/cgroup", "/proc/self/cgroup"
int machine_quota(const char *mount, const char *groups);
/* The least that any such group has left below its own limit (memory.max, memory.limit_in_bytes),
 * in bytes, where what files have in memory counts as free, since it goes when room is needed; 0:
 * none has a limit. */
double machine_memory(const char *mount, const char *groups);

#endif
