#!/bin/bash
# Programs that are killed: at random moments, again and again, each time started anew until it has come to its end.
# After each kill the files that have their names are whole; in the end weights, metrics (but for times) and data have
# the bits of a program that was left alone, and nothing is beside them.
#   KILLS=6    of all programs together; 300 take ten minutes
#   SEED=1     of the moments
#   ONLY=...   of these programs alone: train, threads, sweep, listops, pathfinder, folders
set -u
kills=${KILLS:-6} seed=${SEED:-1} only=${ONLY:-train threads sweep listops pathfinder folders}
ONLY=''
. tests/faults.sh
long='train.eval_every=100 train.save_minutes=0.01 train.log_every=20 train.nan=rollback'
commands[train]+=" train.steps=1500 $long"
commands[threads]+=" train.steps=1500 $long"
commands[sweep]="cast_sweep tiny.json train.lr=1e-3,2e-3 --out sweep --threads 1 train.steps=1000 $long"
commands[listops]="cast_data generate listops --out made --tsv made --train 3000 --val 300 --test 300 --threads 1"
commands[pathfinder]="cast_data generate pathfinder --out made --png tree --train 200 --val 20 --test 20 --threads 1"
make_starts
read -ra names <<<"$only"
kills=$(((kills + ${#names[@]} - 1) / ${#names[@]})) # of each

# What it ended with.
ended_with() { # ended_with NAME
    hashes "$1"
    lines "$1"
}

# Starts it, and after so many seconds kills all its processes, or the first alone and waits for the others. Its status.
start_and_kill() { # start_and_kill NAME SECONDS all|first
    local words pid status
    read -ra words <<<"${commands[$1]}"
    (cd "$tmp/$1" && PATH=$bin:$PATH exec setsid "${words[@]}") >"$tmp/$1.out" 2>"$tmp/$1.err" </dev/null &
    pid=$!
    sleep "$2"
    if [ "$3" = all ]; then kill -KILL -- -$pid; else kill -KILL $pid; fi
    wait $pid
    status=$?
    # What nobody waited for stays a zombie where process 1 does not: that has ended, too.
    while cat /proc/[0-9]*/stat | grep -qE "^[0-9]+ \(.*\) [^ZX] [0-9]+ $pid "; do sleep 0.01; done
    return $status
} 2>/dev/null

# In milliseconds.
now() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

same_end() { # same_end NAME
    ended_with "$1" | diff "$tmp/$1.end" - >"$tmp/$1.diff" && return
    echo "WRONG: another end: $(head -c 300 "$tmp/$1.diff")"
    return 1
}

# Until it was killed so often, and then to its end. Prints how often it came to its end.
kill_often() { # kill_often NAME MILLISECONDS
    local name=$1 killed=0 ends=1 ms status half saved whom=(all first)
    begin "$name"
    while [ $killed -lt "$kills" ]; do
        ms=$(((RANDOM << 15 | RANDOM) * $2 >> 30))
        start_and_kill "$name" "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))" "${whom[RANDOM % 2]}"
        status=$?
        case $status in
        137) killed=$((killed + 1)) ;;
        0) same_end "$name" && begin "$name" && ends=$((ends + 1)) || return 1 ;;
        *) echo "WRONG: status $status after $killed kills: $(tail -n 1 "$tmp/$name.err")" && return 1 ;;
        esac
        half=$(half_written "$name")
        [ -z "$half" ] || { echo "WRONG: $half is half-written after $killed kills" && return 1; }
    done
    saved=$(find "$tmp/$name/run" -name last.safetensors 2>/dev/null)
    run "$name" || { echo "WRONG: status $? in the end: $(tail -n 1 "$tmp/$name.err")" && return 1; }
    [ -z "$saved" ] || resumed "$name" || { echo "WRONG: it begins anew beside a checkpoint" && return 1; }
    same_end "$name" && echo "$ends"
}

try() { # try NAME
    local name=$1 began most ends
    RANDOM=$((seed * 1000 + $(cksum <<<"$name" | cut -d ' ' -f 1) % 1000))
    began=$(now)
    make_want "$name" || return 1
    most=$((($(now) - began) * 3 / 4))
    ended_with "$name" >"$tmp/$name.end"
    kill_often "$name" $most >"$tmp/$name.ends" # in this process, whose RANDOM has the seed
    ends=$(<"$tmp/$name.ends")
    if ! [[ $ends =~ ^[0-9]+$ ]]; then echo "${ends:-no end}" && return 1; fi
    echo "$kills times, and $ends times the same end"
}

each_run try "killed:"
