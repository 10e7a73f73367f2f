#!/bin/bash
# cast_train under mpirun: the same bits at any number of ranks, and a job that loses one ends with a message. Without
# MPI nothing of it is tested.
set -u
. tests/training.sh
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
    echo "ok # SKIP MPI is not installed (Debian: mpi-default-dev)"
    exit 0
fi
mode=${CAST_MODE:-release}
case $mode in release | debug | double) ;; *) echo "ok # SKIP MPI is not built with sanitizers"; exit 0 ;; esac
out=$PWD/build/mpi-$mode
flock build/mpi.lock make --no-print-directory MODE="$mode" MPI=1 OUT="build/mpi-$mode" "build/mpi-$mode/cast_train" \
    "build/mpi-$mode/cast_bench" >"$tmp/log" 2>&1
result $? "make MPI=1 builds" "$tmp/log"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none

tiny_configs 8 5

ranks() { # ranks N THREADS OUT ARGUMENT...
    local n=$1 threads=$2 dir=$3
    shift 3
    timeout 120 mpirun -n "$n" "$out/cast_train" "$@" --out "$dir" --threads "$threads" >"$tmp/log" 2>&1
}

# BITS=all: ranks and threads up to 64 of them together, and 20 updates.
pairs=("2 1" "3 2")
more=("1 2" "4 1" "7 2")
many=("1 3" "1 5" "1 8" "1 64" "2 32" "3 1" "3 21" "4 16" "7 1" "7 9")
same() { # same NAME CONFIG key=value...
    local name=$1 want run=$tmp/run pair
    shift
    [ -z "${BITS-}" ] || set -- "$@" train.steps=20
    rm -rf "$run"*
    "$out/cast_train" "$@" --out "$run" --threads 1 >"$tmp/log" 2>&1 || { result 1 "$name: trains" "$tmp/log"; return; }
    want=$(hash_of "$run")
    for pair in "${pairs[@]}" ${MOST:+"${more[@]}"} ${BITS:+"${many[@]}"}; do
        ranks "${pair% *}" "${pair#* }" "$run-$pair" "$@"
        [ "$(hash_of "$run-$pair")" = "$want" ] && diff <(metrics_of "$run") <(metrics_of "$run-$pair") >>"$tmp/log"
        result $? "$name: ${pair% *} ranks of ${pair#* } threads, metrics too" "$tmp/log"
    done
}
MOST=1 same "ragged lengths" "$tmp/single.json"
MOST=${BITS-}
same "batch norm and dropout" "$tmp/single.json" model.norm=batch model.dropout=0.2 train.nan=skip
same "pairs, accumulation, averages" "$tmp/pairs.json" train.accumulate=2 train.ema=0.9 model.dropout=0.1
same "a batch of one, masked" "$tmp/single.json" train.batch=1 train.objective=masked model.norm=batch
[ -z "${BITS-}" ] || same "convolution and rotary positions" "$tmp/single.json" model.conv=3 model.positions=rope \
    model.norm=batch train.accumulate=2

