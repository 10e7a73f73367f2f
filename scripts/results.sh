#!/bin/bash
# The tables and plots of results/ and the README, from committed metrics.
#   results.sh               rebuilds them all: in the pages, what stands between
#                                <!-- made by: COMMAND -->
#                                <!-- end -->
#                            becomes what COMMAND prints when it is run at the root
#   results.sh keep DIR      keeps of the runs in DIR what reports read, in results/metrics/
#   results.sh losses DIR N  of each run in DIR: mean training loss of the first N lines, and of the last N
set -eu
cd "$(dirname "$0")/.."

rebuild() { # PAGE
    awk '
        /^<!-- end -->$/ { between = 0 }
        !between { print }
        /^<!-- made by: .* -->$/ {
            between = 1
            fflush()
            if (system(substr($0, 15, length($0) - 18)) != 0) exit failed = 1
        }
        END {
            if (between && !failed) print FILENAME ": a table without <!-- end -->" >"/dev/stderr"
            exit between || failed
        }' "$1" >"$1.new" || { rm -f "$1.new"; return 1; }
    cmp -s "$1" "$1.new" || echo "$1: rebuilt"
    mv "$1.new" "$1"
}

keep() { # DIR
    local run to
    for run in "$1"/*/metrics.jsonl; do
        run=$(dirname "$run")
        to=results/metrics/$(basename "$1")/$(basename "$run")
        mkdir -p "$to"
        cp "$run"/{config.json,env.json,metrics.jsonl} "$to"
        echo "$to"
    done
}

losses() { # DIR N
    local run
    printf '| run | first | last |\n| --- | ---: | ---: |\n'
    for run in "$1"/*/metrics.jsonl; do
        sed -nE 's/^\{"kind": "train",.* "loss": ([0-9.e+-]+),.*/\1/p' "$run" | awk -v n="$2" -v name="$(basename "$(dirname "$run")")" '
            { loss[NR] = $1 }
            END {
                for (i = 1; i <= n; i++) { first += loss[i]; last += loss[NR - n + i] }
                printf "| %s | %.3f | %.3f |\n", name, first / n, last / n
            }'
    done
}

case $#,${1-} in
    0,) for page in README.md results/*.md; do rebuild "$page"; done ;;
    2,keep) keep "$2" ;;
    3,losses) losses "$2" "$3" ;;
    *) sed -n '/^#   /s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
esac
