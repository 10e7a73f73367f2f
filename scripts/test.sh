#!/bin/bash
# test.sh MODE TEST...: runs tests built with MODE, as many at a time as there are processors, and reports them in their
# order, a line each, with all output of those that fail.
#
# A test is a program (cmocka, asked for TAP) or a shell script that prints `ok - name` and `not ok - name`; it runs
# in the root of the project with $CAST_BIN holding the programs' directory. Ends with `N passed, N failed`.
#   STOP=1            stop at the first test that fails
#   TEST_TIMEOUT=900  seconds that one test may take
set -u
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' && exit ;; esac
export LC_ALL=C.UTF-8 # numbers with a point, whatever the user writes
unset CDPATH
cd "$(dirname "$0")/.." || exit 1
mode=${1:?usage: test.sh MODE TEST...}
shift
export CAST_BIN=$PWD/build/$mode CAST_MODE=$mode CMOCKA_MESSAGE_OUTPUT=TAP
log=$(mktemp -d)
pool=''
# Programs of a test that timed out may heed no signal but this.
end_pool() { if kill -- -"$pool"; then sleep 1; kill -KILL -- -"$pool"; fi 2>/dev/null; }
trap '[ -z "$pool" ] || end_pool; rm -rf "$log"' EXIT

if [ "$mode" = tsan ]; then
    export TSAN_OPTIONS="ignore_noninstrumented_modules=1 allocator_may_return_null=1 ${TSAN_OPTIONS:-}"
elif [ "$mode" = asan ]; then
    export ASAN_OPTIONS="allocator_may_return_null=1 ${ASAN_OPTIONS:-}"
fi

# Prints "passed failed skipped" of one test's TAP. A plan (1..N) that was not fulfilled is failures.
count() {
    awk '
        /^1\.\.[0-9]+$/ { planned += substr($0, 4) }
        /^(not )?ok( [0-9]+)? (-|# SKIP)/ || /[^A-Za-z](not )?ok [0-9]+ (-|# SKIP)/ {
            if (/# SKIP/) skipped++
            else if (/^[^-]*not ok/) failed++
            else passed++
        }
        END {
            lost = planned - passed - failed - skipped
            print passed + 0, failed + (lost > 0 ? lost : 0), skipped + 0
        }' "$1"
}

# Into $log/N: what test N prints, its status last, and the seconds it took.
do_test() { # do_test N COMMAND...
    local at=$log/$1 began=${EPOCHREALTIME/,/.} status
    shift
    timeout --foreground -k 10 "${TEST_TIMEOUT:-900}" "$@" >"$at" 2>&1
    status=$?
    awk -v a="$began" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.1f\n", b - a }' >"$at.seconds"
    echo $status >"$at.status"
}

# TSan must see a race that was put there, or its silence means nothing.
canary() {
    "$1" >"$log/race" 2>&1
    if grep -q 'ThreadSanitizer: data race' "$log/race"; then
        echo "ok - the planted race is reported"
    else
        echo "not ok - the planted race is not reported"
        cat "$log/race"
    fi >"$log/canary"
}

start() { # start N TEST
    case $2 in
    */race_canary)
        canary "$2"
        do_test "$1" cat "$log/canary"
        ;;
    *.sh) do_test "$1" bash "$2" ;;
    *) do_test "$1" env CAST_BIN="$PWD/${2%%/tests/*}" "$2" ;; # the programs of its own build
    esac
}

# As many tests at a time as there are processors. What takes minutes begins first.
takes_minutes() { [[ $1 == */grad_attention || $1 == */grad_model ]]; }
start_all() {
    local i running=0 long
    for long in true false; do
        for ((i = 0; i < ${#tests[@]}; i++)); do
            if takes_minutes "${tests[i]}"; then [ $long = true ] || continue; else [ $long = false ] || continue; fi
            [ $running -lt "$processors" ] || wait -n
            running=$((running < processors ? running + 1 : running))
            start $i "${tests[i]}" &
        done
    done
    wait
}

passed=0 failed=0 skipped=0
report() { # report N NAME
    local out=$log/$1 status counts p f s line
    while [ ! -s "$out.status" ] && kill -0 $pool 2>/dev/null; do sleep 0.1; done
    status=$(cat "$out.status" 2>/dev/null) # none where it could not be written
    status=${status:-1}
    counts=$(count "$out")
    read -r p f s <<<"$counts"
    if [ "$status" -eq 124 ]; then echo "timed out after ${TEST_TIMEOUT:-900} s" >>"$out"; fi
    if [ "$f" -eq 0 ] && [ "$status" -ne 0 ]; then
        echo "exit status $status" >>"$out"
        f=1
    elif [ $((p + f + s)) -eq 0 ]; then
        echo "no test ran" >>"$out"
        f=1
    fi
    line=$(printf '%-44s %4d passed' "$2" "$p")
    [ "$f" -eq 0 ] || line="$line, $f FAILED"
    [ "$s" -eq 0 ] || line="$line, $s skipped"
    printf '%-72s %6.1f s\n' "$line" "$(<"$out.seconds")"
    sed -n 's/^# \(.*worst error [^ ]*\).*/    \1/p' "$out"
    [ "$s" -eq 0 ] || grep -o '# SKIP.*' "$out" | sed 's/^# SKIP/    skipped:/'
    [ "$f" -eq 0 ] || sed 's/^/    /' "$out"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

tests=("$@")
processors=$(scripts/processors.sh)
set -m # in a group of processes that can be ended
start_all &
pool=$!
set +m
for ((i = 0; i < ${#tests[@]}; i++)); do
    name=${tests[i]#build/}
    name=${name/tests\//}
    case $name in *.sh) name=$mode/$name ;; esac
    report $i "$name"
    if [ "${STOP:-}" ] && [ $failed -gt 0 ]; then break; fi
done
[ $skipped -eq 0 ] || echo "$skipped skipped, for the reasons above"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
