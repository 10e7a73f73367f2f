#!/bin/bash
# two_hosts.sh [--rate RATE] [--cut SECONDS] COMMAND...: COMMAND as two ranks of a build with MPI=1, each on a host of its
# own, which network namespaces of this machine stand for. A link joins them, of RATE (as of tc: 1gbit), and is cut after
# so many seconds.
#
#   two_hosts.sh ./cast_bench configs/image.json --data --scaling --threads 1
#   CAST_SILENCE=10 two_hosts.sh --cut 20 ./cast_train configs/image.json --threads 1
#
# Needs root, ip and tc (Debian: iproute2), unshare, and Open MPI.
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
[ $# -gt 0 ] || { echo "two_hosts.sh: no command; --help says more" >&2; exit 64; }
[ "$(id -u)" = 0 ] || { echo "two_hosts.sh: only root makes network namespaces" >&2; exit 69; }
for need in ip tc unshare mpirun; do
    command -v $need >/dev/null || { echo "two_hosts.sh: $need is missing" >&2; exit 69; }
done

a=cast-a-$$ b=cast-b-$$ near=ca$$ far=cb$$ # interfaces' names have 15 bytes at most
agent=$(mktemp) || exit 73
cutter=''
gone() {
    [ -z "$cutter" ] || pkill -P "$cutter" # its sleep
    ip netns pids $b 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del $a 2>/dev/null
    ip netns del $b 2>/dev/null
    rm -f "$agent"
}
trap gone EXIT
trap 'exit 130' INT TERM

host() { # host NAMESPACE INTERFACE ADDRESS
    ip -n "$1" link set lo up && ip -n "$1" addr add "$3/24" dev "$2" && ip -n "$1" link set "$2" up &&
        tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 128kb latency 100ms
}
{
    ip netns add $a && ip netns add $b && ip link add $near netns $a type veth peer name $far netns $b &&
        host $a $near 10.177.0.1 && host $b $far 10.177.0.2
} || { echo "two_hosts.sh: no network namespaces here" >&2; exit 69; }

# Under a name of its own, by which ranks tell hosts apart.
# shellcheck disable=SC2016
inside() { # inside NAMESPACE COMMAND...
    ip netns exec "$1" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
}
# mpirun starts its daemon on the other host as by ssh: AGENT HOST WORD...
{
    declare -f inside
    echo "shift; inside $b sh -c \"\$*\""
} >"$agent"
if [ -n "$cut" ]; then
    (sleep "$cut" && exec ip -n $a link set $near down) 2>/dev/null &
    cutter=$!
fi
inside $a mpirun --allow-run-as-root -n 2 --host 10.177.0.1:1,10.177.0.2:1 --bind-to none \
    --mca plm_rsh_agent "bash $agent" --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.177.0.0/24 \
    --mca oob_tcp_if_include 10.177.0.0/24 "$@"
