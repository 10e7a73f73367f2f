/* How many processor cores this process may use. */
#ifndef CORE_MACHINE_H
#define CORE_MACHINE_H

/* Physical cores of the affinity mask: a second hardware thread of a core brings nothing to a
 * FMA-bound loop. Where there is no mask, the hardware threads that are online. */
int machine_cores(void);

/* Whole cores of the least quota (cpu.max) of a control group and those that it is part of, at
 * least 1; 0: there is none. `groups` is /proc/self/cgroup, which names the group, and `mount`
 * /sys/fs/cgroup, where it lies. */
int machine_quota(const char *mount, const char *groups);

#endif
