#!/bin/bash
# A program built for another processor stops at its start, says why, and exits with EX_OSERR.
set -u
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
case $(uname -m) in
x86_64) ;;
*)
    echo "ok - refuses a lesser processor # SKIP only x86-64 is checked"
    exit 0
    ;;
esac

# xop was gone before the first processor that has avx512f, so none has both.
cat >"$tmp/main.c" <<'END'
#include <stdio.h>
#include "core/cpu.h"
int main(void) { return puts(cpu_describe()) == EOF; }
END
read -ra cc <<<"${CC:-gcc}"
build() {
    "${cc[@]}" -std=c11 -D_POSIX_C_SOURCE=200809L -Isrc -DCPU_FEATURES="\"$1\"" -DCPU_MARCH='"other"' -DCPU_FLAGS='""' \
        src/core/cpu.c "$tmp/main.c" -o "$tmp/program"
}

if build "sse3" && "$tmp/program" >"$tmp/out" && [ -s "$tmp/out" ]; then
    echo "ok - starts where nothing is missing"
else
    echo "not ok - starts where nothing is missing"
fi

build "sse3 xop avx512f"
"$tmp/program" >"$tmp/out" 2>"$tmp/err"
status=$?
cat "$tmp/err"
if [ $status -eq 71 ] && [ ! -s "$tmp/out" ] && grep -q 'MARCH=other' "$tmp/err" && grep -q 'make MARCH=native' "$tmp/err"; then
    echo "ok - refuses a lesser processor"
else
    echo "not ok - refuses a lesser processor: exit status $status"
fi
