#!/bin/bash
# coverage.sh TEST...: runs tests built with MODE=cover, and tells how much of each file of src/ they reach; the lines
# that they do not are listed in build/cover/missed. `make coverage` builds them first and calls this, with all but the
# scripts of tests/faults, which count system calls, and of ranks, which build programs of their own.
#
# What a process did that was killed, or that ended by _exit, as children of cast_sweep do, is not seen.
set -u
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d' && exit ;; esac
unset CDPATH
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || { echo "usage: coverage.sh TEST..." >&2; exit 64; }
profiles=$PWD/build/cover/profiles
all=build/cover/all.profdata
rm -rf "$profiles" && mkdir -p "$profiles" || exit 1

# Processes of one program add up in a few files of its own.
LLVM_PROFILE_FILE=$profiles/%8m scripts/test.sh cover "$@"
status=$?
objects=(build/cover/cast_*[!1])
for test; do
    case $test in build/*) objects+=("$test") ;; esac
done
rest=("${objects[@]:1}")
args=("${objects[0]}" "${rest[@]/#/-object=}" "-instr-profile=$all" '-ignore-filename-regex=/tests/')
cov=$(clang -print-prog-name=llvm-cov)
"$(clang -print-prog-name=llvm-profdata)" merge -sparse -failure-mode=all -o $all "$profiles"/* || exit 1
"$cov" show "${args[@]}" 2>/dev/null | awk -F'|' -v root="$PWD/" '
    /^\/.*:$/ { file = substr($0, length(root) + 1, length($0) - length(root) - 1) }
    $2 ~ /^ *0$/ { line = $1 + 0; sub(/^[^|]*[|][^|]*[|]/, ""); print file ":" line ":" $0 }' >build/cover/missed
"$cov" export "${args[@]}" -format=lcov -summary-only 2>/dev/null | awk -F: -v root="$PWD/" '
    /^SF:/ { file = substr($2, index($2, root) == 1 ? length(root) + 1 : 1) }
    /^LF:/ { lines = $2; all += $2 }
    /^LH:/ { hit += $2; if (lines) printf "%-32s %5.1f %% of %4d lines\n", file, 100 * $2 / lines, lines }
    END { printf "%-32s %5.1f %% of %d lines; those missed are in build/cover/missed\n", "src/", 100 * hit / all, all }'
exit $status
