#!/bin/bash
# fuzz.sh SECONDS TARGET...: runs libFuzzer on these targets of tests/fuzz, one after the other, and tells which lines
# of their readers were reached. `make fuzz` builds them first (build/fuzz, build/cover) and calls this.
#
# A finding is a crash, a report of a sanitizer, a leak, more than 10 seconds or more than 512 MB for one input; its
# input stays in build/fuzz/found. What reached new code stays in build/fuzz/corpus, where the next run begins.
# tests/fuzz/TARGET.dict, where there is one, has words that libFuzzer would hardly guess.
# To look at a finding: make MODE=asan tests && build/asan/tests/fuzz/fuzz_npy build/fuzz/found/npy-crash-...
set -u
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' && exit ;; esac
export LC_ALL=C.UTF-8 # numbers with a point, whatever the user writes
unset CDPATH
cd "$(dirname "$0")/.." || exit 1
seconds=${1:?usage: fuzz.sh SECONDS TARGET...}
shift
found=build/fuzz/found
mkdir -p "$found"
TMPDIR=$(mktemp -d -p /dev/shm cast_fuzz.XXXXXX) || exit 1 # targets write small files all the time
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export ASAN_OPTIONS="quarantine_size_mb=16:allocator_may_return_null=0:${ASAN_OPTIONS:-}"
limits=(-timeout=10 -rss_limit_mb=512 -malloc_limit_mb=512 -report_slow_units=600)
findings=0

# Whether a new file in found/ is a finding: an input that "timed out" because the whole process was stopped, or the
# machine busy, does not do so again.
is_finding() {
    case $2 in
    *-timeout-*) ! "build/fuzz/tests/fuzz/fuzz_$1" "${limits[@]}" "$2" >/dev/null 2>&1 ;;
    esac
}

# fuzz TARGET SECONDS: one stretch of libFuzzer. Sets runs; fails if there is a finding.
fuzz() {
    local name=$1 log=build/fuzz/$1.log input bad=0 words=()
    [ ! -e "tests/fuzz/$name.dict" ] || words=("-dict=tests/fuzz/$name.dict")
    touch "$TMPDIR/began"
    # What a target prints is dropped, or it would fill the log; reports are kept.
    "build/fuzz/tests/fuzz/fuzz_$name" "${limits[@]}" "${words[@]}" -max_total_time="$2" -max_len=8192 \
        -close_fd_mask=3 -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$found/$name-" \
        "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 && stopped='' || stopped=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [ "$stopped" ] || return 0
    for input in "$found/$name"-*; do
        [ "$input" -nt "$TMPDIR/began" ] || continue
        if is_finding "$name" "$input"; then
            echo "$name: FINDING: $input ($log)"
            bad=1
        else
            rm "$input"
            stopped=
        fi
    done
    [ $bad -eq 0 ] && [ -z "$stopped" ] && return
    [ $bad -eq 1 ] || echo "$name: FINDING: it stopped with status $stopped ($log)"
    return 1
}

# "src/io/npy.c 94.3 %" of each source that the target says it covers, joined by commas.
coverage() {
    local binary=build/cover/tests/fuzz/fuzz_$1 profile=build/cover/$1.profdata sources
    read -ra sources < <(sed -n 's/^.*Covers: \(.*\) \*\/.*/\1/p' "tests/fuzz/fuzz_$1.c")
    if ! LLVM_PROFILE_FILE=$TMPDIR/raw "$binary" "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" >/dev/null 2>&1 ||
        ! "$(clang -print-prog-name=llvm-profdata)" merge -o "$profile" "$TMPDIR/raw"; then
        echo "${sources[*]}: not counted, $binary fails on the corpus"
        return
    fi
    "$(clang -print-prog-name=llvm-cov)" export "$binary" -instr-profile="$profile" -format=lcov -summary-only \
        "${sources[@]}" | awk -F: -v root="$PWD/" '
            /^SF:/ { file = substr($2, index($2, root) == 1 ? length(root) + 1 : 1) }
            /^LF:/ { all = $2 }
            /^LH:/ { printf "%s%s %.1f %%", (n++ ? ", " : ""), file, 100 * $2 / all }'
}

for name; do
    [ -x "build/fuzz/tests/fuzz/fuzz_$name" ] || { echo "fuzz: there is no tests/fuzz/fuzz_$name.c" >&2; exit 64; }
    mkdir -p "build/fuzz/corpus/$name"
    what='no finding' total=0 began=$SECONDS end=$((SECONDS + seconds))
    while left=$((end - SECONDS)) && [ $left -gt 0 ]; do # 0 would be no limit
        fuzz "$name" $left || what='FINDINGS'
        total=$((total + ${runs:-0}))
        [ "$what" = 'no finding' ] || break
    done
    [ "$what" = 'no finding' ] || findings=$((findings + 1))
    echo "$name: $((SECONDS - began)) s, $total runs, $what; lines of $(coverage "$name")"
done
[ $findings -eq 0 ]
