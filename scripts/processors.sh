#!/bin/bash
# processors.sh: how many processors there are to run on: those that nproc counts, and no more than a container's quota
# of time allows, which it does not heed.
unset OMP_NUM_THREADS OMP_THREAD_LIMIT # which it would
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
