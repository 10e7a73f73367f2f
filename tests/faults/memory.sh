#!/bin/bash
# Memory that runs out: in every program each allocation that is unlike those before it fails once, of its own code and
# of the libraries' (memory.c says how). The program says "out of memory" and ends with status 71 (71 too of a run of a
# sweep, which goes on and ends with 1), or gets by and ends as it always does; and the next start goes on.
#   FAULTS=4   allocations of each program that are tried, evenly spread; `all` of them takes half an hour
#   ONLY=...   of these programs alone, by names of tests/faults.sh
set -u
faults=${FAULTS:-4}
. tests/faults.sh
preload=$tmp/memory.so # in a place without blanks
ln -s "$bin/tests/faults/memory.so" "$preload"
if [ "${CAST_MODE:-release}" != release ]; then
    echo "ok - memory that runs out # SKIP sanitizers have allocators of their own"
    exit 0
fi
make_starts

# The numbers of the allocations of a run that are to fail.
list_places() { # list_places NAME
    begin "$1"
    run "$1" env LD_PRELOAD="$preload" FAULT_LIST="$tmp/$1.places"
    sort -nu "$tmp/$1.places" |
        awk -v most="$faults" '{ n[NR] = $1 } END {
            step = most == "all" || most >= NR ? 1 : NR / most
            for (i = 1; i <= NR; i += step) print n[int(i)] }'
}

fail_at() { # fail_at NAME NUMBER
    begin "$1"
    rm -f "$tmp/$1.met"
    run "$1" env LD_PRELOAD="$preload" FAULT_AT="$2" FAULT_MET="$tmp/$1.met" timeout 60
    local status=$? verdict
    verdict=$(judge "$1" $status)
    case $1-$verdict in
    *-same | *-71 | sweep-1) ;;
    *-WRONG*) ;;
    *) verdict="WRONG: status $verdict" ;;
    esac
    [ "$verdict" != same ] || [ -e "$tmp/$1.met" ] || verdict=unmet
    [ "$verdict" = same ] || [ "$verdict" = unmet ] || grep -q 'out of memory' "$tmp/$1.err" ||
        verdict="WRONG: not a word of memory, but: $(tail -n 1 "$tmp/$1.err")"
    echo "$verdict"
    goes_on "$1"
}

# Counts of what came of it, and what is wrong.
try() { # try NAME
    local name=$1 n
    make_want "$name" || return 1
    list_places "$name" >"$tmp/$name.numbers"
    while read -r n; do fail_at "$name" "$n" | sed "s/^WRONG/WRONG: allocation $n/"; done <"$tmp/$name.numbers" >"$tmp/$name.verdicts"
    verdicts "$name"
}

each_run try "memory runs out in"
