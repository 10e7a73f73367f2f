#!/bin/bash
# two_hosts.sh [--rate RATE] [--cut SECONDS] COMMAND...: runs COMMAND, of a build with MPI=1, as two ranks, each on a
# host of its own. Network namespaces of this machine stand for the hosts; a link of RATE (as of tc: 1gbit) joins them,
# and is cut after so many seconds.
#
#   two_hosts.sh ./cast_bench configs/image.json --data --scaling --threads 1
#   CAST_SILENCE=10 two_hosts.sh --cut 20 ./cast_train configs/image.json --threads 1
#
# Needs root, Open MPI, and ip, tc, unshare, hostname and pkill (Debian: iproute2 hostname procps). Its exit status is
# mpirun's; 69 where no such hosts can be made.
set -u
rate=1gbit cut=''
while [ $# -gt 0 ]; do
    case $1 in
    --rate) rate=${2:?} && shift 2 ;;
    --cut) cut=${2:?} && shift 2 ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' && exit ;;
    *) break ;;
    esac
done
cannot() { echo "two_hosts.sh: $*" >&2; exit 69; }
[ $# -gt 0 ] || { echo "two_hosts.sh: no command; --help says more" >&2; exit 64; }
[ "$(id -u)" = 0 ] || cannot "only root makes network namespaces"
for need in ip tc unshare hostname pkill mpirun; do
    command -v $need >/dev/null || cannot "$need is missing"
done
mpirun --version 2>&1 | grep -q 'Open MPI' || cannot "mpirun is not Open MPI's"

a=cast-a-$$ b=cast-b-$$ near=ca$$ far=cb$$ # interfaces' names have 15 bytes at most
agent=$(TMPDIR=/tmp mktemp) || exit 73     # whose name mpirun cuts at blanks
job='' cutter=''
# shellcheck disable=SC2317 # called by the trap
gone() {
    [ -z "$cutter" ] || pkill -P "$cutter" # its sleep
    ip netns pids "$b" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
    rm -f "$agent"
}
trap gone EXIT

host() { # host NAMESPACE INTERFACE ADDRESS
    ip -n "$1" link set lo up && ip -n "$1" addr add "$3/24" dev "$2" && ip -n "$1" link set "$2" up &&
        tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 128kb latency 100ms
}
{
    ip netns add $a && ip netns add $b && ip link add $near netns $a type veth peer name $far netns $b &&
        host $a $near 10.177.0.1 && host $b $far 10.177.0.2
} || cannot "no network namespaces with such a link here"

# Under a name of its own, by which ranks tell hosts apart.
# shellcheck disable=SC2016
inside() { # inside NAMESPACE COMMAND...
    exec ip netns exec "$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
}
# mpirun starts its daemon on the other host as by ssh: AGENT HOST WORD...
{
    declare -f inside
    echo "shift; inside $b sh -c \"\$*\""
} >"$agent"
inside $a mpirun --allow-run-as-root -n 2 --host 10.177.0.1:1,10.177.0.2:1 --bind-to none \
    --mca plm_rsh_agent "bash $agent" --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.177.0.0/24 \
    --mca oob_tcp_if_include 10.177.0.0/24 "$@" &
job=$!
trap 'kill -TERM $job 2>/dev/null' INT TERM HUP
if [ -n "$cut" ]; then
    (sleep "$cut" && exec ip -n $a link set $near down) 2>/dev/null &
    cutter=$!
fi
while wait $job && status=0 || status=$?; kill -0 $job 2>/dev/null; do :; done
exit "$status"