want=$("$out/cast_train" "$tmp/single.json" --out "$tmp/whole" >"$tmp/log" 2>&1; hash_of "$tmp/whole")
ranks 3 1 "$tmp/stop" "$tmp/single.json" --stop-at 5 && ranks 2 2 "$tmp/stop" "$tmp/single.json"
[ "$(hash_of "$tmp/stop")" = "$want" ]
result $? "stopped with 3 ranks, gone on with 2" "$tmp/log"
# While rank 0 makes data, the other's processor is somebody else's.
mpirun -n 2 "$out/cast_train" configs/pathfinder.json data.dir="$tmp/slow" --threads 1 --out "$tmp/slow-run" >"$tmp/log" 2>&1 &
job=$!
waits=''
for ((i = 0; i < 600; i++)); do
    for pid in $(pgrep -f -- "--out $tmp/slow-run"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxE '(OMPI_COMM_WORLD|PMI)_RANK=1' && waits=$pid
    done
    [ -z "$waits" ] || break
    sleep 0.1
done
sleep 3 # its own start
ticks() { awk '{ print $14 + $15 }' "/proc/${waits:-none}/stat" 2>>"$tmp/log"; }
before=$(ticks)
sleep 2
after=$(ticks)
kill -TERM $job
wait $job
took=$((${after:-0} - ${before:-0}))
check "a rank that waits naps: $took ticks of 2 s" test -n "$before" -a -n "$after" -a $took -lt $(($(getconf CLK_TCK) / 2))

expect 0 "2 of 7 ranks have nothing to do" "ranks beyond the lanes are told" \
    mpirun -n 7 "$out/cast_train" "$tmp/single.json" --stop-at 1 --no-test --out "$tmp/idle" --threads 1
[ "$(grep -c "nothing to do" "$tmp/out")" -eq 1 ] && [ "$(grep -c "^run " "$tmp/out")" -eq 1 ]
result $? "rank 0 alone speaks" "$tmp/out"
grep -q '"ranks": *7' "$tmp/idle/env.json"
result $? "env.json tells ranks" "$tmp/idle/env.json"

# The warning says how many of the machine's processors are there for them.
machine=$(getconf _NPROCESSORS_ONLN)
expect 0 "^warning: 2 ranks of $machine thread.*take turns" "more threads than processors are told" \
    timeout 60 mpirun -n 2 "$out/cast_bench" "$tmp/single.json" --seconds 0.1 --threads "$machine" --json
all=$(sed -nE 's/^warning: .* on ([0-9]+) processors: .*/\1/p' "$tmp/out")
check "as many as there are" test "$all" -ge "$(scripts/processors.sh)" -a "$all" -le "$machine" # whatever this one may use
check "once" test "$(grep -c 'ranks of .*take turns' "$tmp/out")" = 1
check "and what gives each its own" grep -q -- " --threads $((all > 1 ? all / 2 : 1)) gives each" "$tmp/out"
check "and raise no peak" grep -q '"peak_ranks":1,' "$tmp/out"
timeout 120 mpirun -n 2 "$out/cast_bench" "$tmp/pairs.json" --scaling --seconds 0.1 --threads 1 --json >"$tmp/out" 2>"$tmp/log"
[ "$(grep -c '"faster"' "$tmp/out")" -eq 2 ] && grep -q '"ranks":1,.*"moved_bytes":0,' "$tmp/out" &&
    grep -q '"ranks":2,.*"moved_bytes":[1-9].*"exchange_bytes":[1-9]' "$tmp/out"
result $? "cast_bench --scaling: one rank and two" "$tmp/out"
moves() { # moves NAME: a row's figure of two ranks
    sed -nE "/\"ranks\":2,/s/.*\"$1\":([0-9.e+]+).*/\1/p" "$tmp/out"
}
real=4
[ "$mode" != double ] || real=8
awk -v real=$real -v bytes="$(moves exchange_bytes)" -v down="$(moves parameters)" -v up="$(moves summed)" \
    'BEGIN { exit !(up > 0 && bytes >= real * (down + up)) }'
result $? "the exchange has all sums and weights" "$tmp/out"
check "two ranks of a thread have two peaks" grep -q "\"ranks\":2,.*\"peak_ranks\":$((all > 1 ? 2 : 1))," "$tmp/out"
once=$(moves exchange_bytes)
timeout 120 mpirun -n 2 "$out/cast_bench" "$tmp/pairs.json" train.accumulate=8 --seconds 0.1 --threads 1 --json >"$tmp/out" 2>"$tmp/log"
awk -v real=$real -v once="$once" -v bytes="$(moves exchange_bytes)" -v down="$(moves parameters)" \
    'BEGIN { saved = (once - bytes) / (real * down); exit !(saved > 0.85 && saved < 0.9) }'
result $? "for eight batches of an update weights go once" "$tmp/out"
timeout 120 mpirun -n 2 "$out/cast_bench" "$tmp/single.json" --scaling --seconds 0.1 --threads 2 --json >"$tmp/out" 2>"$tmp/log"
grep -q '"base_threads":2,"faster":1,"efficiency":1,"lost_waiting":0,' "$tmp/out"
result $? "of several threads the first loses nothing" "$tmp/out"
timeout 120 mpirun -n 2 "$out/cast_bench" "$tmp/single.json" train.batch=1 --scaling --seconds 0.1 --threads 1 --json >"$tmp/out" 2>"$tmp/log"
awk -v apart="$(moves apart_seconds)" -v busy="$(moves busy_seconds)" -v lost="$(moves lost_waiting)" \
    'BEGIN { exit !(apart > 0.4 * busy && apart < 0.6 * busy && lost > 0 && lost <= 0.5) }'
result $? "one of two ranks waits for the other, which has the only sample" "$tmp/out"
expect 66 '^warning: mpirun has started 2 processes of cast_eval, each of which does all' "programs of one process tell so" \
    timeout 60 mpirun -n 2 "$bin/cast_eval" "$tmp/none"
check "one of them" test "$(grep -c 'mpirun has started' "$tmp/out")" = 1
expect 71 '^cast_train: .*stack' "a stack that is too small on one rank" \
    mpirun -n 1 "$out/cast_train" "$tmp/single.json" --out "$tmp/stack" : \
    -n 1 bash -c 'ulimit -s 512; exec "$@"' bash "$out/cast_train" "$tmp/single.json" --out "$tmp/stack"
expect 0 '^ +full +280 ' "rows of cast_bench under mpirun are no ranks" \
    timeout 60 mpirun -n 2 "$out/cast_bench" "$tmp/single.json" --mechanisms cast,full --seconds 0.1 --threads 1

# ---- what goes wrong ----

for left in "$bin" "$out"; do
    expect 69 '^cast_train: .*PMI_RANK.* rank 1 of a job, and it is rank 0' "an environment of another job" \
        env PMI_RANK=1 timeout 20 "$left/cast_train" "$tmp/single.json" --out "$tmp/left"
done
expect 69 'rank 0 of a job, and it is rank 1' "one that takes itself for rank 0" \
    timeout 60 mpirun -n 2 env OMPI_COMM_WORLD_RANK=0 "$out/cast_train" "$tmp/single.json" --out "$tmp/left"
expect 0 '^ranks +2' "of which mpirun's own counts" env PMI_RANK=3 PMI_SIZE=4 timeout 60 mpirun -n 2 "$out/cast_train" \
    "$tmp/single.json" --stop-at 1 --no-test --threads 1 --out "$tmp/inner"
[ -n "${MPI:-}" ] || expect 64 "make MPI=1" "a build without MPI under mpirun" mpirun -n 2 "$bin/cast_train" "$tmp/single.json" --out "$tmp/none"
other() { # other FROM TO: a program that says something else of itself, as another version or build would
    sed "s/$1/$2/g" "$out/cast_train" >"$tmp/cast_train" && chmod +x "$tmp/cast_train"
}
mixed() { # mixed PROGRAM PROGRAM: of rank 0 and of rank 1
    timeout 60 mpirun -n 1 "$1" "$tmp/single.json" --out "$tmp/mixed" : -n 1 "$2" "$tmp/single.json" --out "$tmp/mixed"
}
version=$("$out/cast_train" --version | sed -n '1s/.* //p')
other "${version//./[.]}" "${version%.*}.x"
expect 78 "^cast_train: rank 1 on .*: its version would give other bits: '${version%.*}.x" "another version on a rank" \
    mixed "$out/cast_train" "$tmp/cast_train"
other -std=c11 -std=c99
expect 78 "^cast_train: rank 1 on .*: its build would give other bits: '.* -std=c99 " "another build on a rank" \
    mixed "$out/cast_train" "$tmp/cast_train"
expect 78 "^cast_train: rank 1 on .*, and rank 0 has '.* -std=c99 " "or on rank 0" mixed "$tmp/cast_train" "$out/cast_train"
# As built for a processor that lacks something, which -march=native does not tell; words that are unknown count as there.
other sse2 sse9
expect 78 "^cast_train: rank 1 on .*: its build, for another processor, would give other bits: 'sse9[^']*', and rank 0 has 'sse2" \
    "a build for another processor" mixed "$out/cast_train" "$tmp/cast_train"
check "rank 0 alone tells" test "$(grep -c 'would give other bits' "$tmp/out")" = 1
# An OpenBLAS that is older than the processor may have taken Nehalem by itself.
old=Nehalem
! grep -q ' Nehalem' "$tmp/whole/env.json" || old=Prescott
expect 78 "rank 1 on .*: its kernels would give other bits" "other kernels on a rank" \
    mpirun -n 1 "$out/cast_train" "$tmp/single.json" --out "$tmp/kernels" : \
    -n 1 env OPENBLAS_CORETYPE=$old "$out/cast_train" "$tmp/single.json" --out "$tmp/kernels"
expect 78 "rank 1 on .*: was started with another command: '$tmp/pairs.json" "another config on a rank" \
    mpirun -n 1 "$out/cast_train" "$tmp/single.json" --out "$tmp/other" : \
    -n 1 "$out/cast_train" "$tmp/pairs.json" --out "$tmp/other"
far=$tmp/$(printf './%.0s' {1..300})other
expect 78 "rank 1 on .*: was started with another command than rank 0: they differ behind" "or key behind 512 bytes" \
    mpirun -n 1 "$out/cast_train" "$tmp/single.json" --out "$far" : \
    -n 1 "$out/cast_train" "$tmp/single.json" --out "$far" train.seed=2
expect 0 "ranks    2" "but other threads" \
    mpirun -n 1 "$out/cast_train" "$tmp/single.json" --stop-at 1 --no-test --threads 2 --out "$tmp/other" : \
    -n 1 "$out/cast_train" "$tmp/single.json" --stop-at 1 --no-test --thr=1 --out "$tmp/other"
expect 66 "absent.json" "a config that is not there" timeout 60 mpirun -n 3 "$out/cast_train" "$tmp/absent.json"
[ "$(grep -c "absent.json" "$tmp/out")" -le 2 ]
result $? "is told by rank 0 alone" "$tmp/out"
expect 70 "not (be )?finite" "numbers that are not finite" \
    timeout 60 mpirun -n 3 "$out/cast_train" "$tmp/single.json" train.lr=1000 train.clip=0 train.warmup=0 \
    train.schedule=constant train.weight_decay=10 train.steps=120 train.eval_every=120 --out "$tmp/nan"


sweep=(timeout 60 mpirun -n 2 "$bin/cast_sweep" "$tmp/single.json" --threads 1)
expect 0 '^failed   run 2, heads=3: ' "a sweep of which a process has only a run that cannot be" \
    "${sweep[@]}" model.heads=2,3 train.steps=1000 train.eval_every=500 --out "$tmp/sweep"
check "ends no other" grep -q '"test"' "$tmp/sweep/heads=2/metrics.jsonl"
expect 64 'only is of one process, and mpirun has started 2' "a run alone, for several processes" \
    "${sweep[@]}" model.heads=2,4 --only 1 --out "$tmp/only"

# One document alone gives numbers that are not finite, and each in turn, so that each rank is the only one to meet them:
# it has a token that the others have not, with weights that overflow.
largest='\xff\xff\x7f\x7f'
[ "$mode" != double ] || largest='\xff\xff\xff\xff\xff\xff\xef\x7f'
cp -r "$tmp/single" "$tmp/odd"
make_split "$tmp/odd/train.safetensors" listops 6 40 1
header=$((8 + $(od -An -tu8 -N8 "$tmp/odd/train.safetensors")))
mapfile -t starts < <(od -An -v -td8 -w8 -j$header -N56 "$tmp/odd/train.safetensors")
edit "$tmp/odd/train.safetensors" tokens "$(repeat "${starts[6]}" '\x03')"
cp "$tmp/odd/train.safetensors" "$tmp/even.safetensors"
"$out/cast_train" "$tmp/single.json" data.dir="$tmp/odd" --stop-at 1 --no-test --out "$tmp/first" >"$tmp/log" 2>&1
edit "$tmp/first/last.safetensors" tok.weight "$(repeat 24 "$largest")" $((15 * 24 * ${#largest} / 4))
for ((i = 0; i < 6; i++)); do
    cp "$tmp/even.safetensors" "$tmp/odd/train.safetensors"
    edit "$tmp/odd/train.safetensors" tokens '\x0f' "${starts[i]}"
    expect 70 "update 1: loss -?nan, .*not finite" "document $i of six alone is not finite" \
        timeout 60 mpirun -n 3 "$out/cast_train" "$tmp/single.json" data.dir="$tmp/odd" train.init="$tmp/first/last.safetensors" \
        --threads 1 --out "$tmp/odd-$i"
done

# A run that lasts, and its ranks' processes, the first of them rank 0.
long=("$tmp/single.json" train.steps=100000 train.eval_every=50 train.save_minutes=0.01)
start() { # start DIR [VARIABLE=VALUE...]
    env "${@:2}" mpirun -n 3 "$out/cast_train" "${long[@]}" --out "$1" --threads 1 >"$tmp/log" 2>&1 &
    job=$!
    local i
    for ((i = 0; i < 600; i++)); do
        [ -e "$1/last.safetensors" ] && break
        sleep 0.1
    done
    mapfile -t pids < <(pgrep -f -- "--out $1 " | while read -r pid; do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n "s/^OMPI_COMM_WORLD_RANK=//p;s/^PMI_RANK=//p" |
            sed "s/\$/ $pid/"
    done | sort -n | cut -d' ' -f2)
}
ended() { # ended SECONDS: whether the job does, by itself; its status is in $status
    local i
    for ((i = 0; i < $1 * 10; i++)); do
        kill -0 "$job" 2>/dev/null || { wait "$job"; status=$?; return 0; }
        sleep 0.1
    done
    kill -KILL "$job"
    pkill -KILL -f -- "--out $tmp/"
    return 1
}
goes_on() { # goes_on DIR: the checkpoint is whole, and gives the bits of an undisturbed run
    local at
    "$out/cast_train" "${long[@]}" --out "$1" --stop-at 1 --dry-run >"$tmp/log" 2>&1 || return 1
    at=$(sed -nE 's/.*resuming at update ([0-9]+).*/\1/p' "$tmp/log")
    [ -n "$at" ] || return 1
    rm -rf "$tmp/plain"
    "$out/cast_train" "${long[@]}" --out "$tmp/plain" --stop-at $((at + 3)) >>"$tmp/log" 2>&1 &&
        "$out/cast_train" "${long[@]}" --out "$1" --stop-at $((at + 3)) >>"$tmp/log" 2>&1 &&
        [ "$(hash_of "$1")" = "$(hash_of "$tmp/plain")" ]
}
# KILLS=20: so many times each, at random moments.
for ((k = 0; k < ${KILLS:-1}; k++)); do
    for rank in 0 2 ${KILLS:+1}; do
        start "$tmp/kill-$rank"
        nap 100 999
        [ ${#pids[@]} -eq 3 ] && kill -KILL "${pids[rank]}" && ended 60
        result $? "rank $rank is killed: the job ends" "$tmp/log"
        goes_on "$tmp/kill-$rank"
        result $? "rank $rank is killed: the run goes on, with the same bits" "$tmp/log"
        rm -rf "$tmp/kill-$rank"
    done
done
# As a disk that is full: no file of rank 0's may grow. It goes on, in case there is room again, until it is stopped.
# Rank 0 gets the signal, and not mpirun, which would kill it a second later.
start "$tmp/full"
[ ${#pids[@]} -eq 3 ] && prlimit --pid "${pids[0]}" --fsize=1000 && sleep 2 && kill -TERM "${pids[0]}" && ended 60 &&
    grep -q "NOT saved" "$tmp/log" && grep -q "is lost" "$tmp/log"
result $? "rank 0 cannot write: it says so, and the job ends" "$tmp/log"
goes_on "$tmp/full"
result $? "rank 0 cannot write: the run goes on, with the same bits" "$tmp/log"
start "$tmp/silent" CAST_SILENCE=5
[ ${#pids[@]} -eq 3 ] && kill -STOP "${pids[1]}" && ended 30 && grep -q "rank 1 on .* has not been heard of for 5" "$tmp/log" &&
    [ "$status" -eq 69 ]
result $? "a silent rank ends the job, and is named" "$tmp/log"
goes_on "$tmp/silent"
result $? "and the run goes on at once" "$tmp/log"
pkill -KILL -f -- "--out $tmp/silent "
mpicc -shared -fPIC -o "$tmp/stop_at_end.so" tests/cmd/stop_at_end.c >"$tmp/log" 2>&1
result $? "a library that silences a rank at the end" "$tmp/log"
at_end() { # at_end FUNCTION PATTERN
    expect 69 "$2" "silent in $1: the job ends" env STOP_AT="$1" CAST_SILENCE=3 LD_PRELOAD="$tmp/stop_at_end.so" \
        timeout -k 5 60 mpirun -n 2 "$out/cast_train" "$tmp/single.json" --stop-at 1 --no-test --out "$tmp/$1" --threads 1
    pkill -KILL -f -- "--out $tmp/$1 "
}
at_end MPI_Barrier "^rank 1 on .* has not been heard of for 3"
at_end malloc "^the other ranks did not come to the end"
at_end MPI_Finalize "^the other ranks did not come to the end"
start "$tmp/stopped" CAST_SILENCE=4
[ ${#pids[@]} -eq 3 ] && kill -STOP "${pids[@]}" && sleep 6 && kill -CONT "${pids[@]}" && sleep 5 && kill -0 "$job" &&
    ! grep -q "not been heard of" "$tmp/log"
result $? "a job that was stopped for longer goes on" "$tmp/log"
kill -TERM "$job"
ended 60
start "$tmp/term"
kill -TERM "$job"
ended 60
result $? "SIGTERM to mpirun: the job ends" "$tmp/log"
goes_on "$tmp/term"
result $? "SIGTERM to mpirun: the run goes on, with the same bits" "$tmp/log"
# The hosts are network namespaces, which not every machine lets root make.
timeout -k 5 60 scripts/two_hosts.sh true >"$tmp/log" 2>&1
status=$?
if [ $status -eq 69 ]; then
    echo "ok - a cut link # SKIP $(tail -n 1 "$tmp/log")"
    exit 0
fi
result $status "two hosts of network namespaces" "$tmp/log"
CAST_SILENCE=4 timeout -k 5 60 scripts/two_hosts.sh --cut 15 "$out/cast_train" "${long[@]}" --out "$tmp/cut" --threads 1 >"$tmp/log" 2>&1
[ $? -ne 124 ] && grep -q "rank 1 on .* has not been heard of for 4" "$tmp/log"
result $? "a cut link ends the job, and is named" "$tmp/log"
goes_on "$tmp/cut"
result $? "and the run goes on, with the same bits" "$tmp/log"
