#!/bin/bash
# test.sh MODE TEST...: runs tests built with MODE, a line each, and all output of those that fail.
#
# A test is a program (cmocka, asked for TAP) or a shell script that prints `ok - name` and `not ok - name`; it runs
# in the root of the project with $CAST_BIN holding the programs' directory. Ends with `N passed, N failed`.
#   STOP=1            stop at the first test that fails
#   TEST_TIMEOUT=900  seconds that one test may take
set -u
cd "$(dirname "$0")/.." || exit 1
mode=${1:?usage: test.sh MODE TEST...}
shift
export CAST_BIN=$PWD/build/$mode CAST_MODE=$mode CMOCKA_MESSAGE_OUTPUT=TAP
log=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$log"' EXIT

if [ "$mode" = tsan ]; then
    # Archer tells TSan what OpenMP synchronises; without it, correct programs look like races.
    libs=$(cd "$("${CC:-clang}" -print-resource-dir)/../.." && pwd)
    [ -e "$libs/libarcher.so" ] || { echo "test: no libarcher.so in $libs: Debian package libomp-dev" >&2; exit 1; }
    export LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
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
            else if (/not ok/) failed++
            else passed++
        }
        END {
            lost = planned - passed - failed - skipped
            print passed + 0, failed + (lost > 0 ? lost : 0), skipped + 0
        }' "$1"
}

passed=0 failed=0 skipped=0
run() {
    local name=$1 out=$log/out status counts p f s began=${EPOCHREALTIME/,/.} line
    shift
    timeout --foreground "${TEST_TIMEOUT:-900}" "$@" >"$out" 2>&1
    status=$?
    counts=$(count "$out")
    read -r p f s <<<"$counts"
    if [ $status -eq 124 ]; then echo "timed out after ${TEST_TIMEOUT:-900} s" >>"$out"; fi
    if [ "$f" -eq 0 ] && [ $status -ne 0 ]; then
        echo "exit status $status" >>"$out"
        f=1
    elif [ $((p + f + s)) -eq 0 ]; then
        echo "no test ran" >>"$out"
        f=1
    fi
    line=$(printf '%-44s %4d passed' "$name" "$p")
    [ "$f" -eq 0 ] || line="$line, $f FAILED"
    [ "$s" -eq 0 ] || line="$line, $s skipped"
    awk -v line="$line" -v a="$began" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%-72s %6.1f s\n", line, b - a }'
    sed -n 's/^# \(.*worst error [^ ]*\).*/    \1/p' "$out"
    [ "$s" -eq 0 ] || grep -o '# SKIP.*' "$out" | sed 's/^# SKIP/    skipped:/'
    [ "$f" -eq 0 ] || sed 's/^/    /' "$out"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Gradient checks of whole models and of every mechanism take minutes of one processor: they begin first, beside the
# others, and their turn is the last.
takes_minutes() { [[ $1 == */grad_attention || $1 == */grad_model ]]; }
start() { # start TEST
    env CAST_BIN="$PWD/${1%%/tests/*}" "$1" >"$log/${1##*/}" 2>&1
    echo $? >"$log/${1##*/}.status"
}
wait_for() { # wait_for TEST: its output, and its status
    while [ ! -s "$log/${1##*/}.status" ]; do sleep 0.2; done
    cat "$log/${1##*/}"
    return "$(<"$log/${1##*/}.status")"
}
export -f wait_for
export log

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

others=() late=()
for test; do
    if takes_minutes "$test"; then late+=("$test"); else others+=("$test"); fi
done
for test in "${late[@]}"; do start "$test" & done
for test in "${others[@]}" "${late[@]}"; do
    name=${test#build/}
    name=${name/tests\//}
    case $test in
    */race_canary)
        canary "$test"
        run "$name" cat "$log/canary"
        ;;
    */grad_attention | */grad_model) run "$name" bash -c "wait_for $(printf %q "$test")" ;;
    *.sh) run "$mode/$name" bash "$test" ;;
    *) run "$name" env CAST_BIN="$PWD/${test%%/tests/*}" "$test" ;; # the programs of its own build
    esac
    if [ "${STOP:-}" ] && [ $failed -gt 0 ]; then break; fi
done
[ $skipped -eq 0 ] || echo "$skipped skipped, for the reasons above"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
