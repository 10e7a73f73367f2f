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

find_runs() { # DIR: fills runs with those in it, one level or two down
    mapfile -t runs < <(find -L "${1%/}" -mindepth 2 -maxdepth 3 -name metrics.jsonl -printf '%h\n' | sort)
    [ ${#runs[@]} -gt 0 ] || { echo "results.sh: $1: no run there has a metrics.jsonl" >&2; exit 66; }
}

keep() { # DIR
    local run to
    find_runs "$1"
    for run in "${runs[@]}"; do
        to=results/metrics/$(basename "$1")/${run#"${1%/}"/}
        mkdir -p "$to"
        cp "$run"/{config.json,env.json,metrics.jsonl} "$to"
        echo "$to"
    done
}

losses() { # DIR N
    local run
    find_runs "$1"
    printf '| run | first | last |\n| --- | ---: | ---: |\n'
    for run in "${runs[@]}"; do
        sed -nE 's/^\{"kind": "train", "step": ([0-9]+),.* "loss": ([0-9.e+-]+),.*/\1 \2/p' "$run/metrics.jsonl" |
            awk -v n="$2" -v name="${run##*/}" '
            { while (lines && step[lines] >= $1) lines--; step[++lines] = $1; loss[lines] = $2 }
            END {
                if (lines < n) { print name ": has " lines " lines of training, not " n >"/dev/stderr"; exit 1 }
                for (i = 1; i <= n; i++) { first += loss[i]; last += loss[lines - n + i] }
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
