#!/bin/bash
# processors.sh: how many processors there are to run on: as many as nproc counts, but no more than a container's quota
# of time allows, which nproc ignores.
unset OMP_NUM_THREADS OMP_THREAD_LIMIT # which nproc heeds
set -u
read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max || {
    read -r quota </sys/fs/cgroup/cpu/cpu.cfs_quota_us
    read -r period </sys/fs/cgroup/cpu/cpu.cfs_period_us
} 2>/dev/null
all=$(nproc)
if [[ ${quota:-max} =~ ^[0-9]+$ && ${period:-0} -gt 0 ]]; then
    most=$(((quota + period - 1) / period))
    [ "$most" -ge "$all" ] || all=$most
fi
echo "$all"
